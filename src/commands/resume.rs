//! `kubectl kapr resume`, `rollback` and `abort`: go on with, undo, or leave a run that is in the record.

use std::time::Duration;

use clap::Args;

use super::conduct::{Task, conduct};
use super::confirm::confirm;
use super::preflight;
use super::session::{Session, subject, tell};
use super::workload_arg::WorkloadArg;
use crate::core::admission::can_roll_back;
use crate::core::exit::Exit;
use crate::core::journal::{Entry, Record, Run};
use crate::core::rollout::cause::Cause;
use crate::core::rollout::observation::Command;
use crate::core::workload::WorkloadRef;
use crate::engine::Journal;
use crate::error::{CommandError, CommandResult};

/// Go on with an interrupted run, from where the record says it stands
///
/// Works from any machine that reaches the cluster. Steps that were passed are not repeated.
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub on: OnRun,
}

/// Put every pod that the last run touched back to what it had before
///
/// Also after a run that was validated. Done when every pod was seen back at its old values.
#[derive(Args, Clone, Debug)]
pub struct RollbackArgs {
    #[command(flatten)]
    pub on: OnRun,
}

/// Stop a run for good and leave its pods as they are
///
/// Nothing is patched. The pods that are at the new values keep them until they are replaced.
#[derive(Args, Clone, Debug)]
pub struct AbortArgs {
    #[command(flatten)]
    pub on: OnRun,
}

#[derive(Args, Clone, Debug)]
pub struct OnRun {
    #[command(flatten)]
    pub workload: WorkloadArg,
    /// Stop after this long; the run can be resumed
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Resume,
    RollBack,
    Abort,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::RollBack => "roll back",
            Self::Abort => "abort",
        }
    }
}

pub async fn run(verb: Verb, args: &OnRun, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json"]).map_err(CommandError::usage)?;
    session.expect_resize()?;
    let reference = args.workload.resolve(&session.connection.namespace)?;
    preflight::rights(session, &reference.namespace).await?;
    let workload = session.workload(&reference).await?;
    let record = Journal::open(&session.store, subject(&workload), &session.holder.operator).await?.record;
    let found = fit(verb, &record, &reference)?;
    let question = format!(
        "{} run {} (revision {}) of {reference} in namespace {} of context {}: {} pods have an intent.",
        capital(verb.name()),
        found.started.run,
        found.started.revision,
        reference.namespace,
        session.connection.context.as_deref().unwrap_or("none"),
        found.intents.len()
    );
    if !confirm(&question, args.yes)? {
        tell("nothing was changed\n");
        return Ok(Exit::Done);
    }
    let by = session.holder.operator.clone();
    let command = match verb {
        Verb::Resume => None,
        Verb::RollBack => Some(Command::RollBack { by: by.clone() }),
        Verb::Abort => Some(Command::Abort { by: by.clone() }),
    };
    let named = reference.clone();
    let task = Task {
        workload,
        decide: Box::new(move |record| {
            let run = fit(verb, record, &named)?;
            // Undoing a finished run takes it up again; the machine only takes up unfinished ones.
            Ok(if verb == Verb::RollBack && run.is_ended() {
                vec![Entry::RollbackStarted { cause: Cause::Asked { by } }]
            } else {
                Vec::new()
            })
        }),
        command,
        timeout: args.timeout,
        supersede: None,
    };
    conduct(session, task).await
}

/// The run that the verb acts on, or a refusal that says what the record holds instead.
fn fit<'a>(verb: Verb, record: &'a Record, workload: &WorkloadRef) -> CommandResult<&'a Run> {
    let Some(run) = &record.run else {
        return Err(CommandError::refused(format!("{workload} has no run to {}", verb.name())));
    };
    let fits = match verb {
        Verb::Resume | Verb::Abort => !run.is_ended(),
        Verb::RollBack => can_roll_back(run),
    };
    if fits {
        return Ok(run);
    }
    let sentence = format!("run {} of {workload} has ended: there is nothing to {}", run.started.run, verb.name());
    Err(CommandError::refused(sentence).hint(format!("kubectl kapr history {workload} -n {}", workload.namespace)))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
