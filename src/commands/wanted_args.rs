//! Where the numbers come from: `-f` and `--set`, the same for `rollout`, `plan` and `revision`.

use std::io;

use clap::Args;

use super::policy_flags::PolicyFlags;
use super::workload_arg::parse;
use crate::core::policy::Policy;
use crate::core::recommendation::Recommendation;
use crate::error::{CommandError, CommandResult};
use crate::source::{Sources, from_set, load};

#[derive(Args, Clone, Debug, Default)]
pub struct WantedArgs {
    /// The workload, as TYPE/NAME or TYPE NAME; with -f, the recommendation names it
    #[arg(value_name = "TYPE/NAME", num_args = 0..=2, add = clap_complete::ArgValueCandidates::new(super::candidates::workloads))]
    pub workload: Vec<String>,
    /// File, directory, URL or - with recommendations; may be repeated
    #[arg(short, long, value_name = "FILE")]
    pub filename: Vec<String>,
    /// Look into the folders of a directory given with -f too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// New values of one container, as CONTAINER=requests.cpu=250m,limits.memory=256Mi; may be repeated
    #[arg(long, value_name = "VALUES")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub policy: PolicyFlags,
}

/// A recommendation with its settings decided: flags win over the file, the file over the defaults.
#[derive(Clone, Debug)]
pub struct Decided {
    pub recommendation: Recommendation,
    pub policy: Policy,
    pub origin: String,
}

impl WantedArgs {
    /// Reads the sources. At least one recommendation comes back.
    pub async fn read(&self, namespace: &str) -> CommandResult<Vec<Decided>> {
        let named = if self.workload.is_empty() { None } else { Some(parse(&self.workload, namespace)?) };
        let wanted = match (self.filename.is_empty(), self.set.is_empty()) {
            (true, true) => {
                let sentence = "no recommendation was given: name a file with -f, or values with --set";
                return Err(CommandError::usage(sentence)
                    .hint("kubectl kapr rollout deployment/web --set app=requests.cpu=250m,limits.memory=256Mi"));
            }
            (false, false) => return Err(CommandError::usage("-f and --set are both given: use one of them")),
            (true, false) => {
                let workload = named.clone().ok_or_else(|| {
                    CommandError::usage("--set needs the workload: write TYPE/NAME, such as deployment/web")
                })?;
                vec![from_set(&self.set, workload)?]
            }
            (false, true) => {
                let sources =
                    Sources { files: &self.filename, recursive: self.recursive, default_namespace: namespace };
                load(&sources, &mut io::stdin()).await?
            }
        };
        let flags = self.policy.patch();
        let decided = wanted
            .into_iter()
            .filter(|one| named.as_ref().is_none_or(|named| *named == one.recommendation.workload))
            .map(|one| Decided {
                policy: flags.over(one.policy.over(Policy::default())),
                recommendation: one.recommendation,
                origin: one.origin.to_string(),
            })
            .collect::<Vec<_>>();
        if decided.is_empty() {
            let named = named.map(|named| named.to_string()).unwrap_or_default();
            return Err(CommandError::usage(format!(
                "no recommendation that was given is for {named} in namespace {namespace:?}"
            )));
        }
        Ok(decided)
    }
}
