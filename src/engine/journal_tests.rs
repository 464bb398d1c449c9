//! Two operators on one record: what one may write beside the other, and what makes the other lose.

use std::sync::Mutex;

use super::*;
use crate::core::journal::{Folded, RunStarted};
use crate::core::lock::LeaseView;
use crate::core::policy::Policy;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::rollout::cause::Cause;
use crate::core::rollout::outcome::Ending;
use crate::core::workload::{WorkloadKind, WorkloadRef};

/// One record in memory, written by compare-and-swap.
#[derive(Default)]
struct Memory(Mutex<(Record, u32)>);

impl Memory {
    fn version(number: u32) -> Version {
        let keys = (1..=number).map(|n| n.to_string()).collect();
        Version::Present { resource_version: number.to_string(), keys }
    }
}

impl Store for Memory {
    async fn read(&self, _: &Subject) -> Result<Stored, StoreError> {
        let (record, number) = self.0.lock().unwrap().clone();
        Ok(Stored { record, version: if number == 0 { Version::Absent } else { Self::version(number) } })
    }

    async fn append(
        &self,
        _: &Subject,
        version: &Version,
        append: &Append,
        fold: Option<&Folded>,
    ) -> Result<Version, StoreError> {
        let mut stored = self.0.lock().unwrap();
        let (record, number) = stored.clone();
        if *version != (if number == 0 { Version::Absent } else { Self::version(number) }) {
            return Err(StoreError::Conflict { what: "the record".to_owned() });
        }
        let base = fold.map_or(record, |folded| Record { folded: folded.clone(), ..Record::default() });
        *stored = (base.append(append.clone()).unwrap(), number + 1);
        Ok(Self::version(number + 1))
    }

    async fn read_lease(&self, _: &Subject) -> Result<Option<LeaseView>, StoreError> {
        Ok(None)
    }

    async fn hold_lease(&self, _: &Subject, _: Option<&str>, _: &str, _: bool) -> Result<String, StoreError> {
        Ok(String::new())
    }

    async fn release_lease(&self, _: &Subject, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn list(&self, _: Option<&str>) -> Result<Vec<(Subject, Result<Stored, StoreError>)>, StoreError> {
        Ok(Vec::new())
    }
}

fn subject() -> Subject {
    let workload = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
    Subject { workload, uid: "uid".into() }
}

fn revision(digit: char) -> Revision {
    Revision::try_from(digit.to_string().repeat(64)).unwrap()
}

fn started(run: u32, digit: char) -> Entry {
    Entry::RunStarted(Box::new(RunStarted {
        run,
        revision: revision(digit),
        workload_uid: "uid".into(),
        target: ContainerResources::new(),
        policy: Policy::default(),
        eligible: 1,
        reason: None,
        origin: "--set".into(),
        supersedes: None,
        program: "0".into(),
    }))
}

fn denied(digit: char) -> Vec<Entry> {
    let cause = Cause::Infeasible { pod: "web-0".into(), message: "too large".into() };
    vec![
        Entry::Denied { revision: revision(digit), cause: cause.clone() },
        Entry::Ended { ending: Ending::RolledBack { cause }, not_restored: Vec::new() },
    ]
}

async fn write(journal: &mut Journal, store: &Memory, entries: Vec<Entry>) -> Appended {
    journal.append(store, entries, Timestamp::UNIX_EPOCH, |_| {}).await.unwrap()
}

/// A record in which `a` is denied, opened by the operator who works and by one who does not.
async fn two(store: &Memory) -> (Journal, Journal) {
    let mut working = Journal::open(store, subject(), "ana@laptop").await.unwrap();
    assert_eq!(write(&mut working, store, vec![started(1, 'a')]).await, Appended::Done);
    assert_eq!(write(&mut working, store, denied('a')).await, Appended::Done);
    let other = Journal::open(store, subject(), "bo@desk").await.unwrap();
    (working, other)
}

#[tokio::test]
async fn a_revision_that_another_operator_allows_does_not_stop_a_run() {
    let store = Memory::default();
    let (mut working, _) = two(&store).await;
    assert_eq!(write(&mut working, &store, vec![started(2, 'b')]).await, Appended::Done);
    let mut other = Journal::open(&store, subject(), "bo@desk").await.unwrap();
    assert_eq!(write(&mut other, &store, vec![Entry::Allowed { revision: revision('a') }]).await, Appended::Done);

    let seen = store.read(&subject()).await.unwrap();
    assert_eq!(working.clone().take_in(seen), Appended::Done);
    assert_eq!(write(&mut working, &store, vec![Entry::Passed { step: 0 }]).await, Appended::Done);
    assert!(working.record.denial(&revision('a')).is_none());
    assert_eq!(working.record, store.read(&subject()).await.unwrap().record);
}

#[tokio::test]
async fn what_was_allowed_in_between_does_not_come_back_with_the_fold_of_a_new_run() {
    let store = Memory::default();
    let (mut working, mut other) = two(&store).await;
    assert_eq!(write(&mut other, &store, vec![Entry::Allowed { revision: revision('a') }]).await, Appended::Done);
    assert_eq!(write(&mut working, &store, vec![started(2, 'a')]).await, Appended::Done);
    assert!(store.read(&subject()).await.unwrap().record.denial(&revision('a')).is_none());
}

#[tokio::test]
async fn a_denial_of_another_operator_is_not_tolerated() {
    let store = Memory::default();
    let (mut working, mut other) = two(&store).await;
    assert_eq!(write(&mut other, &store, vec![started(2, 'b')]).await, Appended::Done);
    assert_eq!(write(&mut working, &store, vec![started(2, 'c')]).await, Appended::Lost);
    let seen = store.read(&subject()).await.unwrap();
    assert_eq!(working.take_in(seen), Appended::Lost);
}
