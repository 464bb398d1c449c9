//! One operator at work: hold the workload, read the record under the lock, write the first entries, drive, give back.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::drive::{Drive, drive};
use super::hold::{Hold, HoldError, Holder, acquire};
use super::journal::{Appended, Journal};
use super::{EngineError, Report};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::core::journal::{Entry, Record, Run};
use crate::core::lock::{LeaseView, readable};
use crate::core::plan::{Plan, plan};
use crate::core::revision::Revision;
use crate::core::rollout::Rollout;
use crate::core::rollout::event::{Event, Level, RefusedPod, Started};
use crate::core::rollout::observation::Command;
use crate::core::rollout::outcome::RunResult;
use crate::core::workload::WorkloadView;
use crate::store::{Store, Subject};

/// Who acts, on what, through which ports.
pub struct Operator<'a, C, S> {
    pub cluster: &'a C,
    pub store: &'a S,
    pub clock: &'a dyn Clock,
    pub holder: &'a Holder,
    /// The API server's minor version.
    pub server_minor: u32,
    /// The kubeconfig context, for people.
    pub context: Option<String>,
}

/// Looks at the record under the lock and says what to write first, or declines.
pub type Decide<'a, E> = Box<dyn FnOnce(&Record) -> Result<Vec<Entry>, E> + Send + 'a>;

/// What is to be done once the workload is held.
pub struct Intention<'a, E> {
    pub workload: WorkloadView,
    pub decide: Decide<'a, E>,
    /// What the machine is told at once: roll back, abort.
    pub first: Option<Command>,
    /// For the running process: signals.
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub deadline: Option<Instant>,
    /// Take over for this revision from an operator who is at work.
    pub supersede: Option<Revision>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failed<E> {
    /// Nothing was held, nothing was changed.
    Hold(HoldError),
    /// `decide` said no.
    Declined(E),
    Engine(EngineError),
    /// Somebody wrote to the record in the moment of beginning.
    Overtaken,
    /// There is no run to go on with.
    NoRun,
    /// A signal came before the workload was held.
    Interrupted {
        signal: i32,
    },
    /// `--timeout` passed before the workload was held.
    TimedOut,
}

/// Never comes back without a deadline.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The next signal. Never comes back when nobody can send one.
async fn interrupt(commands: &mut mpsc::UnboundedReceiver<Command>) -> i32 {
    loop {
        match commands.recv().await {
            Some(Command::Interrupt { signal }) => return signal,
            Some(_) => {}
            None => std::future::pending::<()>().await,
        }
    }
}

/// How long a wish to supersede waits for the working operator to stop: it looks at the record every 5 s and then only
/// has to let its requests be answered.
const SUPERSEDE_PATIENCE: Duration = Duration::from_mins(2);

impl<C: Cluster + Sync, S: Store + Sync> Operator<'_, C, S> {
    /// Works until the run ends or this process has to stop, and gives the workload back in every case.
    pub async fn operate<E>(
        &self,
        mut intention: Intention<'_, E>,
        report: Report<'_>,
    ) -> Result<RunResult, Failed<E>> {
        let subject = Subject { workload: intention.workload.reference.clone(), uid: intention.workload.uid.clone() };
        let supersede = intention.supersede.take();
        let hold = tokio::select! {
            biased;
            signal = interrupt(&mut intention.commands) => return Err(Failed::Interrupted { signal }),
            () = until(intention.deadline) => return Err(Failed::TimedOut),
            hold = self.take_hold(&subject, supersede.as_ref(), report) => hold?,
        };
        let last = hold.clone();
        match self.with_hold(subject, intention, hold, report).await {
            Ok((result, hold)) => {
                hold.release(self.store).await;
                Ok(result)
            }
            Err(error) => {
                last.release(self.store).await;
                Err(error)
            }
        }
    }

    async fn with_hold<E>(
        &self,
        subject: Subject,
        intention: Intention<'_, E>,
        hold: Hold,
        report: Report<'_>,
    ) -> Result<(RunResult, Hold), Failed<E>> {
        let Intention { mut workload, decide, first, commands, deadline, .. } = intention;
        let engine = |error: EngineError| Failed::Engine(error);
        let opened = Journal::open(self.store, subject, &self.holder.operator).await;
        let mut journal = opened.map_err(|e| engine(e.into()))?;
        let entries = decide(&journal.record).map_err(Failed::Declined)?;
        let resumed = !entries.iter().any(|entry| matches!(entry, Entry::RunStarted(_)));
        let entries = if resumed && journal.record.active().is_some() {
            [vec![Entry::Resumed], entries].concat()
        } else {
            entries
        };
        if !entries.is_empty() {
            let appended = journal.append(self.store, entries, self.clock.now(), |_| {}).await;
            if appended.map_err(|e| engine(e.into()))? != Appended::Done {
                return Err(Failed::Overtaken);
            }
        }
        let Some(run) = journal.record.run.clone() else { return Err(Failed::NoRun) };
        workload.rivals = self.cluster.rivals(&workload.reference).await;
        let pods = self.cluster.pods(&workload).await.map_err(|e| engine(e.into()))?;
        let owned = pods.iter().filter(|pod| workload.owns(pod));
        let plan = plan(&workload, owned, &run.started.target, &run.started.policy, self.server_minor);
        drop(pods);
        report(self.clock.now(), &Event::Started(Box::new(self.started(&run, &workload, &plan, resumed))));
        let rollout = Rollout::new(workload.reference.clone(), run, self.server_minor);
        let (cluster, store, clock) = (self.cluster, self.store, self.clock);
        let driver = Drive { cluster, store, clock, first, commands, deadline };
        drive(driver, rollout, workload, &mut journal, hold, report).await.map_err(engine)
    }

    fn started(&self, run: &Run, workload: &WorkloadView, plan: &Plan, resumed: bool) -> Started {
        let refused = plan.refused().map(|(pod, refusal)| RefusedPod {
            name: pod.name.clone(),
            code: refusal.code(),
            message: refusal.to_string(),
        });
        Started {
            workload: workload.reference.clone(),
            run: run.started.run,
            revision: run.started.revision.clone(),
            context: self.context.clone(),
            operator: self.holder.operator.clone(),
            resumed,
            supersedes: run.started.supersedes,
            steps: run.started.policy.steps.shares().to_vec(),
            eligible: plan.eligible().count(),
            refused: refused.collect(),
            target: run.started.target.clone(),
            template: workload.template.clone(),
        }
    }

    async fn take_hold<E>(
        &self,
        subject: &Subject,
        supersede: Option<&Revision>,
        report: Report<'_>,
    ) -> Result<Hold, Failed<E>> {
        let started = Instant::now();
        let mut told = false;
        // Asked at once: a working operator stops sooner, and a dead one does not mind.
        if let Some(revision) = supersede
            && let Some(lease) = self.store.read_lease(subject).await.map_err(|e| Failed::Engine(e.into()))?
            && lease.holder.is_some()
        {
            self.wish(subject, revision, report).await.map_err(Failed::Engine)?;
        }
        loop {
            let waiting = |lease: &LeaseView, left: Duration| {
                if !std::mem::replace(&mut told, true) {
                    let who = readable(lease.holder.as_deref().unwrap_or_default());
                    let (workload, left) = (&subject.workload, left.as_secs());
                    let message =
                        format!("{workload} is held by {who}; watching whether it is alive, for at most {left}s");
                    report(self.clock.now(), &Event::Notice { level: Level::Info, message });
                }
            };
            match acquire(self.store, subject, self.holder, waiting).await {
                Ok(hold) => return Ok(hold),
                Err(HoldError::Held { .. }) if supersede.is_some() && started.elapsed() < SUPERSEDE_PATIENCE => {}
                Err(error) => return Err(Failed::Hold(error)),
            }
        }
    }

    /// Writes the wish to take over into the record; the working operator reads it there.
    async fn wish(&self, subject: &Subject, revision: &Revision, report: Report<'_>) -> Result<(), EngineError> {
        loop {
            let mut journal = Journal::open(self.store, subject.clone(), &self.holder.operator).await?;
            let entry = Entry::Wish { revision: revision.clone() };
            let now = self.clock.now();
            // A working operator writes too: read again until the wish lies between two of its writes.
            if journal.append(self.store, vec![entry], now, |_| {}).await? == Appended::Done {
                let message = "asked the working operator to stop; waiting until it has".to_owned();
                report(now, &Event::Notice { level: Level::Info, message });
                return Ok(());
            }
        }
    }
}
