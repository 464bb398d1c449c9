//! The record as this process holds it: appends by compare-and-swap, tells a lost answer from a lost lock.

use std::time::Duration;

use jiff::Timestamp;

use crate::core::journal::{Append, Entry, Record, SCHEMA};
use crate::store::{Store, StoreError, Stored, Subject, Version};

/// How long between two tries of a write that nobody answered.
const RETRY: Duration = Duration::from_secs(2);

/// The record of one workload and the version this process has seen of it.
#[derive(Clone, Debug)]
pub struct Journal {
    pub subject: Subject,
    pub record: Record,
    version: Version,
    by: String,
}

/// What came of an append.
#[derive(Debug, PartialEq, Eq)]
pub enum Appended {
    Done,
    /// Somebody else wrote: this process does not hold the workload any more.
    Lost,
    /// The record is gone: it goes with its workload.
    Vanished,
}

impl Journal {
    /// Reads the record. `by` is `user@host`, the name under which this process writes.
    pub async fn open(store: &impl Store, subject: Subject, by: &str) -> Result<Self, StoreError> {
        let Stored { record, version } = store.read(&subject).await?;
        Ok(Self { subject, record, version, by: by.to_owned() })
    }

    /// Writes entries, once. When nothing is known of the outcome, the record is read again until it is.
    pub async fn append(
        &mut self,
        store: &impl Store,
        entries: Vec<Entry>,
        at: Timestamp,
        mut trouble: impl FnMut(&StoreError),
    ) -> Result<Appended, StoreError> {
        let append = Append { schema: SCHEMA, at, by: self.by.clone(), entries };
        let starts_run = match append.entries.first() {
            Some(Entry::RunStarted(started)) if started.supersedes.is_none() => Some(started.run),
            _ => None,
        };
        loop {
            // Only a run that has ended may be folded away: a superseded one still holds the baselines. Decided for each
            // try: what another operator allowed in between must not come back.
            let fold = starts_run
                .filter(|_| self.record.active().is_none() && !matches!(self.version, Version::Absent))
                .map(|run| self.record.folded_up(run, at));
            match store.append(&self.subject, &self.version, &append, fold.as_ref()).await {
                Ok(version) => {
                    self.version = version;
                    let next = std::mem::take(&mut self.record).append(append);
                    self.record = next.map_err(|e| self.unreadable(e.to_string()))?;
                    return Ok(Appended::Done);
                }
                Err(StoreError::Conflict { .. }) => match self.catch_up(store, &append).await {
                    Ok(CaughtUp::Written) => return Ok(Appended::Done),
                    Ok(CaughtUp::Passed) => {}
                    Ok(CaughtUp::Overtaken) => return Ok(Appended::Lost),
                    Ok(CaughtUp::Vanished) => return Ok(Appended::Vanished),
                    Err(error @ StoreError::Unknown { .. }) => {
                        trouble(&error);
                        tokio::time::sleep(RETRY).await;
                    }
                    Err(error) => return Err(error),
                },
                // The write may have been made: the same write again answers with a conflict then.
                Err(error @ StoreError::Unknown { .. }) => {
                    trouble(&error);
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Takes in the record as it was read while nothing was being written: is it still ours? What others may
    /// write beside us is taken in.
    pub fn take_in(&mut self, stored: Stored) -> Appended {
        if stored.version == self.version {
            Appended::Done
        } else if self.has_vanished(&stored) {
            Appended::Vanished
        } else if only_notes(&self.record, &stored.record) {
            (self.record, self.version) = (stored.record, stored.version);
            Appended::Done
        } else {
            Appended::Lost
        }
    }

    async fn catch_up(&mut self, store: &impl Store, append: &Append) -> Result<CaughtUp, StoreError> {
        let stored = store.read(&self.subject).await?;
        // Our own write, whose answer was lost: the record is what it would be with it.
        let with_ours = self.record.clone().append(append.clone()).ok();
        if with_ours.as_ref() == Some(&stored.record) {
            (self.record, self.version) = (stored.record, stored.version);
            return Ok(CaughtUp::Written);
        }
        if self.has_vanished(&stored) {
            return Ok(CaughtUp::Vanished);
        }
        if stored.version != self.version && only_notes(&self.record, &stored.record) {
            (self.record, self.version) = (stored.record, stored.version);
            return Ok(CaughtUp::Passed);
        }
        Ok(CaughtUp::Overtaken)
    }

    /// There was a record of this workload, and now there is none.
    fn has_vanished(&self, stored: &Stored) -> bool {
        matches!(self.version, Version::Present { .. }) && !matches!(stored.version, Version::Present { .. })
    }

    fn unreadable(&self, reason: String) -> StoreError {
        StoreError::Unreadable { what: format!("the record of {}", self.subject.workload), reason }
    }
}

enum CaughtUp {
    /// The write was made after all.
    Written,
    /// Somebody left a wish or allowed a revision in between; the write can be made now.
    Passed,
    Overtaken,
    Vanished,
}

/// Whether `now` differs from `before` only by what anybody may write without holding the workload: a wish to take over,
/// and a denied revision that is allowed again.
fn only_notes(before: &Record, now: &Record) -> bool {
    let run = |record: &Record| {
        let mut run = record.run.clone();
        if let Some(run) = &mut run {
            run.last_entry_at = Timestamp::UNIX_EPOCH;
        }
        run
    };
    let denied = &before.folded.denied;
    let fewer = now.folded.denied.iter().all(|(revision, denial)| denied.get(revision) == Some(denial));
    fewer && now.folded.runs == before.folded.runs && run(now) == run(before)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
