//! `kubectl kapr sandbox`: serves the embedded cluster, so that kubectl can be pointed at it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::session::{print, tell};
use crate::core::exit::Exit;
use crate::error::{CommandError, CommandResult};
use crate::sandbox::{Sandbox, SandboxConfig, Version};

/// Serve the embedded cluster until Ctrl-C, for kubectl and for trying things out
#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// Address to listen on; only loopback addresses are taken, port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Write a kubeconfig for it here
    #[arg(long, value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,
    /// Objects to begin with
    #[arg(short, long, value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    /// The version of Kubernetes it behaves like
    #[arg(long, value_name = "VERSION", value_enum, default_value_t)]
    pub kubernetes: Simulated,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simulated {
    #[default]
    #[value(name = "1.37")]
    V1_37,
    #[value(name = "1.34")]
    V1_34,
    #[value(name = "1.33")]
    V1_33,
}

pub async fn run(args: &SandboxArgs) -> CommandResult {
    if !args.listen.ip().is_loopback() {
        let sentence = format!("{} is not a loopback address: the sandbox knows no passwords", args.listen);
        return Err(CommandError::usage(sentence).hint("use 127.0.0.1:PORT"));
    }
    let version = match args.kubernetes {
        Simulated::V1_37 => Version::V1_37,
        Simulated::V1_34 => Version::V1_34,
        Simulated::V1_33 => Version::V1_33,
    };
    let sandbox = Sandbox::start(SandboxConfig { version, ..SandboxConfig::default() }).await;
    for file in &args.filename {
        let named = |what: String| CommandError::usage(format!("{}: {what}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
        sandbox.apply_yaml(&text).await.map_err(|failure| named(failure.message))?;
    }
    let served = sandbox.serve(args.listen).await?;
    if let Some(path) = &args.write_kubeconfig {
        served.write_kubeconfig(path)?;
        tell(&format!("serving on http://{}; export KUBECONFIG={}\n", served.address(), path.display()));
    } else {
        tell(&format!("serving on http://{}; the kubeconfig follows\n", served.address()));
        print(&served.kubeconfig())?;
    }
    let _ = tokio::signal::ctrl_c().await;
    Ok(Exit::Done)
}
