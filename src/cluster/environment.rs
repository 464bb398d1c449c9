//! What the connection takes from the process environment, read once, so that everything behind it is a function of
//! its arguments. May not: read files or decide anything.

use std::path::PathBuf;

/// The environment variables that matter for a connection. Tests build it by hand.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The non-empty entries of `$KUBECONFIG`, in order; `None` when the variable is unset or empty.
    pub kubeconfig: Option<Vec<PathBuf>>,
    /// The home directory, for `~/.kube/config`.
    pub home: Option<PathBuf>,
    /// `$HTTPS_PROXY`, else `$https_proxy`.
    pub https_proxy: Option<String>,
    /// `$NO_PROXY`, else `$no_proxy`.
    pub no_proxy: Option<String>,
    /// Whether the variables of a pod are set, which is what "in a cluster" means to client-go too.
    pub in_cluster: bool,
    /// Whether somebody can answer a credential plugin's questions.
    pub stdin_is_terminal: bool,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn from_process() -> Self {
        use std::io::IsTerminal as _;
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let kubeconfig = std::env::var_os("KUBECONFIG").and_then(|list| {
            let paths: Vec<PathBuf> =
                std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
            (!paths.is_empty()).then_some(paths)
        });
        Self {
            kubeconfig,
            home: std::env::home_dir(),
            https_proxy: text("HTTPS_PROXY").or_else(|| text("https_proxy")),
            no_proxy: text("NO_PROXY").or_else(|| text("no_proxy")),
            in_cluster: text("KUBERNETES_SERVICE_HOST").is_some() && text("KUBERNETES_SERVICE_PORT").is_some(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
        }
    }
}
