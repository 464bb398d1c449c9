//! Choosing the pods of a step and writing down what they have before anything is changed.

use std::collections::{BTreeMap, BTreeSet};

use super::event::Event;
use super::observation::{Observation, WorkloadSighting};
use super::state::{Out, Rollout};
use crate::core::eligibility;
use crate::core::health;
use crate::core::journal::{Entry, Fate, TakenPod};
use crate::core::plan;
use crate::core::pod::{PodUid, PodView};
use crate::core::resize;
use crate::core::resources::ContainerResources;
use crate::core::selection;
use crate::core::share::Share;

/// The pods of the workload as the run sees them now.
pub(super) struct Census {
    /// Taken by this run and alive.
    pub taken: BTreeSet<PodUid>,
    /// Not taken, and could be.
    pub fresh: Vec<PodUid>,
}

impl Census {
    /// The eligible pods: what percentages are of.
    pub(super) fn eligible(&self) -> usize {
        self.taken.len() + self.fresh.len()
    }
}

impl Rollout {
    pub(super) fn census(&self, observation: &Observation<'_>) -> Census {
        let taken = self
            .run
            .intents
            .iter()
            .filter(|(_, intent)| matches!(intent.fate, Fate::Taken { .. }))
            .filter(|(uid, _)| observation.pods.get(*uid).is_some_and(|view| resize::gone(view).is_none()))
            .map(|(uid, _)| uid.clone())
            .collect();
        let fresh = observation
            .pods
            .iter()
            .filter(|(uid, view)| self.is_fresh(uid, view, observation))
            .map(|(uid, _)| uid.clone())
            .collect();
        Census { taken, fresh }
    }

    fn is_fresh(&self, uid: &PodUid, view: &PodView, observation: &Observation<'_>) -> bool {
        match self.run.intents.get(uid).map(|intent| intent.fate) {
            Some(Fate::Taken { .. } | Fate::Skipped | Fate::Foreign) => false,
            // Touched by the superseded run: fit for this one as soon as it is alive; its baseline is known.
            Some(Fate::Released) => resize::gone(view).is_none(),
            None => {
                let WorkloadSighting::Present(workload) = observation.workload else { return false };
                let context = eligibility::Context::of(workload, &self.run.started.policy, self.server_minor);
                eligibility::judge(view, &self.run.started.target, &context).is_ok() && self.may_be_taken(view)
            }
        }
    }

    /// A pod that came after the plan is judged like the others: a change that cannot be undone needs a decision.
    fn may_be_taken(&self, view: &PodView) -> bool {
        let target = &self.run.started.target;
        self.run.started.policy.allow_one_way || plan::one_way(view, target, self.server_minor).is_empty()
    }

    /// Takes as many pods as the step lacks. Returns how many the step wants.
    pub(super) fn take(&mut self, step: usize, observation: &Observation<'_>, out: &mut Out) -> usize {
        let census = self.census(observation);
        let share = self.share(step);
        let wanted = share.of(census.eligible());
        if census.taken.len() >= wanted || self.stopping.is_some() {
            return wanted;
        }
        let all = census.taken.iter().chain(&census.fresh).cloned().collect::<Vec<_>>();
        let order = selection::stable_order(&self.run.started.workload_uid, &all);
        let chosen = selection::select(&order, &census.taken, wanted);
        let new = chosen.into_iter().filter(|uid| !census.taken.contains(uid)).collect::<Vec<_>>();
        let (blocks, pods) = self.baselines(&new, observation);
        let names = pods.iter().map(|pod| pod.name.clone()).collect();
        self.record(out, Entry::Taken { step, wanted, blocks, pods }, observation.now);
        for uid in &new {
            self.tracks.remove(uid);
        }
        out.events.push(Event::StepStarted { step, share, wanted, eligible: census.eligible(), pods: names });
        wanted
    }

    pub(super) fn share(&self, step: usize) -> Share {
        let shares = self.run.started.policy.steps.shares();
        shares.get(step).or(shares.last()).copied().unwrap_or(Share::Percent(100))
    }

    /// What the pods have before this run touches them. For a pod of a superseded run that is what it had before that
    /// one, and what it has now for containers that only this run touches.
    fn baselines(&self, uids: &[PodUid], observation: &Observation<'_>) -> (Vec<ContainerResources>, Vec<TakenPod>) {
        let mut blocks = Vec::new();
        let mut index = BTreeMap::<ContainerResources, usize>::new();
        let mut pods = Vec::with_capacity(uids.len());
        for uid in uids {
            let Some(view) = observation.pods.get(uid) else { continue };
            let mut baseline = view.desired_of(self.run.started.target.keys());
            let mut restarts = health::restarts(view);
            if let Some(earlier) = self.run.intents.get(uid) {
                baseline.extend(earlier.baseline.iter().map(|(name, block)| (name.clone(), *block)));
                restarts.clone_from(&earlier.restarts);
            }
            let at = *index.entry(baseline).or_insert_with_key(|block| {
                blocks.push(block.clone());
                blocks.len() - 1
            });
            pods.push(TakenPod { uid: uid.clone(), name: view.name.clone(), baseline: at, restarts });
        }
        (blocks, pods)
    }
}
