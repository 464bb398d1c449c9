//! Sentences that more than one reader says: what changes, what is waited for, how a run ended.
//!
//! Everything returned here is clean (`text::clean`).

use jiff::{SignedDuration, Timestamp};

use super::look::{self, Look};
use super::paint::Paint;
use super::text;
use crate::core::resources::{ContainerResources, Key, Resources};
use crate::core::rollout::event::{PodState, RefusedPod, Started};
use crate::core::rollout::outcome::{Conclusion, Ending, RunResult, Stop};
use crate::core::rollout::waiting::WaitingOn;

/// `app: requests.cpu 100m → 250m, limits.memory 256Mi`, a line for each container: from what the template gives to
/// what the recommendation wants. A value that the template has already stands alone.
pub fn changes(target: &ContainerResources, template: &ContainerResources, arrow: &str) -> Vec<String> {
    let line = |(name, wanted): (&String, &Resources)| {
        let born = template.get(name);
        let values = wanted.present().map(|(key, value)| change(key, value, born, arrow)).collect::<Vec<_>>();
        format!("{}: {}", text::clean(name), values.join(", "))
    };
    target.iter().map(line).collect()
}

fn change(key: Key, value: u64, born: Option<&Resources>, arrow: &str) -> String {
    let shown = key.show(value);
    match born.map(|born| born.get(key)) {
        Some(Some(old)) if old != value => format!("{key} {} {arrow} {shown}", key.show(old)),
        Some(None) => format!("{key} none {arrow} {shown}"),
        Some(Some(_)) | None => format!("{key} {shown}"),
    }
}

/// `app: requests.cpu 100m, limits.memory 128Mi; sidecar: …`.
pub fn values(resources: &ContainerResources) -> String {
    let one = |(name, values): (&String, &Resources)| {
        let values = values.present().map(|(key, value)| format!("{key} {}", key.show(value))).collect::<Vec<_>>();
        format!("{}: {}", text::clean(name), values.join(", "))
    };
    resources.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Refusals with the same code told together: `2 pods are not eligible (qos-class): web-1, web-2: …`.
pub fn refusals(refused: &[RefusedPod]) -> Vec<String> {
    let mut codes = refused.iter().map(|pod| pod.code).collect::<Vec<_>>();
    codes.sort_unstable();
    codes.dedup();
    let line = |code: &str| {
        let same = refused.iter().filter(|pod| pod.code == code).collect::<Vec<_>>();
        let verb = if same.len() == 1 { "is" } else { "are" };
        let names = text::list(same.iter().map(|pod| &*pod.name), 3);
        let message = same.first().map_or(String::new(), |pod| text::clean(&pod.message).into_owned());
        format!("{} {verb} not eligible ({code}): {names}: {message}", text::plural(same.len(), "pod"))
    };
    codes.into_iter().map(line).collect()
}

/// `for …`, without how long.
pub fn waiting_for(waiting: &WaitingOn) -> String {
    format!("for {}", text::clean(&waiting.reason.to_string()))
}

/// `until …`.
pub fn waiting_until(waiting: &WaitingOn) -> String {
    format!("until {}", waiting.reason.ends_when())
}

/// `4m59s left`, where the end is known. Rounded up, so that it and the age add up to the whole wait.
pub fn time_left(waiting: &WaitingOn, now: Timestamp) -> Option<String> {
    let left = waiting.until?.duration_since(now) + SignedDuration::from_millis(999);
    Some(format!("{} left", text::age(left)))
}

/// Who started what, when: `run 3, revision 3f9a2c01de`.
pub fn run_and_revision(started: &Started) -> String {
    format!("run {}, revision {}", started.run, started.revision)
}

/// What a rollback was seen to do: only what is known.
fn seen_back(result: &RunResult) -> String {
    let restored = result.pods.iter().any(|pod| !matches!(pod.state, PodState::Gone | PodState::Foreign));
    match (result.pods.is_empty(), restored) {
        (true, _) => "no pod had been touched".to_owned(),
        (false, false) => format!("no pod was left to restore{}", except(result, &[LEFT, GONE].concat())),
        (false, true) => format!("every pod was seen back at its old values{}", except(result, &[LEFT, GONE].concat())),
    }
}

/// Pods that "every pod" does not mean, with the words for them.
const LEFT: &[(PodState, &str)] = &[(PodState::Foreign, "that somebody else changed"), (PodState::Skipped, "left out")];

/// A pod that is gone was not seen back; a validated run does not care: its place was taken.
const GONE: &[(PodState, &str)] = &[(PodState::Gone, "gone")];

fn except(result: &RunResult, named: &[(PodState, &str)]) -> String {
    let count = |state: PodState| result.pods.iter().filter(|pod| pod.state == state).count();
    let parts = named
        .iter()
        .filter(|(state, _)| count(*state) > 0)
        .map(|(state, words)| format!("{} {words}", text::plural(count(*state), "pod")))
        .collect::<Vec<_>>();
    if parts.is_empty() { String::new() } else { format!(", except {}", parts.join(", ")) }
}

/// A symbol, its paint, and the words for how the run ended or where it stopped.
pub fn outcome(result: &RunResult) -> (&'static str, Paint, String) {
    let bad = |words: String| (look::BAD, Paint::Bad, words);
    let warned = |words: String| (look::WARNING, Paint::Attention, words);
    match &result.conclusion {
        Conclusion::Ended(Ending::ValidatedWithoutPersistence) => {
            let words = format!("validated without persistence: every step passed{}", except(result, LEFT));
            (look::GOOD, Paint::Good, words)
        }
        Conclusion::Ended(Ending::RolledBack { cause }) if !cause.denies() => {
            warned(format!("rolled back: {}", seen_back(result)))
        }
        Conclusion::Ended(Ending::RolledBack { .. }) => bad(format!("failed and rolled back: {}", seen_back(result))),
        Conclusion::Ended(Ending::RollbackIncomplete { .. }) => {
            let stuck = result.pods.iter().filter(|pod| pod.state == PodState::NotRestored).count();
            bad(format!(
                "failed, and the rollback is incomplete: {} not back at the old values",
                text::plural(stuck, "pod")
            ))
        }
        Conclusion::Ended(Ending::Aborted { by }) => {
            warned(format!("aborted by {}: the pods stay as they are", text::clean(by)))
        }
        Conclusion::Ended(Ending::Superseded { by_run }) => warned(format!("superseded by run {by_run}")),
        Conclusion::Stopped(stop) => warned(stopped(stop)),
    }
}

fn stopped(stop: &Stop) -> String {
    let stays = "the run is not finished, the pods stay as they are";
    match stop {
        Stop::Interrupted { signal } => format!("interrupted by {}: {stays}", signal_name(*signal)),
        Stop::TimedOut => format!("stopped by --timeout: {stays}"),
        Stop::SupersedeWished { by } => format!("stopped for {}, who takes over with --supersede", text::clean(by)),
        Stop::LostLock { holder } => format!("stopped: {} holds the workload now", text::clean(holder)),
        Stop::Refused { message } => format!("stopped: {}; {stays}", text::clean(message)),
    }
}

pub fn signal_name(signal: i32) -> String {
    match signal {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

/// The cause of a rollback, if the run ended with one.
pub fn cause(result: &RunResult) -> Option<String> {
    match &result.conclusion {
        Conclusion::Ended(Ending::RolledBack { cause } | Ending::RollbackIncomplete { cause }) => {
            Some(text::clean(&cause.to_string()).into_owned())
        }
        Conclusion::Ended(Ending::ValidatedWithoutPersistence | Ending::Aborted { .. } | Ending::Superseded { .. })
        | Conclusion::Stopped(_) => None,
    }
}

/// `Infeasible: message`, or the word alone.
pub fn state_and_message(state: PodState, restoring: bool, message: &str) -> String {
    let word = Look::of(state, restoring).word;
    if message.is_empty() { word.to_owned() } else { format!("{word}: {}", text::clean(message)) }
}
