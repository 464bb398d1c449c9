//! `kubectl kapr status`: who holds a workload, where its run stands, what its pods have; or a row for each record.

use clap::Args;
use futures::future::join_all;

use super::document::{columns, document};
use super::session::{Session, print};
use super::status_watch;
use super::workload_arg::OptionalWorkloadArg;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::core::exit::Exit;
use crate::core::status::{Operator, Status};
use crate::core::workload::WorkloadRef;
use crate::engine::Reader;
use crate::error::{CommandError, CommandResult};
use crate::render::status_list::{self, Listed};
use crate::render::status_view::{self, StatusView};
use crate::store::{KubeStore, Store};

/// Show where the run of a workload stands, and what its pods have
///
/// For each pod: its state in the run, and the values that the template gives, the spec asks for, the kubelet has
/// granted and the runtime has. Without a workload: a row for each record of the namespace. Only reads.
#[derive(Args, Clone, Debug, Default)]
pub struct StatusArgs {
    #[command(flatten)]
    pub workload: OptionalWorkloadArg,
    /// Go on showing changes until the run is over
    #[arg(short, long)]
    pub watch: bool,
    /// The records of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

pub async fn run(args: &StatusArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json", "yaml", "name"]).map_err(CommandError::usage)?;
    let Some(reference) = args.workload.resolve(&session.connection.namespace)? else {
        return list(args, session).await;
    };
    if args.all_namespaces {
        return Err(CommandError::usage("a workload lies in one namespace: leave out -A, or the workload"));
    }
    let reader = reader(session);
    let Some(workload) = session.cluster.workload(&reference).await? else {
        let left = reader.left_behind(&reference).await?;
        let Some(status) = left else { return Err(not_found(session, &reference).await) };
        print(&text(session, &status)?)?;
        return Ok(Exit::Done);
    };
    let status = reader.glance(&workload).await?;
    if args.watch && status.record.active().is_some() {
        return status_watch::one(session, &reader, workload).await;
    }
    print(&text(session, &status)?)?;
    Ok(Exit::Done)
}

/// What reads without holding.
pub fn reader(session: &Session) -> Reader<'_, crate::cluster::KubeCluster, KubeStore> {
    Reader {
        cluster: &session.cluster,
        store: &session.store,
        clock: &session.clock,
        server_minor: session.version.minor,
    }
}

/// The refusal that names the workload.
pub async fn not_found(session: &Session, reference: &WorkloadRef) -> CommandError {
    match session.workload(reference).await {
        Err(error) => error,
        Ok(_) => CommandError::say(Exit::Unexpected, format!("{reference} was made again just now; ask again")),
    }
}

/// The status in the format that was asked for.
fn text(session: &Session, status: &Status) -> CommandResult<String> {
    let format = &session.output.output;
    let view = StatusView { context: session.connection.context.as_deref(), status, now: session.clock.now() };
    if let Some(text) = document(format, || status_view::json(&view))? {
        return Ok(text);
    }
    Ok(match format.name() {
        "name" => name_line(&status.workload),
        name => status_view::table(&view, name == "wide", columns()),
    })
}

fn name_line(workload: &WorkloadRef) -> String {
    format!("{}.apps/{}\n", workload.kind.singular(), workload.name)
}

async fn list(args: &StatusArgs, session: &Session) -> CommandResult {
    if args.watch {
        return status_watch::all(session, args.all_namespaces).await;
    }
    let listed = listed(session, args.all_namespaces).await?;
    let format = &session.output.output;
    if let Some(text) = document(format, || status_list::json(&listed))? {
        print(&text)?;
    } else if format.name() == "name" {
        print(&listed.iter().map(|one| name_line(&one.workload)).collect::<String>())?;
    } else if listed.is_empty() {
        let place = if args.all_namespaces {
            String::new()
        } else {
            format!(" in namespace {:?}", session.connection.namespace)
        };
        super::session::tell(&format!("no runs are recorded{place}\n"));
    } else {
        print(&table(session, &listed, args.all_namespaces))?;
    }
    Ok(Exit::Done)
}

/// The table of the records that are given.
pub fn table(session: &Session, listed: &[Listed], all: bool) -> String {
    let wide = session.output.output.name() == "wide";
    status_list::table(listed, all, wide, columns(), session.clock.now())
}

/// Every record, with the lease of those that have an unfinished run.
pub async fn listed(session: &Session, all: bool) -> CommandResult<Vec<Listed>> {
    let namespace = (!all).then_some(session.connection.namespace.as_str());
    let records = session.store.list(namespace).await?;
    let rows = records.into_iter().map(|(subject, stored)| async move {
        let busy = stored.as_ref().is_ok_and(|stored| stored.record.active().is_some());
        let operator = match if busy { session.store.read_lease(&subject).await } else { Ok(None) } {
            Ok(lease) => Operator::of(lease, session.clock.now()),
            Err(error) => Operator::Unknown(error.to_string()),
        };
        let record = match stored {
            Ok(stored) => Ok(stored.record),
            Err(crate::store::StoreError::Unreadable { reason, .. }) => Err(reason),
            Err(error) => Err(error.to_string()),
        };
        Listed { workload: subject.workload, record, operator }
    });
    let mut listed = join_all(rows).await;
    listed.sort_by(|a, b| a.workload.cmp(&b.workload));
    Ok(listed)
}
