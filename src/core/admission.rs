//! May a run of this revision begin, and on what does it build? Decided from the record alone.

use super::journal::{Denial, Record, Run, Stage};
use super::revision::Revision;

/// What the record says to a recommendation.
#[derive(Clone, PartialEq, Debug)]
pub enum Admission<'a> {
    /// Nothing is in flight.
    Fresh,
    /// The same revision is in flight: go on where it stands.
    Continue(&'a Run),
    /// Another revision is in flight: it is superseded.
    Supersede(&'a Run),
    /// The revision failed on this workload.
    Denied(&'a Denial),
}

/// The same revision goes on also while it rolls back; a denied one is refused unless it is in flight (its denial is
/// written with its end).
pub fn admit<'a>(record: &'a Record, revision: &Revision) -> Admission<'a> {
    match record.active() {
        Some(run) if run.started.revision == *revision => Admission::Continue(run),
        active => match (record.denial(revision), active) {
            (Some(denial), _) => Admission::Denied(denial),
            (None, Some(run)) => Admission::Supersede(run),
            (None, None) => Admission::Fresh,
        },
    }
}

/// Whether a run can still be undone: it is in flight, or it ended with pods at its values.
pub fn can_roll_back(run: &Run) -> bool {
    use super::rollout::outcome::Ending;
    match &run.stage {
        Stage::Stepping { .. } | Stage::Pausing { .. } | Stage::RollingBack { .. } => true,
        Stage::Ended { ending, .. } => match ending {
            Ending::ValidatedWithoutPersistence | Ending::RollbackIncomplete { .. } | Ending::Aborted { .. } => true,
            Ending::RolledBack { .. } | Ending::Superseded { .. } => false,
        },
    }
}
