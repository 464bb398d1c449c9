//! Where a recorded run stands, for somebody who only reads: one look at the pods, and no change of phase.
//!
//! It is the machine's own look, so that a reader and the operator call the same thing by the same name. Nothing that it
//! would write or send leaves this file.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::event::{PodEvent, PodState};
use super::observation::Observation;
use super::outcome::{Conclusion, Ending, RunResult};
use super::state::{Out, Rollout};
use super::waiting::WaitingOn;
use crate::core::journal::{Fate, Intent, Run, Stage, StepRecord};
use crate::core::pod::PodUid;
use crate::core::workload::WorkloadRef;

/// A run and its pods at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    /// Every pod that the run has or had an intent for.
    pub pods: BTreeMap<PodUid, PodEvent>,
    /// What a process that works on it waits for; `None` when it waits for nothing, or the run has ended.
    pub waiting: Option<WaitingOn>,
    /// The result, once the run has ended.
    pub result: Option<RunResult>,
}

/// Looks at the pods of a run.
pub fn survey(workload: WorkloadRef, run: &Run, server_minor: u32, observation: &Observation<'_>) -> Survey {
    let ending = match &run.stage {
        Stage::Ended { ending, .. } => Some(ending.clone()),
        Stage::Stepping { .. } | Stage::Pausing { .. } | Stage::RollingBack { .. } => None,
    };
    let mut run = run.clone();
    if let Some(ending) = &ending {
        run.stage = stage_before(ending, &run);
    }
    let mut rollout = Rollout::new(workload, run, server_minor);
    rollout.remember_readiness();
    let mut out = Out::default();
    let _ = rollout.look(observation, &mut out);
    rollout.remember_since(observation);
    let held = rollout.send(observation, &mut out);
    let waiting = if ending.is_none() { rollout.waiting(observation, held) } else { None };
    let pods = rollout.run.intents.iter().map(|(uid, i)| (uid.clone(), rollout.pod_event(uid, i, observation)));
    let pods = pods.collect();
    let result = ending.map(|ending| rollout.result(&Conclusion::Ended(ending), observation));
    Survey { pods, waiting, result }
}

/// The stage in which the machine wants of the pods what the ended run left them with.
fn stage_before(ending: &Ending, run: &Run) -> Stage {
    match ending {
        Ending::RolledBack { cause } | Ending::RollbackIncomplete { cause } => {
            Stage::RollingBack { cause: cause.clone(), since: run.at }
        }
        Ending::ValidatedWithoutPersistence | Ending::Aborted { .. } | Ending::Superseded { .. } => {
            Stage::Stepping { step: run.started.policy.steps.shares().len() }
        }
    }
}

impl Rollout {
    /// Pods of steps that were at target have been ready for long enough: the record says so.
    fn remember_readiness(&mut self) {
        for (uid, intent) in &self.run.intents {
            if self.step_of(intent).is_some_and(|step| step.at_target.is_some()) {
                self.tracks.entry(uid.clone()).or_default().ready_since = Some(Timestamp::UNIX_EPOCH);
            }
        }
    }

    /// Since when a pod is in its state is not recorded; the kubelet's condition and the step's beginning are.
    fn remember_since(&mut self, observation: &Observation<'_>) {
        let undoing = match &self.run.stage {
            Stage::RollingBack { since, .. } => Some(*since),
            Stage::Stepping { .. } | Stage::Pausing { .. } | Stage::Ended { .. } => None,
        };
        let uids = self.run.intents.iter();
        let since = uids
            .filter_map(|(uid, intent)| {
                let start = undoing.or_else(|| Some(self.step_of(intent)?.started))?;
                let condition = observation.pods.get(uid).and_then(|view| view.resize_pending.as_ref()?.since);
                Some((uid.clone(), start, condition))
            })
            .collect::<Vec<_>>();
        for (uid, start, condition) in since {
            let Some(track) = self.tracks.get_mut(&uid) else { continue };
            let deferred = track.shown.as_ref().is_some_and(|(state, _)| *state == PodState::Deferred);
            track.since = Some(condition.filter(|_| deferred).unwrap_or(start));
            track.first_sent = track.first_sent.and(Some(start));
        }
    }

    fn step_of(&self, intent: &Intent) -> Option<&StepRecord> {
        let Fate::Taken { step } = intent.fate else { return None };
        self.run.steps.iter().find(|record| record.step == step)
    }

    fn pod_event(&self, uid: &PodUid, intent: &Intent, observation: &Observation<'_>) -> PodEvent {
        let shown = self.tracks.get(uid).and_then(|track| track.shown.clone());
        let step = match intent.fate {
            Fate::Taken { step } => step,
            Fate::Released | Fate::Skipped | Fate::Foreign => 0,
        };
        let (state, message) = match intent.fate {
            Fate::Foreign => (PodState::Foreign, "somebody else changed its resources".to_owned()),
            Fate::Skipped => (PodState::Skipped, "left out: stayed Deferred".to_owned()),
            Fate::Taken { .. } | Fate::Released => shown.unwrap_or((PodState::Chosen, String::new())),
        };
        let node = observation.pods.get(uid).and_then(|view| view.node.clone());
        PodEvent { name: intent.name.clone(), node, step, state, message, restoring: self.restores(intent) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::core::journal::RunStarted;
    use crate::core::pod::{PodView, ResizeCondition};
    use crate::core::policy::Policy;
    use crate::core::revision::Revision;
    use crate::core::rollout::cause::Cause;
    use crate::core::rollout::observation::WorkloadSighting;
    use crate::core::rollout::waiting::WaitReason;
    use crate::core::testing;
    use crate::core::time::after;
    use crate::core::workload::WorkloadKind;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn run(stage: Stage, at_target: bool) -> Run {
        let target = testing::containers(&[("app", "requests.cpu=25m")]);
        let baseline = Arc::new(testing::containers(&[("app", "requests.cpu=20m")]));
        let started = RunStarted {
            run: 1,
            revision: Revision::try_from("a".repeat(64)).unwrap(),
            workload_uid: "w".into(),
            target,
            policy: Policy::default(),
            eligible: 1,
            reason: None,
            origin: "--set".into(),
            supersedes: None,
            program: "0".into(),
        };
        let intent =
            Intent { name: "web-0".into(), baseline, restarts: BTreeMap::new(), fate: Fate::Taken { step: 0 } };
        Run {
            started,
            at: START,
            by: "ana@laptop".into(),
            intents: BTreeMap::from([(PodUid::new("pod-uid-0"), intent)]),
            former: Vec::new(),
            stage,
            steps: vec![StepRecord {
                step: 0,
                started: START,
                pods: 1,
                at_target: at_target.then_some(START),
                passed: None,
            }],
            stopped: None,
            last_entry_at: START,
        }
    }

    fn look(run: &Run, pod: PodView) -> (PodState, Option<WaitingOn>, Option<RunResult>) {
        let workload = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let pods = BTreeMap::from([(pod.uid.clone(), pod)]);
        let observation = Observation {
            now: after(START, Duration::from_secs(100)),
            pods: &pods,
            workload: &WorkloadSighting::Gone("not looked at".into()),
            answers: Vec::new(),
            blind: None,
            budget: crate::core::rollout::observation::Budget::Unlimited,
            command: None,
        };
        let seen = survey(workload, run, 37, &observation);
        (seen.pods[&PodUid::new("pod-uid-0")].state, seen.waiting, seen.result)
    }

    fn pod(cpu: &str) -> PodView {
        testing::pod(&[("app", &format!("requests.cpu={cpu}"))])
    }

    fn ended(ending: Ending) -> Stage {
        Stage::Ended { ending, at: START, not_restored: Vec::new() }
    }

    #[test]
    fn a_pod_of_a_step_that_is_done_is_ready_and_the_pause_keeps_its_beginning() {
        let (state, waiting, result) = look(&run(Stage::Pausing { step: 0, since: START }, true), pod("25m"));
        assert_eq!(state, PodState::Ready);
        // Long over: the reader changes nothing, so it is still what the record says.
        let until = Some(after(START, Policy::default().pause));
        assert_eq!(waiting, Some(WaitingOn { reason: WaitReason::Pause, since: START, until }));
        assert_eq!(result, None);
    }

    #[test]
    fn a_deferred_pod_waits_since_the_kubelet_said_so() {
        let mut pod = pod("25m");
        let said = after(START, Duration::from_secs(40));
        pod.resize_pending = Some(ResizeCondition {
            reason: "Deferred".into(),
            message: "no room".into(),
            observed_generation: Some(1),
            since: Some(said),
        });
        let (state, waiting, _) = look(&run(Stage::Stepping { step: 0 }, false), pod);
        assert_eq!(state, PodState::Deferred);
        let waiting = waiting.unwrap();
        assert_eq!((waiting.since, waiting.until), (said, Some(after(said, Policy::default().deferred_timeout))));
    }

    #[test]
    fn an_ended_run_is_looked_at_for_what_it_left() {
        let undone = ended(Ending::RolledBack { cause: Cause::Asked { by: "ana@laptop".into() } });
        let (state, waiting, result) = look(&run(undone, true), pod("20m"));
        assert_eq!((state, waiting), (PodState::Restored, None));
        assert_eq!(result.unwrap().pods[0].state, PodState::Restored);
        let (state, ..) = look(&run(ended(Ending::ValidatedWithoutPersistence), true), pod("25m"));
        assert_eq!(state, PodState::Ready);
        let (state, ..) = look(&run(ended(Ending::ValidatedWithoutPersistence), true), pod("99m"));
        assert_eq!(state, PodState::Foreign);
    }
}
