//! The one integration test binary.

// `cfg(test)` tells clippy that helper functions are tests too.
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod captured;
#[cfg(test)]
mod cluster_edge;
#[cfg(test)]
mod connect;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod e2e;
#[cfg(test)]
mod krew;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod runs;
