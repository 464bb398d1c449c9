//! `kubectl kapr revision`: the identity of a recommendation, computed without a cluster.

use clap::Args;

use super::session::print;
use super::wanted_args::WantedArgs;
use crate::core::exit::Exit;
use crate::core::revision::{Revision, canonical};
use crate::error::CommandResult;

/// Print the revision of a recommendation
///
/// The same on every machine, computed from the file alone.
#[derive(Args, Clone, Debug, Default)]
pub struct RevisionArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Print the text that the revision is the SHA-256 of
    #[arg(long)]
    pub canonical: bool,
}

pub async fn run(args: &RevisionArgs, namespace: &str) -> CommandResult {
    for decided in args.wanted.read(namespace).await? {
        if args.canonical {
            print(&canonical(&decided.recommendation))?;
        } else {
            let workload = &decided.recommendation.workload;
            let revision = Revision::of(&decided.recommendation);
            print(&format!("{revision}  {}  {}/{workload}\n", revision.full(), workload.namespace))?;
        }
    }
    Ok(Exit::Done)
}
