//! The port to Kubernetes and what stands behind it. `kube::Error` does not leave this folder.
//! May not: decide anything about a rollout.

pub mod connect;
pub mod environment;
pub mod explain;
pub mod kubeconfig;
pub mod link;
mod plugin;
pub mod proxy;
pub mod rights;
pub mod target;
pub mod version;
pub mod warnings;
