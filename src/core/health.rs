//! Is the pod well after its resize? Hard signals only, from pod status: restarts that the resize does not explain, a
//! crash loop, an out-of-memory kill.

use std::collections::BTreeMap;

use super::pod::{ContainerEnd, ContainerState, PodView};

/// What is wrong with one container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unhealthy {
    pub container: String,
    pub message: String,
}

/// Restart counts by container, as far as they are not zero.
pub type Restarts = BTreeMap<Box<str>, u32>;

/// The restart counts of a pod as it is.
pub fn restarts(view: &PodView) -> Restarts {
    view.containers.iter().filter(|(_, c)| c.restart_count > 0).map(|(n, c)| (n.clone(), c.restart_count)).collect()
}

/// Reasons of a waiting container that no patience cures.
const HOPELESS: [&str; 4] =
    ["CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError"];

/// Compares a pod with its restart counts from before the run touched it. `expected` is how many restarts the resizes of
/// this run explain, per container: one for each resize that its `resizePolicy` answers with a restart. Exit code 137
/// alone is no evidence: a container that ignores TERM ends with it when the kubelet restarts it on purpose.
pub fn judge(view: &PodView, before: &Restarts, expected: &Restarts) -> Option<Unhealthy> {
    for (name, container) in &view.containers {
        let had = before.get(name).copied().unwrap_or(0);
        let allowed = expected.get(name).copied().unwrap_or(0);
        let more = container.restart_count.saturating_sub(had);
        let bad = |message: String| Some(Unhealthy { container: name.to_string(), message });
        let ended = match &container.state {
            ContainerState::Terminated(end) => Some(end),
            ContainerState::Running { .. } | ContainerState::Waiting { .. } | ContainerState::Unknown => {
                container.last_end.as_ref().filter(|_| more > 0)
            }
        };
        if ended.is_some_and(|end| &*end.reason == "OOMKilled") {
            return bad("was killed because it ran out of memory (OOMKilled)".to_owned());
        }
        if more > allowed {
            return bad(format!(
                "restarted {}, {} expected{}",
                times(more),
                if allowed == 0 { "none".to_owned() } else { allowed.to_string() },
                ended.map(how).unwrap_or_default()
            ));
        }
        if let ContainerState::Waiting { reason } = &container.state
            && HOPELESS.contains(&&**reason)
        {
            return bad(format!("does not start: {reason}"));
        }
    }
    None
}

fn times(n: u32) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

fn how(end: &ContainerEnd) -> String {
    let reason = if end.reason.is_empty() { "no reason given" } else { &*end.reason };
    format!(" (last end: {reason}, exit code {})", end.exit_code)
}
