//! What a run waits for, told from the states of its pods; and the result it ends with.

use super::cause::Cause;
use super::event::PodState;
use super::observation::{Budget, Observation, WorkloadSighting};
use super::outcome::{Conclusion, Ending, PodResult, RunResult, Stop};
use super::send::HeldBack;
use super::state::Rollout;
use super::waiting::{WaitReason, WaitingOn};
use crate::core::exit::Exit;
use crate::core::journal::{Fate, Stage};
use crate::core::pod::PodUid;
use crate::core::resources::ContainerResources;
use crate::core::time::{after, elapsed};

impl Rollout {
    pub(super) fn waiting(&self, observation: &Observation<'_>, held: HeldBack) -> Option<WaitingOn> {
        if self.conclusion.is_some() {
            return None;
        }
        let now = observation.now;
        if let Some((since, message)) = &observation.blind {
            return Some(WaitingOn {
                reason: WaitReason::Cluster { message: message.clone() },
                since: *since,
                until: None,
            });
        }
        if self.stopping.is_some() {
            let pods = self.tracks.values().filter(|track| track.sending.is_some()).count();
            let since = self.stopping_since.unwrap_or(now);
            return Some(WaitingOn { reason: WaitReason::Answers { pods }, since, until: None });
        }
        match &self.run.stage {
            Stage::Pausing { since, .. } => {
                let until = Some(after(*since, self.run.started.policy.pause));
                let over = elapsed(*since, now) >= self.run.started.policy.pause;
                // A pause that is over lasts until every pod of the step is ready again.
                let pods = if over { self.slowest(observation, held, false) } else { None };
                pods.or(Some(WaitingOn { reason: WaitReason::Pause, since: *since, until }))
            }
            Stage::RollingBack { .. } => self.slowest(observation, held, true),
            Stage::Stepping { .. } => match self.empty_since {
                Some(since) => {
                    let until = Some(after(since, self.run.started.policy.resize_timeout));
                    Some(WaitingOn { reason: WaitReason::NoPods, since, until })
                }
                None => self.slowest(observation, held, false),
            },
            Stage::Ended { .. } => None,
        }
    }

    /// The pod that has been in the most urgent state for the longest, and how many pods are not done.
    fn worst(&self, now: jiff::Timestamp) -> Option<(usize, jiff::Timestamp, &PodUid, PodState)> {
        let mut worst: Option<(u8, jiff::Timestamp, &PodUid, PodState)> = None;
        let mut pods = 0;
        for uid in self.run.intents.iter().filter(|(_, intent)| intent.fate != Fate::Foreign).map(|(uid, _)| uid) {
            let Some(track) = self.tracks.get(uid) else { continue };
            let Some((state, _)) = &track.shown else { continue };
            let Some(rank) = urgency(*state) else { continue };
            pods += 1;
            let since = track.since.unwrap_or(now);
            if worst.is_none_or(|(r, s, _, _)| (rank, std::cmp::Reverse(since)) > (r, std::cmp::Reverse(s))) {
                worst = Some((rank, since, uid, *state));
            }
        }
        worst.map(|(_, since, uid, state)| (pods, since, uid, state))
    }

    /// What the most urgent pod waits for.
    fn slowest(&self, observation: &Observation<'_>, held: HeldBack, rolling_back: bool) -> Option<WaitingOn> {
        let (pods, since, uid, state) = self.worst(observation.now)?;
        let policy = &self.run.started.policy;
        let name = self.run.intents.get(uid)?.name.clone();
        let track = self.tracks.get(uid)?;
        let message = track.shown.as_ref().map(|(_, message)| message.clone()).unwrap_or_default();
        let mut until = Some(after(track.first_sent.unwrap_or(since), policy.resize_timeout));
        let reason = match state {
            PodState::Chosen if held.by_budget => {
                until = None;
                match &observation.budget {
                    Budget::Limited { name, .. } => WaitReason::Budget { name: name.clone() },
                    Budget::Unknown | Budget::Unlimited => {
                        WaitReason::Unavailable { max_unavailable: policy.max_unavailable }
                    }
                }
            }
            PodState::Chosen if held.by_unavailable => {
                until = None;
                WaitReason::Unavailable { max_unavailable: policy.max_unavailable }
            }
            PodState::Deferred => {
                until = Some(after(since, policy.deferred_timeout));
                WaitReason::Deferred { pods, pod: name, message }
            }
            PodState::Applied => {
                until = Some(after(since, policy.resize_timeout.saturating_add(policy.min_ready)));
                WaitReason::Readiness { pods, pod: name }
            }
            PodState::Chosen
            | PodState::Pending
            | PodState::InProgress
            | PodState::Infeasible
            | PodState::Failed
            | PodState::Ready
            | PodState::Diverged
            | PodState::Gone
            | PodState::Foreign
            | PodState::Skipped
            | PodState::Unhealthy
            | PodState::Restored
            | PodState::NotRestored => {
                let state = word(state);
                if rolling_back || !matches!(self.run.intents.get(uid)?.fate, Fate::Taken { .. }) {
                    WaitReason::Restoring { pods, pod: name, state, message }
                } else {
                    WaitReason::Resizing { pods, pod: name, state, message }
                }
            }
        };
        Some(WaitingOn { reason, since, until })
    }

    /// The result of a process that may neither go on nor write.
    pub fn stopped(&self, stop: Stop, observation: &Observation<'_>) -> RunResult {
        self.result(&Conclusion::Stopped(stop), observation)
    }

    pub(super) fn result(&self, conclusion: &Conclusion, observation: &Observation<'_>) -> RunResult {
        let pods = self
            .run
            .intents
            .iter()
            .map(|(uid, intent)| {
                let shown = self.tracks.get(uid).and_then(|track| track.shown.clone());
                let (state, message) = match intent.fate {
                    Fate::Foreign => (PodState::Foreign, shown.map(|(_, message)| message).unwrap_or_default()),
                    Fate::Skipped => (PodState::Skipped, "left out: stayed Deferred".to_owned()),
                    Fate::Taken { .. } | Fate::Released => shown.unwrap_or((PodState::Chosen, String::new())),
                };
                PodResult { name: intent.name.clone(), uid: uid.0.as_ref().into(), state, message }
            })
            .collect::<Vec<_>>();
        let exit =
            exit_of(conclusion, pods.iter().any(|pod| matches!(pod.state, PodState::Skipped | PodState::Foreign)));
        RunResult {
            conclusion: conclusion.clone(),
            exit_code: exit.code(),
            workload: self.workload.clone(),
            run: self.run.started.run,
            revision: self.run.started.revision.clone(),
            pods,
            born_with: match conclusion {
                Conclusion::Ended(Ending::RolledBack { .. }) => ContainerResources::new(),
                Conclusion::Ended(_) | Conclusion::Stopped(_) => self.born_with(observation),
            },
            next: self.next_commands(conclusion),
        }
    }

    /// What the template gives to new pods where it differs from the recommendation.
    fn born_with(&self, observation: &Observation<'_>) -> ContainerResources {
        let WorkloadSighting::Present(workload) = observation.workload else { return ContainerResources::new() };
        self.run
            .started
            .target
            .iter()
            .filter_map(|(name, target)| {
                let template = workload.template.get(name)?;
                let mut differs = *template;
                for key in crate::core::resources::Key::ALL {
                    if target.get(key).is_none() || target.get(key) == template.get(key) {
                        differs.set(key, None);
                    }
                }
                (!differs.is_empty()).then(|| (name.clone(), differs))
            })
            .collect()
    }

    fn next_commands(&self, conclusion: &Conclusion) -> Vec<String> {
        let workload = format!("{} -n {}", self.workload, self.workload.namespace);
        let command = |verb: &str| format!("kubectl kapr {verb} {workload}");
        let history = format!("kubectl kapr history {workload} --run {}", self.run.started.run);
        match conclusion {
            // The record went with the workload: there is nothing to look at.
            Conclusion::Ended(
                Ending::RolledBack { cause: Cause::WorkloadGone { .. } }
                | Ending::RollbackIncomplete { cause: Cause::WorkloadGone { .. } },
            ) => Vec::new(),
            Conclusion::Ended(Ending::ValidatedWithoutPersistence | Ending::RollbackIncomplete { .. }) => {
                vec![command("status"), command("rollback")]
            }
            Conclusion::Ended(Ending::RolledBack { cause }) if cause.denies() => vec![
                history,
                format!(
                    "kubectl kapr allow {} {} -n {}",
                    self.workload, self.run.started.revision, self.workload.namespace
                ),
            ],
            Conclusion::Ended(Ending::RolledBack { .. } | Ending::Aborted { .. } | Ending::Superseded { .. }) => {
                vec![history]
            }
            Conclusion::Stopped(Stop::LostLock { .. } | Stop::SupersedeWished { .. }) => vec![command("status")],
            Conclusion::Stopped(Stop::Interrupted { .. } | Stop::TimedOut | Stop::Refused { .. }) => {
                vec![command("resume"), command("rollback")]
            }
        }
    }
}

/// The exit code of a conclusion. `except` says that some pods were left out.
pub(super) fn exit_of(conclusion: &Conclusion, except: bool) -> Exit {
    match conclusion {
        Conclusion::Ended(Ending::ValidatedWithoutPersistence | Ending::RolledBack { cause: Cause::Asked { .. } })
            if except =>
        {
            Exit::DoneExcept
        }
        Conclusion::Ended(
            Ending::ValidatedWithoutPersistence
            | Ending::Aborted { .. }
            | Ending::RolledBack { cause: Cause::Asked { .. } },
        ) => Exit::Done,
        Conclusion::Ended(Ending::RolledBack { .. }) => Exit::RolledBack,
        Conclusion::Ended(Ending::RollbackIncomplete { .. }) => Exit::RollbackIncomplete,
        Conclusion::Stopped(Stop::Interrupted { signal: 2 }) => Exit::Interrupted,
        Conclusion::Stopped(Stop::Interrupted { .. }) => Exit::Terminated,
        Conclusion::Stopped(Stop::TimedOut) => Exit::TimedOut,
        Conclusion::Ended(Ending::Superseded { .. })
        | Conclusion::Stopped(Stop::SupersedeWished { .. } | Stop::LostLock { .. }) => Exit::HeldByAnother,
        Conclusion::Stopped(Stop::Refused { .. }) => Exit::RefusedBefore,
    }
}

/// How much a state calls for attention; `None` when nothing is awaited of the pod.
const fn urgency(state: PodState) -> Option<u8> {
    match state {
        PodState::Failed => Some(6),
        PodState::Infeasible | PodState::Unhealthy | PodState::Diverged => Some(5),
        PodState::Deferred => Some(4),
        PodState::InProgress => Some(3),
        PodState::Pending => Some(2),
        PodState::Applied => Some(1),
        PodState::Chosen => Some(0),
        PodState::Ready
        | PodState::Gone
        | PodState::Foreign
        | PodState::Skipped
        | PodState::Restored
        | PodState::NotRestored => None,
    }
}

const fn word(state: PodState) -> &'static str {
    match state {
        PodState::Chosen => "not patched yet",
        PodState::Pending => "Pending",
        PodState::InProgress => "InProgress",
        PodState::Deferred => "Deferred",
        PodState::Infeasible => "Infeasible",
        PodState::Failed => "Failed",
        PodState::Applied => "Applied",
        PodState::Ready => "Ready",
        PodState::Diverged => "Diverged",
        PodState::Gone => "Gone",
        PodState::Foreign => "Foreign",
        PodState::Skipped => "Skipped",
        PodState::Unhealthy => "Unhealthy",
        PodState::Restored => "Restored",
        PodState::NotRestored => "NotRestored",
    }
}
