//! Values that a shell offers on Tab: names from the kubeconfig, and names from the cluster if it answers at once.
//! Every failure is an empty list: this runs in the middle of a command line. May not: write anything anywhere.

use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _};
use clap_complete::CompletionCandidate;

use super::flags::KubeFlags;
use crate::cluster::connect::{ConnectOptions, Connection, Invocation};
use crate::cluster::environment::Environment;
use crate::cluster::kubeconfig::{self, Loaded};
use crate::cluster::names;

/// The names for `--context`.
pub fn contexts() -> Vec<CompletionCandidate> {
    from_kubeconfig(|loaded| loaded.config.contexts.into_iter().map(|named| named.name).collect())
}

/// The names for `--cluster`.
pub fn clusters() -> Vec<CompletionCandidate> {
    from_kubeconfig(|loaded| loaded.config.clusters.into_iter().map(|named| named.name).collect())
}

/// The names for `--user`.
pub fn users() -> Vec<CompletionCandidate> {
    from_kubeconfig(|loaded| loaded.config.auth_infos.into_iter().map(|named| named.name).collect())
}

/// The names for `--namespace`.
pub fn namespaces() -> Vec<CompletionCandidate> {
    from_cluster(names::namespaces)
}

/// `deployment/web` and the like, for `TYPE/NAME`.
pub fn workloads() -> Vec<CompletionCandidate> {
    from_cluster(names::workloads)
}

/// `pod/web-0` and the like.
pub fn pods() -> Vec<CompletionCandidate> {
    from_cluster(names::pods)
}

fn candidates(names: Vec<String>) -> Vec<CompletionCandidate> {
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn from_kubeconfig(names: impl FnOnce(Loaded) -> Vec<String>) -> Vec<CompletionCandidate> {
    let loaded = kubeconfig::load(&typed(std::env::args()), &Environment::from_process());
    candidates(loaded.map(names).unwrap_or_default())
}

/// A shell waits for us: later than this nobody wants the answer any more.
const PATIENCE: Duration = Duration::from_millis(900);

fn from_cluster<F: Future<Output = Vec<String>>>(ask: impl FnOnce(Connection) -> F) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let asking = async {
        let invocation = Invocation { command: "kubectl kapr completion".to_owned(), ..Invocation::default() };
        match Connection::open(typed(std::env::args()), Environment::from_process(), invocation).await {
            Ok(connection) => ask(connection).await,
            Err(_) => Vec::new(),
        }
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    // A credential plugin may still be running; the process ends without it.
    runtime.shutdown_background();
    candidates(answer.unwrap_or_default())
}

/// The connection flags that stand on the line so far, whatever else is on it.
fn typed(line: impl Iterator<Item = String>) -> ConnectOptions {
    let command = KubeFlags::augment_args(Command::new("kubectl-kapr").ignore_errors(true));
    let words = only_flags_of(&command, line.skip_while(|word| word != "--").skip(2));
    let flags = command
        .try_get_matches_from(std::iter::once("kubectl-kapr".to_owned()).chain(words))
        .and_then(|found| KubeFlags::from_arg_matches(&found));
    flags.map(|flags| flags.connect_options()).unwrap_or_default()
}

/// The words that are flags of the command, with their values. clap stops at the first flag it does not know.
fn only_flags_of(command: &Command, mut words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let (name, has_value) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        let long = name.strip_prefix("--");
        let short = name.strip_prefix('-').filter(|_| long.is_none()).and_then(|rest| rest.chars().next());
        let known = command
            .get_arguments()
            .find(|arg| (long.is_some() && arg.get_long() == long) || (short.is_some() && arg.get_short() == short));
        let Some(arg) = known else { continue };
        let complete = has_value || arg.is_require_equals_set() || (short.is_some() && name.len() > 2);
        let value = if complete { None } else { words.next() };
        kept.push(word);
        kept.extend(value);
    }
    kept
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("kubectl-kapr -- kubectl-kapr rollout --context c -n shop dep")]
    #[case("kubectl-kapr -- kubectl-kapr --context=c rollout deploy/x --steps 1 -nshop --unknown y")]
    #[case("kubectl-kapr -- kubectl-kapr --context c -n shop rollout --from vpa --user")]
    fn flags_on_the_line_are_found(#[case] line: &str) {
        let options = typed(line.split(' ').map(ToOwned::to_owned));
        assert_eq!(options.context.as_deref(), Some("c"), "{line}");
        assert_eq!(options.namespace.as_deref(), Some("shop"), "{line}");
    }

    #[test]
    fn an_empty_line_has_none() {
        assert!(typed(std::iter::once("kubectl-kapr".to_owned())).context.is_none());
    }
}
