//! `kubectl kapr history`: the runs of a workload, and everything that is kept of one.

use clap::Args;

use super::document::{columns, document};
use super::session::{Session, print, subject, tell};
use super::status::not_found;
use super::workload_arg::WorkloadArg;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::core::exit::Exit;
use crate::core::journal::Record;
use crate::core::status::Operator;
use crate::core::workload::WorkloadRef;
use crate::error::{CommandError, CommandResult};
use crate::render::history_view;
use crate::store::{Store, Version};

/// Show the runs of a workload: who, when, why, and how they ended
///
/// The last ten finished runs are kept. With --run: the values before and after, the steps with their times, and the
/// evidence of a failure. Only reads.
#[derive(Args, Clone, Debug)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub workload: WorkloadArg,
    /// Everything that is kept of this run
    #[arg(long, value_name = "N")]
    pub run: Option<u32>,
}

pub async fn run(args: &HistoryArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json", "yaml"]).map_err(CommandError::usage)?;
    let reference = args.workload.resolve(&session.connection.namespace)?;
    let Kept { record, operator } = kept(session, &reference).await?;
    let now = session.clock.now();
    let mut chapters = history_view::chapters(&record, &operator, now);
    if let Some(number) = args.run {
        let known = chapters.iter().map(|chapter| chapter.summary.started.run.to_string()).collect::<Vec<_>>();
        chapters.retain(|chapter| chapter.summary.started.run == number);
        if chapters.is_empty() {
            let kept = if known.is_empty() { "none is".to_owned() } else { format!("kept are {}", known.join(", ")) };
            return Err(CommandError::refused(format!("{reference} has no run {number}: {kept}")));
        }
    }
    let format = &session.output.output;
    if let Some(text) = document(format, || history_view::json(&reference, &chapters, &record))? {
        print(&text)?;
        return Ok(Exit::Done);
    }
    let wide = format.name() == "wide";
    match (args.run, chapters.first()) {
        (_, None) => tell(&format!("no run of {reference} is recorded\n")),
        (Some(_), Some(one)) => {
            let columns = if wide { usize::MAX } else { columns() };
            print(&history_view::detail(&reference, one, &record, columns, now))?;
        }
        (None, Some(_)) => print(&history_view::table(&chapters, wide, columns(), now))?,
    }
    Ok(Exit::Done)
}

/// What is kept of a workload, whether it is still there or not.
pub struct Kept {
    pub record: Record,
    pub operator: Operator,
}

/// Reads the record. One that a deleted workload left behind is told to be such; none at all is a refusal.
pub async fn kept(session: &Session, reference: &WorkloadRef) -> CommandResult<Kept> {
    let Some(workload) = session.cluster.workload(reference).await? else {
        let records = session.store.list(Some(&reference.namespace)).await?;
        let left = records.into_iter().find(|(subject, _)| subject.workload == *reference);
        let Some((_, stored)) = left else { return Err(not_found(session, reference).await) };
        tell(&format!("{reference} was deleted; this is what its record still holds\n"));
        return Ok(Kept { record: stored?.record, operator: Operator::Nobody });
    };
    let subject = subject(&workload);
    let stored = session.store.read(&subject).await?;
    if matches!(stored.version, Version::Foreign { .. }) {
        tell(&format!("the record here is of an earlier {reference}, which was deleted: it does not count\n"));
    }
    let operator = match session.store.read_lease(&subject).await {
        Ok(lease) => Operator::of(lease, session.clock.now()),
        Err(error) => Operator::Unknown(error.to_string()),
    };
    Ok(Kept { record: stored.record, operator })
}
