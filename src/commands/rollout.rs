//! `kubectl kapr rollout`: validate a recommendation on the running pods, step by step.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::conduct::{Task, conduct};
use super::confirm::confirm;
use super::plan::{Preview, preview, print_plan};
use super::preflight;
use super::session::{Session, print, subject, tell};
use super::wanted_args::{Decided, WantedArgs};
use crate::core::admission::{Admission, admit};
use crate::core::exit::Exit;
use crate::core::journal::{Denial, Entry, Record, RunStarted};
use crate::core::revision::Revision;
use crate::core::workload::WorkloadRef;
use crate::engine::Journal;
use crate::error::{CommandError, CommandResult};

/// Validate a recommendation on the running pods of a workload, step by step
///
/// Resizes a few pods in place, waits until pod status says that it happened, checks readiness, pauses, and goes on with
/// more. Any failure puts every pod back to what it had, seen pod by pod, and denies the recommendation. Running it again
/// with the same recommendation goes on where it stopped, from any machine.
#[derive(Args, Clone, Debug, Default)]
pub struct RolloutArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Take over from an operator who is working on the workload
    #[arg(long)]
    pub supersede: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Stop after this long; the run can be resumed
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Only show what would be done: client decides here, server also asks the API server's admission
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub dry_run: DryRun,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

/// Several workloads are validated one after the other; the first that does not end well ends the command.
pub async fn run(args: &RolloutArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json"]).map_err(CommandError::usage)?;
    session.expect_resize()?;
    let all = args.wanted.read(&session.connection.namespace).await?;
    let mut worst = Exit::Done;
    for decided in &all {
        let exit = one(args, session, decided).await?;
        worst = worst.max(exit);
        if !matches!(exit, Exit::Done | Exit::DoneExcept) {
            break;
        }
    }
    Ok(worst)
}

async fn one(args: &RolloutArgs, session: &Session, decided: &Decided) -> CommandResult {
    let reference = &decided.recommendation.workload;
    let revision = Revision::of(&decided.recommendation);
    // Before anything is asked that would be forbidden: a single refusal names every right that is missing.
    if args.dry_run == DryRun::None {
        preflight::rights(session, &reference.namespace).await?;
    }
    let workload = session.workload(reference).await?;
    let record = Journal::open(&session.store, subject(&workload), &session.holder.operator).await?.record;
    if let Admission::Denied(denial) = admit(&record, &revision) {
        return Err(denied(denial, reference, &revision));
    }
    let preview = preview(session, workload, decided, args.dry_run != DryRun::Client).await?;
    if args.dry_run != DryRun::None {
        print_plan(session, decided, &preview)?;
        return Ok(Exit::Done);
    }
    let question = match admit(&record, &revision) {
        Admission::Continue(run) => {
            if run.started.policy != decided.policy {
                tell(&format!("Warning: run {} keeps the settings it was started with\n", run.started.run));
            }
            format!("Go on with run {} of", run.started.run)
        }
        Admission::Supersede(run) => {
            preflight::refuse_plan(&preview.plan, decided, reference)?;
            format!("Supersede run {} of", run.started.run)
        }
        Admission::Fresh | Admission::Denied(_) => {
            preflight::refuse_plan(&preview.plan, decided, reference)?;
            if preview.plan.to_change() == 0 {
                print(&format!(
                    "{}.apps/{} unchanged: every eligible pod has these values\n",
                    reference.kind.singular(),
                    reference.name
                ))?;
                return Ok(Exit::Done);
            }
            "Resize pods of".to_owned()
        }
    };
    preflight::refuse_server(&preview)?;
    if !confirm(&sentence(session, &question, decided, &preview), args.yes)? {
        tell("nothing was changed\n");
        return Ok(Exit::Done);
    }
    let eligible = preview.plan.eligible().count();
    let workload = preview.workload;
    let uid = workload.uid.clone();
    let task = Task {
        workload,
        decide: Box::new(move |record| first_entries(record, args, decided, &revision, &uid, eligible)),
        command: None,
        timeout: args.timeout,
        supersede: args.supersede.then(|| Revision::of(&decided.recommendation)),
    };
    conduct(session, task).await
}

/// What to write first, decided under the lock: the record may have changed since it was looked at.
fn first_entries(
    record: &Record,
    args: &RolloutArgs,
    decided: &Decided,
    revision: &Revision,
    uid: &str,
    eligible: usize,
) -> CommandResult<Vec<Entry>> {
    let supersedes = match admit(record, revision) {
        Admission::Continue(_) => return Ok(Vec::new()),
        Admission::Denied(denial) => return Err(denied(denial, &decided.recommendation.workload, revision)),
        Admission::Supersede(run) => Some(run.started.run),
        Admission::Fresh => None,
    };
    Ok(vec![Entry::RunStarted(Box::new(RunStarted {
        run: record.next_run_number(),
        revision: revision.clone(),
        workload_uid: uid.to_owned(),
        target: decided.recommendation.containers().clone(),
        policy: decided.policy.clone(),
        eligible,
        reason: args.reason.clone(),
        origin: decided.origin.clone(),
        supersedes,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }))])
}

fn denied(denial: &Denial, workload: &WorkloadRef, revision: &Revision) -> CommandError {
    let when = denial.at.strftime("%Y-%m-%d %H:%M:%SZ");
    let sentence = format!(
        "revision {revision} is denied on {workload}: run {} by {} failed at {when}: {}",
        denial.run, denial.by, denial.cause
    );
    CommandError::refused(sentence)
        .hint(format!("kubectl kapr history {workload} -n {} --run {}", workload.namespace, denial.run))
        .hint(format!("to try it again: kubectl kapr allow {workload} {revision} -n {}", workload.namespace))
}

fn sentence(session: &Session, question: &str, decided: &Decided, preview: &Preview) -> String {
    let context = session.connection.context.as_deref().unwrap_or("none");
    let workload = &decided.recommendation.workload;
    let steps = preview.plan.steps.iter().map(|step| step.pods.to_string()).collect::<Vec<_>>().join(", then ");
    let values =
        decided.recommendation.containers().iter().map(|(name, block)| format!("{name}={block}")).collect::<Vec<_>>();
    format!(
        "{question} {workload} in namespace {} of context {context}: {} of {} pods change ({steps}) to {}.",
        workload.namespace,
        preview.plan.to_change(),
        preview.plan.pods.len(),
        values.join(" ")
    )
}
