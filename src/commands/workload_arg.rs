//! `TYPE/NAME` or `TYPE NAME`, as kubectl takes it.

use clap::Args;

use crate::core::workload::{WorkloadKind, WorkloadRef};
use crate::error::CommandError;

/// The workload on the command line.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArg {
    /// The workload, as TYPE/NAME or TYPE NAME; types are deployment, statefulset, daemonset and replicaset
    #[arg(value_name = "TYPE/NAME", num_args = 1..=2, required = true, add = clap_complete::ArgValueCandidates::new(super::candidates::workloads))]
    pub workload: Vec<String>,
}

/// The same, where none means all.
#[derive(Args, Clone, Debug, Default)]
pub struct OptionalWorkloadArg {
    /// The workload, as TYPE/NAME or TYPE NAME; without it, all of the namespace
    #[arg(value_name = "TYPE/NAME", num_args = 0..=2, add = clap_complete::ArgValueCandidates::new(super::candidates::workloads))]
    pub workload: Vec<String>,
}

impl WorkloadArg {
    pub fn resolve(&self, namespace: &str) -> Result<WorkloadRef, CommandError> {
        parse(&self.workload, namespace)
    }
}

impl OptionalWorkloadArg {
    pub fn resolve(&self, namespace: &str) -> Result<Option<WorkloadRef>, CommandError> {
        if self.workload.is_empty() { Ok(None) } else { parse(&self.workload, namespace).map(Some) }
    }
}

/// Reads the words of a workload.
pub fn parse(words: &[String], namespace: &str) -> Result<WorkloadRef, CommandError> {
    let form = "write TYPE/NAME, such as deployment/web";
    let (kind, name) = match words {
        [one] => {
            one.split_once('/').ok_or_else(|| CommandError::usage(format!("{one:?} names no workload: {form}")))?
        }
        [kind, name] if !name.contains('/') => (kind.as_str(), name.as_str()),
        _ => return Err(CommandError::usage(format!("{:?} names no workload: {form}", words.join(" ")))),
    };
    let known = WorkloadKind::parse(kind).ok_or_else(|| {
        let sentence = format!(
            "{kind:?} cannot be resized in place: known types are deployment, statefulset, daemonset and replicaset"
        );
        CommandError::usage(sentence)
    })?;
    if name.is_empty() || name.contains('/') {
        return Err(CommandError::usage(format!("{:?} names no workload: {form}", words.join(" "))));
    }
    Ok(WorkloadRef { kind: known, namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let words = text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        parse(&words, "shop").map(|w| format!("{} {}", w.namespace, w)).map_err(|e| e.error.to_string())
    }

    #[rstest]
    #[case("deploy/web", "shop deployment/web")]
    #[case("deployments.apps/web", "shop deployment/web")]
    #[case("sts web", "shop statefulset/web")]
    #[case("DaemonSet/agent", "shop daemonset/agent")]
    fn taken(#[case] text: &str, #[case] want: &str) {
        assert_eq!(read(text).unwrap(), want);
    }

    #[rstest]
    #[case("web")]
    #[case("deploy/")]
    #[case("job/x")]
    #[case("deploy/a/b")]
    #[case("deploy a/b")]
    fn refused(#[case] text: &str) {
        assert!(read(text).is_err(), "{text:?} was accepted");
    }
}
