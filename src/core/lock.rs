//! Who holds a workload: judged from what this process has itself seen of the lease, never by comparing clocks.
//!
//! A holder is alive when its lease changes while we watch. It is gone when the lease has not changed for its whole
//! duration, measured on our own monotonic clock (client-go's leader election keeps the same rule). The lease is about
//! liveness only; the compare-and-swap of the record is what keeps a late holder from writing.

use std::time::Duration;

use jiff::Timestamp;

/// How long a holder may be silent before another may take over.
pub const LEASE_DURATION: Duration = Duration::from_mins(1);

/// The longest silence that is waited for, whatever a lease claims: nobody of ours asks for more than a minute.
pub const LONGEST_DURATION: Duration = Duration::from_mins(5);

/// How often a holder shows that it is alive.
pub const RENEW_EVERY: Duration = Duration::from_secs(15);

/// Without a renewal for this long a holder starts nothing new: two thirds of the duration.
pub const STOP_AFTER: Duration = Duration::from_secs(40);

/// A lease as it was last read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseView {
    /// `user@host:pid:uuid`; `None` when it was released.
    pub holder: Option<String>,
    /// The resourceVersion: changes with every renewal.
    pub version: String,
    pub duration: Duration,
    /// The holder's own word on when it took the lease; for people only.
    pub acquired_at: Option<Timestamp>,
    /// The holder's own word on when it last showed that it is alive; for people only.
    pub renewed_at: Option<Timestamp>,
}

/// What may be done about a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Nobody holds it: take it.
    Free,
    /// Held, and not seen to change yet: look again; stale when `left` has passed without a change.
    Watching { left: Duration },
    /// It changed while we watched: the holder is alive.
    Alive,
    /// It did not change for its whole duration: take it.
    Stale,
}

/// What this process has seen of a lease so far.
#[derive(Clone, Debug, Default)]
pub struct LeaseWatch {
    first: Option<(String, Duration)>,
}

impl LeaseWatch {
    /// `lease` as just read, `at` on any monotonic clock that starts with this process.
    pub fn judge(&mut self, lease: Option<&LeaseView>, at: Duration) -> Judgement {
        let Some(lease) = lease.filter(|lease| lease.holder.is_some()) else { return Judgement::Free };
        let duration = lease.duration.min(LONGEST_DURATION);
        match &self.first {
            None => {
                self.first = Some((lease.version.clone(), at));
                Judgement::Watching { left: duration }
            }
            Some((version, _)) if *version != lease.version => Judgement::Alive,
            Some((_, since)) => {
                let watched = at.saturating_sub(*since);
                if watched >= duration {
                    Judgement::Stale
                } else {
                    Judgement::Watching { left: duration.saturating_sub(watched) }
                }
            }
        }
    }
}

/// `user@host:pid:uuid` as a person reads it: `user@host (pid 4711)`.
pub fn readable(holder: &str) -> String {
    let mut parts = holder.rsplitn(3, ':');
    let (_uuid, pid, who) = (parts.next(), parts.next(), parts.next());
    match (who, pid) {
        (Some(who), Some(pid)) => format!("{who} (pid {pid})"),
        _ => holder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, version: &str) -> LeaseView {
        LeaseView {
            holder: holder.map(str::to_owned),
            version: version.to_owned(),
            duration: LEASE_DURATION,
            acquired_at: None,
            renewed_at: None,
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn no_lease_and_a_released_one_are_free() {
        assert_eq!(LeaseWatch::default().judge(None, SECOND), Judgement::Free);
        assert_eq!(LeaseWatch::default().judge(Some(&lease(None, "1")), SECOND), Judgement::Free);
    }

    #[test]
    fn a_renewal_shows_that_the_holder_lives() {
        let mut watch = LeaseWatch::default();
        assert_eq!(watch.judge(Some(&lease(Some("a"), "1")), SECOND), Judgement::Watching { left: LEASE_DURATION });
        assert_eq!(watch.judge(Some(&lease(Some("a"), "2")), 16 * SECOND), Judgement::Alive);
    }

    #[test]
    fn silence_for_the_whole_duration_frees_it_and_not_a_moment_before() {
        let mut watch = LeaseWatch::default();
        let held = lease(Some("a"), "1");
        let _ = watch.judge(Some(&held), SECOND);
        assert_eq!(watch.judge(Some(&held), 60 * SECOND), Judgement::Watching { left: SECOND });
        assert_eq!(watch.judge(Some(&held), 61 * SECOND), Judgement::Stale);
    }

    #[test]
    fn a_holder_reads_well() {
        assert_eq!(readable("ann@laptop:4711:0f1e"), "ann@laptop (pid 4711)");
        assert_eq!(readable("odd"), "odd");
    }
}
