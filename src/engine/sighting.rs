//! What this process has seen of the workload and its pods: the map that observations are made of.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cluster::PodChange;
use crate::core::pod::{PodUid, PodView};
use crate::core::rollout::observation::WorkloadSighting;
use crate::core::workload::WorkloadView;

/// The workload, its pods, and whether the API server answers.
#[derive(Debug)]
pub(super) struct Sighting {
    uid: String,
    pub workload: WorkloadSighting,
    pub pods: BTreeMap<PodUid, PodView>,
    /// Pods that match the selector and belong to nobody we know (yet): a new ReplicaSet's.
    strangers: BTreeMap<PodUid, PodView>,
    /// A stranger came since the workload was looked at last.
    new_stranger: bool,
    pub blind: Option<(Timestamp, String)>,
    /// The first complete list has arrived.
    pub listed: bool,
    /// The watch ended for good.
    pub refused: Option<String>,
}

impl Sighting {
    pub(super) fn new(workload: WorkloadView) -> Self {
        Self {
            uid: workload.uid.clone(),
            workload: WorkloadSighting::Present(Box::new(workload)),
            pods: BTreeMap::new(),
            strangers: BTreeMap::new(),
            new_stranger: false,
            blind: None,
            listed: false,
            refused: None,
        }
    }

    pub(super) fn note(&mut self, change: PodChange, now: Timestamp) {
        match change {
            PodChange::Listed(pods) => {
                let mut before = std::mem::take(&mut self.pods);
                self.strangers.clear();
                for pod in pods {
                    // A patch's answer may be newer than the list.
                    let known = before.remove(&pod.uid);
                    let was_ours = known.is_some();
                    let pod = known.filter(|known| pod.is_older_than(known)).unwrap_or(pod);
                    // Nobody can say any more whom a pod of a deleted workload belongs to, except who knew it before.
                    if was_ours && matches!(self.workload, WorkloadSighting::Gone(_)) {
                        self.pods.insert(pod.uid.clone(), pod);
                    } else {
                        self.see(pod);
                    }
                }
                self.listed = true;
            }
            PodChange::Seen(pod) => self.see(pod),
            PodChange::Deleted(uid) => {
                self.pods.remove(&uid);
                self.strangers.remove(&uid);
            }
            PodChange::Blind(message) => {
                self.blind.get_or_insert((now, message));
            }
            PodChange::Connected => self.blind = None,
            PodChange::Refused(message) => self.refused = Some(message),
        }
    }

    /// Takes in a view of a pod unless a newer one is known.
    pub(super) fn see(&mut self, pod: PodView) {
        let owned = match &self.workload {
            WorkloadSighting::Present(workload) => workload.owns(&pod),
            WorkloadSighting::Gone(_) => self.pods.contains_key(&pod.uid),
        };
        let map = if owned { &mut self.pods } else { &mut self.strangers };
        match map.get(&pod.uid) {
            Some(known) if pod.is_older_than(known) => {}
            known => {
                self.new_stranger |= known.is_none() && !owned;
                map.insert(pod.uid.clone(), pod);
            }
        }
    }

    /// A pod that was read by name: it may be another one by now, or none.
    pub(super) fn see_read(&mut self, uid: &PodUid, pod: Option<PodView>) {
        match pod {
            Some(pod) if pod.uid == *uid => self.see(pod),
            Some(_) | None => {
                self.pods.remove(uid);
            }
        }
    }

    pub(super) fn known_workload(&self) -> Option<WorkloadView> {
        match &self.workload {
            WorkloadSighting::Present(workload) => Some((**workload).clone()),
            WorkloadSighting::Gone(_) => None,
        }
    }

    pub(super) const fn has_new_stranger(&self) -> bool {
        self.new_stranger
    }

    /// Takes in what the workload is now; pods of its new owners become its pods.
    pub(super) fn see_workload(&mut self, seen: Option<WorkloadView>) {
        self.workload = match seen {
            None => WorkloadSighting::Gone("the workload was deleted".to_owned()),
            Some(workload) if workload.uid != self.uid => {
                WorkloadSighting::Gone("the workload was deleted and made again under its name".to_owned())
            }
            Some(workload) if workload.terminating => {
                WorkloadSighting::Gone("the workload is being deleted".to_owned())
            }
            Some(mut workload) => {
                // Rivals are looked for once, before the run: they do not come back with every look.
                if let WorkloadSighting::Present(known) = &self.workload {
                    workload.rivals.clone_from(&known.rivals);
                }
                WorkloadSighting::Present(Box::new(workload))
            }
        };
        for (_, pod) in std::mem::take(&mut self.strangers) {
            self.see(pod);
        }
        self.new_stranger = false;
    }
}
