//! Reading without holding: one glance at a workload, or the same again whenever something changes. Writes nothing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use super::EngineError;
use super::sighting::Sighting;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError, PodChange};
use crate::core::journal::Record;
use crate::core::pod::{PodUid, PodView};
use crate::core::rollout::observation::{Observation, WorkloadSighting};
use crate::core::status::{Operator, Status, status};
use crate::core::workload::{WorkloadRef, WorkloadView};
use crate::store::{Store, StoreError, Stored, Subject, Version};

/// How often the record and the lease are read.
const RECORD_EVERY: Duration = Duration::from_secs(2);

/// How often the workload is read again.
const WORKLOAD_EVERY: Duration = Duration::from_secs(10);

/// Changes of pods within this time make one picture.
const GATHER: Duration = Duration::from_millis(200);

/// Who reads, through which ports.
pub struct Reader<'a, C, S> {
    pub cluster: &'a C,
    pub store: &'a S,
    pub clock: &'a dyn Clock,
    /// The API server's minor version.
    pub server_minor: u32,
}

/// The record and the lease as they were read together.
#[derive(Clone)]
struct Kept {
    record: Record,
    foreign: bool,
    operator: Operator,
}

/// What a watcher is shown: the picture, its time, and the workload while it is there.
pub type Show<'a> = &'a mut (dyn FnMut(&Status, Timestamp, Option<&WorkloadView>) -> ControlFlow<()> + Send);

impl<C: Cluster + Sync, S: Store + Sync> Reader<'_, C, S> {
    /// The picture of a workload that is there.
    pub async fn glance(&self, workload: &WorkloadView) -> Result<Status, EngineError> {
        let subject = subject(workload);
        let (kept, pods) = tokio::join!(self.kept(&subject), self.cluster.pods(workload));
        let (kept, pods) = (kept?, pods?);
        let pods = pods.into_iter().filter(|pod| workload.owns(pod)).map(|pod| (pod.uid.clone(), pod)).collect();
        let sighting = WorkloadSighting::Present(Box::new(workload.clone()));
        Ok(self.picture(&workload.reference, kept, &pods, &sighting, None))
    }

    /// What is left of a workload that is not there any more: its record, until the garbage collector has taken it.
    pub async fn left_behind(&self, reference: &WorkloadRef) -> Result<Option<Status>, EngineError> {
        let records = self.store.list(Some(&reference.namespace)).await?;
        let Some((_, stored)) = records.into_iter().find(|(subject, _)| subject.workload == *reference) else {
            return Ok(None);
        };
        let kept = Kept { record: stored?.record, foreign: false, operator: Operator::Nobody };
        let sighting = WorkloadSighting::Gone("the workload was deleted".to_owned());
        Ok(Some(self.picture(reference, kept, &BTreeMap::new(), &sighting, None)))
    }

    /// Shows a picture whenever something changed, until the watcher has seen enough.
    pub async fn watch(&self, workload: WorkloadView, show: Show<'_>) -> Result<(), EngineError> {
        let (reference, subject) = (workload.reference.clone(), subject(&workload));
        let mut changes = self.cluster.watch(&workload);
        let mut sighting = Sighting::new(workload);
        let mut kept = self.kept(&subject).await?;
        // The pod watch has a blindness of its own; this one is of the record.
        let mut unread = None;
        let (mut record_due, mut workload_due) = (Instant::now() + RECORD_EVERY, Instant::now() + WORKLOAD_EVERY);
        loop {
            tokio::select! {
                biased;
                () = sleep_until(record_due) => {
                    match self.kept(&subject).await {
                        Ok(read) => (kept, unread) = (read, None),
                        Err(StoreError::Unknown { operation, reason }) => {
                            unread = unread.or_else(|| Some((self.clock.now(), format!("{operation}: {reason}"))));
                        }
                        Err(error) => return Err(error.into()),
                    }
                    record_due = Instant::now() + RECORD_EVERY;
                }
                Some(change) = changes.next() => {
                    sighting.note(change, self.clock.now());
                    let until = Instant::now() + GATHER;
                    while let Some(change) = next_before(&mut changes, until).await {
                        sighting.note(change, self.clock.now());
                    }
                }
            }
            while let Some(Some(change)) = changes.next().now_or_never() {
                sighting.note(change, self.clock.now());
            }
            if let Some(reason) = sighting.refused.take() {
                return Err(ClusterError::Forbidden { operation: "cannot watch pods".to_owned(), reason }.into());
            }
            if Instant::now() >= workload_due || sighting.has_new_stranger() {
                if let Ok(seen) = self.cluster.workload(&reference).await {
                    sighting.see_workload(seen);
                }
                workload_due = Instant::now() + WORKLOAD_EVERY;
            }
            if !sighting.listed {
                continue;
            }
            let (pods, seen, blind) =
                (&sighting.pods, &sighting.workload, sighting.blind.clone().or_else(|| unread.clone()));
            let picture = self.picture(&reference, kept.clone(), pods, seen, blind);
            let workload = sighting.known_workload();
            if show(&picture, self.clock.now(), workload.as_ref()).is_break() {
                return Ok(());
            }
        }
    }

    async fn kept(&self, subject: &Subject) -> Result<Kept, StoreError> {
        let (stored, lease) = tokio::join!(self.store.read(subject), self.store.read_lease(subject));
        let Stored { record, version } = stored?;
        let operator = match lease {
            Ok(lease) => Operator::of(lease, self.clock.now()),
            // A reader may have fewer rights than an operator; the rest of the picture stands without it.
            Err(error) => Operator::Unknown(error.to_string()),
        };
        Ok(Kept { record, foreign: matches!(version, Version::Foreign { .. }), operator })
    }

    fn picture(
        &self,
        reference: &WorkloadRef,
        kept: Kept,
        pods: &BTreeMap<PodUid, PodView>,
        workload: &WorkloadSighting,
        blind: Option<(Timestamp, String)>,
    ) -> Status {
        let now = self.clock.now();
        let observation = Observation {
            now,
            pods,
            workload,
            answers: Vec::new(),
            blind,
            budget: crate::core::rollout::observation::Budget::Unlimited,
            command: None,
        };
        let made = status(reference.clone(), kept.record, kept.operator, self.server_minor, &observation);
        Status { foreign_record: kept.foreign, ..made }
    }
}

fn subject(workload: &WorkloadView) -> Subject {
    Subject { workload: workload.reference.clone(), uid: workload.uid.clone() }
}

async fn next_before(
    changes: &mut futures::stream::BoxStream<'static, PodChange>,
    until: Instant,
) -> Option<PodChange> {
    tokio::time::timeout_at(until, changes.next()).await.ok().flatten()
}
