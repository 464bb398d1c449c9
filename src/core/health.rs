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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::core::testing::pod;

    fn seen(change: impl Fn(&mut crate::core::pod::ContainerView)) -> PodView {
        let mut view = pod(&[("app", "requests.cpu=100m")]);
        change(view.containers.get_mut("app").unwrap());
        view
    }

    fn end(reason: &str, exit_code: i32) -> ContainerEnd {
        ContainerEnd { reason: reason.into(), exit_code }
    }

    fn counts(n: u32) -> Restarts {
        Restarts::from([("app".into(), n)])
    }

    #[rstest]
    #[case(0, 0, None)]
    #[case(2, 0, None)]
    #[case(3, 1, None)]
    #[case(3, 0, Some("restarted once, none expected (last end: Error, exit code 1)"))]
    #[case(5, 1, Some("restarted 3 times, 1 expected (last end: Error, exit code 1)"))]
    fn restarts_beyond_the_expected(#[case] is: u32, #[case] expected: u32, #[case] want: Option<&str>) {
        let view = seen(|c| (c.restart_count, c.last_end) = (is, Some(end("Error", 1))));
        let found = judge(&view, &counts(2.min(is)), &counts(expected));
        assert_eq!(found.map(|ill| ill.message).as_deref(), want);
    }

    #[test]
    fn out_of_memory_counts_even_when_a_restart_is_expected() {
        let view = seen(|c| (c.restart_count, c.last_end) = (1, Some(end("OOMKilled", 137))));
        let found = judge(&view, &Restarts::new(), &counts(1)).unwrap();
        assert!(found.message.contains("OOMKilled"));
    }

    #[test]
    fn exit_code_137_alone_is_no_evidence() {
        let view = seen(|c| (c.restart_count, c.last_end) = (1, Some(end("Error", 137))));
        assert_eq!(judge(&view, &Restarts::new(), &counts(1)), None);
    }

    #[test]
    fn an_old_out_of_memory_kill_is_not_ours() {
        let view = seen(|c| (c.restart_count, c.last_end) = (4, Some(end("OOMKilled", 137))));
        assert_eq!(judge(&view, &counts(4), &Restarts::new()), None);
    }

    #[test]
    fn a_crash_loop_is_hopeless() {
        let view = seen(|c| c.state = ContainerState::Waiting { reason: "CrashLoopBackOff".into() });
        assert_eq!(judge(&view, &Restarts::new(), &counts(1)).unwrap().message, "does not start: CrashLoopBackOff");
    }
}
