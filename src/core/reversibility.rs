//! Can a change be undone in place? What cannot is named, so that `--allow-one-way` is a decision and not an accident.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::resources::{ContainerResources, Key, Resources};

/// What reversibility depends on besides the values.
#[derive(Clone, Debug)]
pub struct Context {
    /// The minor version of the API server: 33 for 1.33.
    pub server_minor: u32,
    /// Containers whose `resizePolicy` for memory is `RestartContainer`: with a restart, 1.33 lets a limit come down.
    pub memory_restarts: BTreeSet<String>,
}

/// A change that the reverse patch could not take back on the running pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "code")]
pub enum OneWay {
    /// 422 `resource requests/limits cannot be removed`.
    AddsKey { container: String, key: Key, value: u64 },
    /// The recommendation adds a limit where there is no request either: the API server adds the request itself.
    ServerAddsRequest { container: String, key: Key, value: u64 },
    /// 1.33 only: 422 `memory limits cannot be decreased unless resizePolicy is RestartContainer`.
    RaisesMemoryLimit { container: String, from: u64, to: u64 },
}

impl fmt::Display for OneWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddsKey { container, key, value } => write!(
                f,
                "container {container:?}: adding {key}={} cannot be undone in place: a request or limit cannot be removed from a running pod",
                key.show(*value)
            ),
            Self::ServerAddsRequest { container, key, value } => write!(
                f,
                "container {container:?}: with the new limit the API server adds {key}={}, which cannot be removed from a running pod",
                key.show(*value)
            ),
            Self::RaisesMemoryLimit { container, from, to } => write!(
                f,
                "container {container:?}: raising limits.memory from {} to {} cannot be undone in place on Kubernetes 1.33: a memory limit only comes down with resizePolicy RestartContainer",
                Key::LimitsMemory.show(*from),
                Key::LimitsMemory.show(*to)
            ),
        }
    }
}

/// The parts of the change from `before` to `target` that cannot be taken back in place, by container and key. Empty:
/// the reverse patch will be accepted. `target` may name only what changes; a container that `before` lacks is skipped,
/// as eligibility refuses it.
pub fn judge(before: &ContainerResources, target: &ContainerResources, context: &Context) -> Vec<OneWay> {
    let pairs = target.iter().filter_map(|(name, wanted)| Some((name, before.get(name)?, wanted)));
    pairs.flat_map(|(name, before, wanted)| judge_container(name, before, wanted, context)).collect()
}

fn judge_container(name: &str, before: &Resources, wanted: &Resources, context: &Context) -> Vec<OneWay> {
    let container = || name.to_owned();
    let mut found = Vec::new();
    let after = before.overlaid(wanted).with_implied_requests();
    for (key, value) in after.present().filter(|(key, _)| before.get(*key).is_none()) {
        found.push(if wanted.get(key).is_some() {
            OneWay::AddsKey { container: container(), key, value }
        } else {
            OneWay::ServerAddsRequest { container: container(), key, value }
        });
    }
    if memory_limit_never_comes_down(context.server_minor)
        && !context.memory_restarts.contains(name)
        && let (Some(from), Some(to)) = (before.get(Key::LimitsMemory), after.get(Key::LimitsMemory))
        && to > from
    {
        found.push(OneWay::RaisesMemoryLimit { container: container(), from, to });
    }
    found
}

/// Up to 1.33 the API server refuses to lower (or add) a memory limit without a restart; 1.34 lets the kubelet decide.
pub const fn memory_limit_never_comes_down(server_minor: u32) -> bool {
    server_minor <= 33
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::core::testing::{any_block, containers};

    fn context(server_minor: u32) -> Context {
        Context { server_minor, memory_restarts: BTreeSet::from(["patient".to_owned()]) }
    }

    #[rstest]
    #[case(37, "app", "requests.cpu=100m", "requests.cpu=200m", &[])]
    #[case(37, "app", "requests.cpu=100m", "limits.cpu=200m",
        &["container \"app\": adding limits.cpu=200m cannot be undone in place: a request or limit cannot be removed from a running pod"])]
    #[case(37, "app", "requests.cpu=100m", "limits.memory=64Mi", &[
        "container \"app\": with the new limit the API server adds requests.memory=64Mi, which cannot be removed from a running pod",
        "container \"app\": adding limits.memory=64Mi cannot be undone in place: a request or limit cannot be removed from a running pod",
    ])]
    #[case(34, "app", "requests.memory=1,limits.memory=64Mi", "limits.memory=128Mi", &[])]
    #[case(33, "app", "requests.memory=1,limits.memory=64Mi", "limits.memory=128Mi",
        &["container \"app\": raising limits.memory from 64Mi to 128Mi cannot be undone in place on Kubernetes 1.33: a memory limit only comes down with resizePolicy RestartContainer"])]
    #[case(33, "patient", "requests.memory=1,limits.memory=64Mi", "limits.memory=128Mi", &[])]
    #[case(33, "app", "requests.memory=1,limits.memory=64Mi", "limits.memory=32Mi", &[])]
    fn sentences(
        #[case] minor: u32,
        #[case] name: &str,
        #[case] before: &str,
        #[case] target: &str,
        #[case] want: &[&str],
    ) {
        let got = judge(&containers(&[(name, before)]), &containers(&[(name, target)]), &context(minor));
        assert_eq!(got.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    }

    proptest! {
        #[test]
        fn a_change_of_keys_that_are_there_can_be_undone(before in any_block(), change in any_block()) {
            let before = before.with_implied_requests();
            let mut kept = change;
            for key in Key::ALL {
                if before.get(key).is_none() {
                    kept.set(key, None);
                }
            }
            let names = |block: Resources| ContainerResources::from([("app".to_owned(), block)]);
            prop_assert_eq!(judge(&names(before), &names(kept), &context(37)), vec![]);
        }

        #[test]
        fn undoing_what_is_not_one_way_adds_nothing(before in any_block(), change in any_block()) {
            let names = |block: Resources| ContainerResources::from([("app".to_owned(), block)]);
            let after = before.overlaid(&change).with_implied_requests();
            if judge(&names(before), &names(change), &context(37)).is_empty() {
                prop_assert_eq!(after.added_to(&before), vec![]);
                prop_assert_eq!(after.overlaid(&before), before);
            }
        }

        #[test]
        fn nothing_changes_nothing_is_one_way(before in any_block()) {
            let before = ContainerResources::from([("app".to_owned(), before.with_implied_requests())]);
            prop_assert_eq!(judge(&before, &before, &context(33)), vec![]);
        }
    }
}
