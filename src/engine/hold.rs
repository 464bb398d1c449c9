//! Holding a workload: taking the lease, renewing it, giving it back.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Moment;
use crate::core::lock::{Judgement, LEASE_DURATION, LeaseView, LeaseWatch, STOP_AFTER, readable};
use crate::store::{Store, StoreError, Subject};

/// Who this process is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// `user@host`.
    pub operator: String,
    /// `user@host:pid:uuid`.
    pub identity: String,
}

impl Holder {
    pub fn new(user: &str, host: &str) -> Self {
        let random = || RandomState::new().build_hasher().finish();
        let operator = format!("{user}@{host}");
        let identity = format!("{operator}:{}:{:016x}{:016x}", std::process::id(), random(), random());
        Self { operator, identity }
    }
}

/// A lease that this process holds. A copy is renewed beside the loop and put back.
#[derive(Clone, Debug)]
pub struct Hold {
    subject: Subject,
    identity: String,
    version: String,
    renewed: Moment,
}

#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Seen to be alive.
    #[error("{workload} is held by {}{}", readable(holder), since.as_ref().map(|s| format!(" since {s}")).unwrap_or_default())]
    Held { workload: String, holder: String, since: Option<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How long a lease is tried for that could be had and whose writes are not answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two tries to give a lease back that nobody answered.
const RELEASE_AGAIN: Duration = Duration::from_millis(500);

/// How often a foreign lease is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes the lease. Waits until a silent holder has been silent for its whole duration, and gives up as soon as the
/// holder is seen to live. `waiting` is told who holds it and how long is left.
pub async fn acquire(
    store: &impl Store,
    subject: &Subject,
    holder: &Holder,
    mut waiting: impl FnMut(&LeaseView, Duration),
) -> Result<Hold, HoldError> {
    let begun = Moment::now();
    let start = begun.instant;
    let mut watch = LeaseWatch::default();
    loop {
        let lease = store.read_lease(subject).await?;
        let seen = lease.as_ref().map(|lease| lease.version.as_str());
        match (watch.judge(lease.as_ref(), start.elapsed()), &lease) {
            (Judgement::Free | Judgement::Stale, _) => {
                let before = Moment::now();
                match store.hold_lease(subject, seen, &holder.identity, true).await {
                    Ok(version) => {
                        let identity = holder.identity.clone();
                        return Ok(Hold { subject: subject.clone(), identity, version, renewed: before });
                    }
                    // Somebody was faster, or our own write was made and its answer lost: look again.
                    Err(StoreError::Conflict { .. }) => watch = LeaseWatch::default(),
                    // It may be ours now: the next look says so.
                    Err(StoreError::Unknown { .. }) if start.elapsed() < PATIENCE => {
                        watch = LeaseWatch::default();
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            (Judgement::Watching { .. }, Some(lease)) if lease.holder.as_deref() == Some(&holder.identity) => {
                let (subject, identity) = (subject.clone(), holder.identity.clone());
                return Ok(Hold { subject, identity, version: lease.version.clone(), renewed: begun });
            }
            (Judgement::Watching { left }, Some(lease)) => {
                waiting(lease, left);
                tokio::time::sleep(LOOK_EVERY.min(left)).await;
            }
            (Judgement::Alive, Some(lease)) => {
                return Err(HoldError::Held {
                    workload: subject.workload.to_string(),
                    holder: lease.holder.clone().unwrap_or_default(),
                    since: lease.acquired_at.map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()),
                });
            }
            (Judgement::Watching { .. } | Judgement::Alive, None) => {}
        }
    }
}

/// What came of a renewal.
#[derive(Debug, PartialEq, Eq)]
pub enum Renewed {
    Yes,
    /// Somebody else has it.
    Lost(String),
    /// Nobody knows; in words.
    Unknown(String),
}

impl Hold {
    /// Whether new work may be started: the last renewal is recent enough that nobody can have taken over.
    pub fn is_safe(&self) -> bool {
        self.renewed.elapsed() < STOP_AFTER
    }

    pub fn next_renewal(&self) -> Instant {
        self.renewed.instant + crate::core::lock::RENEW_EVERY
    }

    /// Shows that this process is alive. `renewed` is the time before the call: an answer that took long counts less.
    pub async fn renew(&mut self, store: &impl Store) -> Renewed {
        let before = Moment::now();
        match store.hold_lease(&self.subject, Some(&self.version), &self.identity, false).await {
            Ok(version) => {
                (self.version, self.renewed) = (version, before);
                Renewed::Yes
            }
            Err(StoreError::Conflict { .. }) => self.look_who(store, before).await,
            Err(error) => Renewed::Unknown(error.to_string()),
        }
    }

    /// A conflict: an earlier renewal whose answer was lost, or another holder.
    async fn look_who(&mut self, store: &impl Store, before: Moment) -> Renewed {
        match store.read_lease(&self.subject).await {
            Ok(Some(lease)) if lease.holder.as_deref() == Some(&self.identity) => {
                (self.version, self.renewed) = (lease.version, before);
                Renewed::Yes
            }
            Ok(Some(lease)) => Renewed::Lost(lease.holder.unwrap_or_else(|| "nobody".to_owned())),
            // Gone with its workload, or deleted by hand: nobody else holds it.
            Ok(None) => match store.hold_lease(&self.subject, None, &self.identity, true).await {
                Ok(version) => {
                    (self.version, self.renewed) = (version, before);
                    Renewed::Yes
                }
                Err(error) => Renewed::Unknown(error.to_string()),
            },
            Err(error) => Renewed::Unknown(error.to_string()),
        }
    }

    /// Gives the lease back; what cannot be given back expires.
    pub async fn release(self, store: &impl Store) {
        let _ = tokio::time::timeout(LEASE_DURATION / 10, self.give_back(store)).await;
    }

    /// A renewal that nobody waits for any more may still reach the server and change the version: look again. What is
    /// not answered is tried again: a lease that is not given back makes the next operator wait for its end.
    async fn give_back(mut self, store: &impl Store) {
        loop {
            match store.release_lease(&self.subject, &self.version).await {
                Err(StoreError::Conflict { .. }) => {}
                Err(StoreError::Unknown { .. }) => tokio::time::sleep(RELEASE_AGAIN).await,
                Ok(()) | Err(_) => return,
            }
            match store.read_lease(&self.subject).await {
                Ok(Some(lease)) if lease.holder.as_deref() == Some(&self.identity) => self.version = lease.version,
                Err(StoreError::Unknown { .. }) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::core::journal::{Append, Folded};
    use crate::core::workload::{WorkloadKind, WorkloadRef};
    use crate::store::{Stored, Version};

    /// A lease and nothing else: who holds it, and its version.
    #[derive(Default)]
    struct OneLease(Mutex<(Option<String>, u32)>);

    impl OneLease {
        fn change(&self, seen: Option<&str>, holder: Option<&str>) -> Result<String, StoreError> {
            let mut lease = self.0.lock().unwrap();
            if seen.is_some_and(|seen| seen != lease.1.to_string()) {
                return Err(StoreError::Conflict { what: "the lease".to_owned() });
            }
            *lease = (holder.map(str::to_owned), lease.1 + 1);
            Ok(lease.1.to_string())
        }

        fn holder(&self) -> Option<String> {
            self.0.lock().unwrap().0.clone()
        }
    }

    impl Store for OneLease {
        async fn read(&self, _: &Subject) -> Result<Stored, StoreError> {
            unreachable!("no record is read")
        }

        async fn append(
            &self,
            _: &Subject,
            _: &Version,
            _: &Append,
            _: Option<&Folded>,
        ) -> Result<Version, StoreError> {
            unreachable!("no record is written")
        }

        async fn read_lease(&self, _: &Subject) -> Result<Option<LeaseView>, StoreError> {
            let (holder, version) = self.0.lock().unwrap().clone();
            Ok(Some(LeaseView {
                holder,
                version: version.to_string(),
                duration: LEASE_DURATION,
                acquired_at: None,
                renewed_at: None,
            }))
        }

        async fn hold_lease(
            &self,
            _: &Subject,
            seen: Option<&str>,
            holder: &str,
            _: bool,
        ) -> Result<String, StoreError> {
            self.change(seen, Some(holder))
        }

        async fn release_lease(&self, _: &Subject, seen: &str) -> Result<(), StoreError> {
            self.change(Some(seen), None).map(drop)
        }

        async fn list(&self, _: Option<&str>) -> Result<Vec<(Subject, Result<Stored, StoreError>)>, StoreError> {
            unreachable!("nothing is listed")
        }
    }

    async fn held() -> (OneLease, Hold, Holder) {
        let workload =
            WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".to_owned(), name: "web".to_owned() };
        let (store, holder) = (OneLease::default(), Holder::new("ann", "desk"));
        let hold = acquire(&store, &Subject { workload, uid: "uid".to_owned() }, &holder, |_, _| {}).await.unwrap();
        assert_eq!(store.holder().as_ref(), Some(&holder.identity));
        (store, hold, holder)
    }

    #[tokio::test]
    async fn a_lease_that_a_forgotten_renewal_changed_is_given_back() {
        let (store, hold, holder) = held().await;
        store.change(None, Some(&holder.identity)).unwrap();
        hold.release(&store).await;
        assert_eq!(store.holder(), None);
    }

    #[tokio::test]
    async fn a_lease_that_another_took_is_left_to_it() {
        let (store, hold, _) = held().await;
        store.change(None, Some("bob@laptop:1:2")).unwrap();
        hold.release(&store).await;
        assert_eq!(store.holder().as_deref(), Some("bob@laptop:1:2"));
    }
}
