//! The `kubectl-kapr` binary: everything lives in the library.

fn main() -> std::process::ExitCode {
    kapr::main()
}
