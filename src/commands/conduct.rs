//! Conducting a run: hold the workload, read the record again, write the first entries, drive, report, give back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::session::{Session, subject, tell};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::core::exit::Exit;
use crate::core::journal::{Entry, Record, Run};
use crate::core::lock::readable;
use crate::core::plan::{Plan, plan};
use crate::core::recommendation::Recommendation;
use crate::core::rollout::Rollout;
use crate::core::rollout::event::{Event, Level, RefusedPod, Started};
use crate::core::rollout::observation::Command;
use crate::core::workload::WorkloadView;
use crate::engine::{Appended, Drive, Hold, HoldError, Journal, acquire, drive};
use crate::error::{CommandError, CommandResult};
use crate::render::{Reporter, Streams, TICK, live, reporter};

/// What a command wants done once the workload is held.
pub struct Intention<'a> {
    pub workload: WorkloadView,
    /// Looks at the record under the lock and says what to write first.
    pub decide: Box<dyn FnOnce(&Record) -> CommandResult<Vec<Entry>> + Send + 'a>,
    /// Given to the machine at once: roll back, abort.
    pub command: Option<Command>,
    pub timeout: Option<Duration>,
    /// Take over from an operator who is at work.
    pub supersede: Option<crate::core::revision::Revision>,
}

type Shared = Arc<Mutex<Box<dyn Reporter>>>;

/// Runs to a conclusion and returns its exit code.
pub async fn conduct(session: &Session, intention: Intention<'_>) -> CommandResult {
    let deadline = intention.timeout.map(|timeout| Instant::now() + timeout);
    let shared: Shared = Arc::new(Mutex::new(make_reporter(session)));
    let ticking = tokio::spawn(tick(shared.clone(), session.clock));
    let outcome = held(session, intention, deadline, &shared).await;
    ticking.abort();
    let finished = lock(&shared).finish();
    let exit = outcome?;
    finished?;
    Ok(exit)
}

async fn held(
    session: &Session,
    intention: Intention<'_>,
    deadline: Option<Instant>,
    shared: &Shared,
) -> CommandResult {
    let subject = subject(&intention.workload);
    let hold = take_hold(session, &subject, intention.supersede.as_ref(), shared).await?;
    let (exit, hold) = match with_hold(session, intention, deadline, shared, hold).await {
        Ok(done) => done,
        Err((error, hold)) => {
            hold.release(&session.store).await;
            return Err(error);
        }
    };
    hold.release(&session.store).await;
    Ok(exit)
}

async fn with_hold(
    session: &Session,
    intention: Intention<'_>,
    deadline: Option<Instant>,
    shared: &Shared,
    hold: Hold,
) -> Result<(Exit, Hold), (CommandError, Hold)> {
    let opened = begin(session, intention.workload, intention.decide).await;
    let (mut journal, run, workload, started) = match opened {
        Ok(opened) => opened,
        Err(error) => return Err((error, hold)),
    };
    report(shared, session.clock.now(), &Event::Started(Box::new(started)));
    let rollout = Rollout::new(workload.reference.clone(), run, session.version.minor);
    let (send, commands) = mpsc::unbounded_channel();
    if let Some(command) = intention.command {
        let _ = send.send(command);
    }
    let signals = tokio::spawn(super::signals::forward(send));
    let driver = Drive { cluster: &session.cluster, store: &session.store, clock: &session.clock, commands, deadline };
    let kept = hold.clone();
    let mut events = |at: Timestamp, event: &Event| report(shared, at, event);
    let driven = drive(driver, rollout, workload, &mut journal, hold, &mut events).await;
    signals.abort();
    match driven {
        Ok((result, hold)) => {
            let exit = Exit::ALL.into_iter().find(|exit| exit.code() == result.exit_code).unwrap_or(Exit::Unexpected);
            Ok((exit, hold))
        }
        Err(error) => Err((error.into(), kept)),
    }
}

/// Reads the record under the lock, writes the first entries, and says with what the run begins.
async fn begin(
    session: &Session,
    mut workload: WorkloadView,
    decide: Box<dyn FnOnce(&Record) -> CommandResult<Vec<Entry>> + Send + '_>,
) -> CommandResult<(Journal, Run, WorkloadView, Started)> {
    let mut journal = Journal::open(&session.store, subject(&workload), &session.holder.operator).await?;
    let entries = decide(&journal.record)?;
    let resumed = !entries.iter().any(|entry| matches!(entry, Entry::RunStarted(_)));
    if !entries.is_empty() {
        let now = session.clock.now();
        if journal.append(&session.store, entries, now, |_| {}).await? == Appended::Lost {
            return Err(CommandError::say(Exit::HeldByAnother, "another operator wrote to the record just now"));
        }
    }
    let Some(run) = journal.record.run.clone() else {
        return Err(CommandError::refused(format!("{} has no run", workload.reference)));
    };
    workload.rivals = session.cluster.rivals(&workload.reference).await;
    let pods = session.cluster.pods(&workload).await?;
    let owned = pods.iter().filter(|pod| pod.owner_uid.as_deref().is_some_and(|o| workload.pod_owners.contains(o)));
    let recommendation = Recommendation::new(workload.reference.clone(), run.started.target.clone())
        .map_err(|error| CommandError::new(Exit::Unexpected, error))?;
    let plan = plan(&workload, owned, &recommendation, &run.started.policy, session.version.minor);
    let started = started(session, &run, &workload, &plan, resumed);
    Ok((journal, run, workload, started))
}

fn started(session: &Session, run: &Run, workload: &WorkloadView, plan: &Plan, resumed: bool) -> Started {
    Started {
        workload: workload.reference.clone(),
        run: run.started.run,
        revision: run.started.revision.clone(),
        context: session.connection.context.clone(),
        operator: session.holder.operator.clone(),
        resumed,
        supersedes: run.started.supersedes,
        steps: run.started.policy.steps.shares().to_vec(),
        eligible: plan.eligible().count(),
        refused: plan
            .refused()
            .map(|(pod, refusal)| RefusedPod {
                name: pod.name.clone(),
                code: refusal.code(),
                message: refusal.to_string(),
            })
            .collect(),
        target: run.started.target.clone(),
        template: workload.template.clone(),
    }
}

/// How long a wish to supersede waits for the working operator to stop: it looks at the record every 5 s and only has
/// to let its requests be answered.
const SUPERSEDE_PATIENCE: Duration = Duration::from_secs(120);

async fn take_hold(
    session: &Session,
    subject: &crate::store::Subject,
    supersede: Option<&crate::core::revision::Revision>,
    shared: &Shared,
) -> CommandResult<Hold> {
    let started = Instant::now();
    let mut wished = false;
    loop {
        let mut told = None;
        let waiting = |lease: &crate::core::lock::LeaseView, left: Duration| {
            if told.is_none() {
                told = Some(());
                let who = readable(lease.holder.as_deref().unwrap_or_default());
                let message = format!(
                    "{} is held by {who}; watching whether that operator is alive (at most {}s)",
                    subject.workload,
                    left.as_secs()
                );
                report(shared, session.clock.now(), &Event::Notice { level: Level::Info, message });
            }
        };
        match acquire(&session.store, subject, &session.holder, waiting).await {
            Ok(hold) => return Ok(hold),
            Err(HoldError::Held { .. }) if supersede.is_some() && started.elapsed() < SUPERSEDE_PATIENCE => {
                if let Some(revision) = supersede.filter(|_| !wished) {
                    wish(session, subject, revision, shared).await?;
                    wished = true;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes the wish to take over into the record; the working operator reads it there.
async fn wish(
    session: &Session,
    subject: &crate::store::Subject,
    revision: &crate::core::revision::Revision,
    shared: &Shared,
) -> CommandResult<()> {
    loop {
        let mut journal = Journal::open(&session.store, subject.clone(), &session.holder.operator).await?;
        let entry = Entry::Wish { revision: revision.clone() };
        let now = session.clock.now();
        if journal.append(&session.store, vec![entry], now, |_| {}).await? == Appended::Done {
            let message = "asked the working operator to stop; waiting until it has".to_owned();
            report(shared, now, &Event::Notice { level: Level::Info, message });
            return Ok(());
        }
    }
}

fn make_reporter(session: &Session) -> Box<dyn Reporter> {
    let streams = Streams {
        stdout: Box::new(std::io::stdout()),
        stderr: Box::new(std::io::stderr()),
        size: Box::new(live::stderr_size),
    };
    reporter(session.mode(), streams)
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Box<dyn Reporter>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(shared: &Shared, at: Timestamp, event: &Event) {
    lock(shared).event(at, event);
}

async fn tick(shared: Shared, clock: crate::clock::SystemClock) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        lock(&shared).tick(clock.now());
    }
}

/// A second signal: stop now. The record and the lease are in the cluster; nothing here has to be saved.
pub fn stop_now(signal: i32) -> ! {
    tell("\nstopped at once; go on with `kubectl kapr resume`, undo with `kubectl kapr rollback`\n");
    std::process::exit(128 + signal)
}
