//! `kubectl kapr status -w`: the changes of a run that somebody else drives, shown by the readers of a run's own events.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::conduct::{Shared, lock, tick};
use super::flags::OutputFormat;
use super::session::{Session, print, tell};
use super::{document, status};
use crate::core::exit::Exit;
use crate::core::follow::{Follow, Scenery};
use crate::core::status::Status;
use crate::core::workload::WorkloadView;
use crate::engine::Reader;
use crate::error::{CommandError, CommandResult};
use crate::render::mode::Progress;
use crate::render::status_list;
use crate::render::status_view::{self, StatusView};
use crate::render::{Streams, live, reporter};
use crate::store::KubeStore;

/// How often the records are listed.
const LIST_EVERY: Duration = Duration::from_secs(2);

type KubeReader<'a> = Reader<'a, crate::cluster::KubeCluster, KubeStore>;

/// Follows one workload until its run is over.
pub async fn one(session: &Session, reader: &KubeReader<'_>, workload: WorkloadView) -> CommandResult {
    match session.output.output {
        OutputFormat::Json | OutputFormat::Yaml => documents(session, reader, workload).await,
        OutputFormat::Table | OutputFormat::Wide => events(session, reader, workload).await,
        OutputFormat::Name | OutputFormat::JsonPath(_) => {
            Err(CommandError::usage("-w shows changes: use -o table, json or yaml"))
        }
    }
}

/// One document for each change.
async fn documents(session: &Session, reader: &KubeReader<'_>, workload: WorkloadView) -> CommandResult {
    let (context, yaml) = (session.connection.context.as_deref(), session.output.output == OutputFormat::Yaml);
    let mut told = Value::Null;
    let mut failed = None;
    let mut show = |status: &Status, now: Timestamp, _: Option<&WorkloadView>| {
        let value = status_view::json(&StatusView { context, status, now });
        let mut compared = value.clone();
        // A renewed lease is no change.
        compared["holder"]["renewedAt"] = Value::Null;
        if compared != told {
            told = compared;
            let text = if yaml {
                document::document(&OutputFormat::Yaml, || value)
                    .map(|text| format!("---\n{}", text.unwrap_or_default()))
            } else {
                Ok(format!("{value}\n"))
            };
            if let Err(error) = text.and_then(|text| print(&text)) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        if status.record.active().is_none() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let ended = until_interrupt(Box::pin(reader.watch(workload, &mut show))).await?;
    failed.map_or(Ok(ended), Err)
}

/// The same view that the operator of the run has.
async fn events(session: &Session, reader: &KubeReader<'_>, workload: WorkloadView) -> CommandResult {
    let shared: Shared = Arc::new(Mutex::new(make_reporter(session)));
    let ticking = tokio::spawn(tick(shared.clone(), session.clock));
    let mut scenery = Scenery {
        workload: workload.reference.clone(),
        context: session.connection.context.clone(),
        template: workload.template.clone(),
    };
    let mut follow = Follow::default();
    let mut lost = None;
    let mut show = |status: &Status, now: Timestamp, workload: Option<&WorkloadView>| {
        if let Some(workload) = workload {
            scenery.template.clone_from(&workload.template);
        }
        let (Some(run), Some(seen)) = (&status.record.run, &status.survey) else {
            lost = Some(status.gone.clone().unwrap_or_else(|| "the record is gone".to_owned()));
            return ControlFlow::Break(());
        };
        for (at, event) in follow.next(&scenery, run, seen, now) {
            lock(&shared).event(at, &event);
        }
        if follow.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let ended = until_interrupt(Box::pin(reader.watch(workload, &mut show))).await;
    ticking.abort();
    let finished = lock(&shared).finish();
    if let Some(why) = lost {
        tell(&format!("{}\n", crate::render::text::clean(&why)));
    }
    let exit = ended?;
    finished?;
    Ok(exit)
}

/// A live view where stdout is a terminal; otherwise each change is a line of the result.
fn make_reporter(session: &Session) -> Box<dyn crate::render::Reporter> {
    let mut mode = session.mode();
    let mut stderr: Box<dyn std::io::Write + Send> = Box::new(std::io::stderr());
    if mode.progress == Progress::Plain || !std::io::stdout().is_terminal() && mode.progress == Progress::Live {
        mode.progress = Progress::Plain;
        stderr = Box::new(std::io::stdout());
    }
    let (stdout, size) = (Box::new(std::io::stdout()), Box::new(live::stderr_size));
    reporter(mode, Streams { stdout, stderr, size, watching: true })
}

/// Watching ends with Ctrl-C; nothing has to be put right.
async fn until_interrupt(watching: impl Future<Output = Result<(), crate::engine::EngineError>>) -> CommandResult {
    tokio::select! {
        ended = watching => ended.map(|()| Exit::Done).map_err(Into::into),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

/// The records of a namespace or of all: first all of them, then those that changed.
pub async fn all(session: &Session, all: bool) -> CommandResult {
    let mut told = std::collections::BTreeMap::new();
    let mut first = true;
    loop {
        let mut listed = status::listed(session, all).await?;
        listed.retain(|one| {
            let value = status_list::item(one);
            told.insert(one.workload.clone(), value.clone()) != Some(value)
        });
        if first || !listed.is_empty() {
            print(&rows(session, &listed, all, first)?)?;
            first = false;
        }
        tokio::select! {
            () = tokio::time::sleep(LIST_EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        }
    }
}

fn rows(session: &Session, listed: &[status_list::Listed], all: bool, first: bool) -> CommandResult<String> {
    match session.output.output {
        OutputFormat::Json => {
            Ok(listed.iter().flat_map(|one| [status_list::item(one).to_string(), "\n".into()]).collect())
        }
        OutputFormat::Yaml => Err(CommandError::usage("-w of several workloads: use -o table, wide or json")),
        OutputFormat::Table | OutputFormat::Wide | OutputFormat::Name | OutputFormat::JsonPath(_) => {
            let table = status::table(session, listed, all);
            Ok(if first { table } else { table.split_inclusive('\n').skip(1).collect() })
        }
    }
}
