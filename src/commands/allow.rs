//! `kubectl kapr denied` and `kubectl kapr allow`: the deny-list of a workload.

use clap::Args;

use super::document::{columns, document};
use super::history::{Kept, kept};
use super::session::{Session, print, subject, tell};
use super::workload_arg::{WorkloadArg, parse};
use crate::clock::Clock;
use crate::core::exit::Exit;
use crate::core::journal::{Entry, Record};
use crate::core::revision::Revision;
use crate::core::workload::WorkloadRef;
use crate::engine::{Appended, Journal};
use crate::error::{CommandError, CommandResult};
use crate::render::history_view;

/// Show the recommendations that failed on a workload
///
/// A recommendation whose run failed is not tried again on that workload until it is allowed. Only reads.
#[derive(Args, Clone, Debug)]
pub struct DeniedArgs {
    #[command(flatten)]
    pub workload: WorkloadArg,
}

/// Let a recommendation that failed on a workload be tried again
///
/// Takes at least the first four hex digits of a revision that `kubectl kapr denied` shows. A run that is going on is
/// not disturbed.
#[derive(Args, Clone, Debug)]
pub struct AllowArgs {
    /// The workload, as TYPE/NAME or TYPE NAME, and the revision or its first digits
    #[arg(value_names = ["TYPE/NAME", "REVISION"], num_args = 2..=3, required = true, add = clap_complete::ArgValueCandidates::new(super::candidates::workloads))]
    pub words: Vec<String>,
}

/// Somebody who writes all the time could keep us from it for ever.
const TRIES: usize = 10;

pub async fn denied(args: &DeniedArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json", "yaml"]).map_err(CommandError::usage)?;
    let reference = args.workload.resolve(&session.connection.namespace)?;
    let Kept { record, .. } = kept(session, &reference).await?;
    let format = &session.output.output;
    if let Some(text) = document(format, || history_view::denied_json(&reference, &record))? {
        print(&text)?;
    } else if record.folded.denied.is_empty() {
        tell(&format!("no revision is denied on {reference}\n"));
    } else {
        print(&history_view::denied_table(&record, format.name() == "wide", columns(), session.clock.now()))?;
    }
    Ok(Exit::Done)
}

pub async fn allow(args: &AllowArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "name"]).map_err(CommandError::usage)?;
    let Some((prefix, workload)) = args.words.split_last() else {
        return Err(CommandError::usage("name a workload and a revision"));
    };
    let reference = parse(workload, &session.connection.namespace)?;
    if prefix.len() < 4 || prefix.len() > 64 || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(CommandError::usage(format!("{prefix:?} is no revision: write at least its first 4 hex digits"))
            .hint(format!("kubectl kapr denied {reference} -n {}", reference.namespace)));
    }
    let workload = session.workload(&reference).await?;
    for _ in 0..TRIES {
        let mut journal = Journal::open(&session.store, subject(&workload), &session.holder.operator).await?;
        let revision = chosen(&journal.record, prefix, &reference)?;
        let entry = Entry::Allowed { revision: revision.clone() };
        if journal.append(&session.store, vec![entry], session.clock.now(), |_| {}).await? == Appended::Done {
            let (kind, name) = (reference.kind.singular(), &reference.name);
            print(&format!("{kind}.apps/{name} revision {revision} allowed\n"))?;
            return Ok(Exit::Done);
        }
    }
    Err(CommandError::say(
        Exit::Unexpected,
        format!("the record of {reference} is being written all the time; try again"),
    ))
}

/// The one denied revision that begins with the prefix.
fn chosen(record: &Record, prefix: &str, workload: &WorkloadRef) -> CommandResult<Revision> {
    let denied = record.folded.denied.keys().filter_map(|text| Revision::try_from(text.clone()).ok());
    let denied = denied.collect::<Vec<_>>();
    let list = |revisions: &[&Revision], all: bool| {
        let show = |revision: &&Revision| if all { revision.full().to_owned() } else { revision.to_string() };
        revisions.iter().map(show).collect::<Vec<_>>().join(", ")
    };
    match denied.iter().filter(|revision| revision.starts_with(prefix)).collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).clone()),
        [] if denied.is_empty() => Err(CommandError::refused(format!("no revision is denied on {workload}"))),
        [] => Err(CommandError::refused(format!(
            "revision {prefix} is not denied on {workload}; denied are {}",
            list(&denied.iter().collect::<Vec<_>>(), false)
        ))),
        several => {
            // Where the shown digits are the same, only all of them tell which is which.
            let all = prefix.len() >= crate::core::revision::SHORT;
            Err(CommandError::refused(format!(
                "{prefix} is the beginning of several denied revisions of {workload}: {}",
                list(several, all)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::core::journal::Denial;
    use crate::core::resources::ContainerResources;
    use crate::core::rollout::cause::Cause;
    use crate::core::workload::WorkloadKind;

    fn record(revisions: &[&str]) -> Record {
        let mut record = Record::default();
        for revision in revisions {
            let denial = Denial {
                run: 1,
                at: jiff::Timestamp::UNIX_EPOCH,
                by: "ana@laptop".into(),
                cause: Cause::NothingLeft,
                target: ContainerResources::new(),
            };
            record.folded.denied.insert(format!("{revision:0<64}"), denial);
        }
        record
    }

    #[rstest]
    #[case(&["abcd1", "abce1"], "abcd", "abcd100000")]
    #[case(&["abcd1", "abce1"], "ABCE1", "abce100000")]
    #[case(&["abcd1", "abcd2"], "abcd",
        "abcd is the beginning of several denied revisions of deployment/web: abcd100000, abcd200000 (exit 7)")]
    #[case(&["abcd1"], "ffff", "revision ffff is not denied on deployment/web; denied are abcd100000 (exit 7)")]
    #[case(&[], "ffff", "no revision is denied on deployment/web (exit 7)")]
    fn the_revision_that_is_meant(#[case] denied: &[&str], #[case] prefix: &str, #[case] want: &str) {
        let web = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let got = chosen(&record(denied), prefix, &web);
        let got = got.map_or_else(|e| format!("{} (exit {})", e.error, e.exit.code()), |revision| revision.to_string());
        assert_eq!(got, want);
    }
}
