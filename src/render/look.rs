//! How the state of a pod looks: its symbol, its word, and what is shown before what.

use super::paint::Paint;
use crate::core::rollout::event::PodState;

/// What is shown first when there is not room for every pod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    Failing,
    /// Waits for something that the run does not control.
    Waiting,
    Moving,
    /// Not followed any more although it is not at target.
    LeftOut,
    /// Chosen; its turn comes.
    Queued,
    Ok,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    pub symbol: &'static str,
    pub paint: Paint,
    /// One word, at most `WORD_WIDTH` columns.
    pub word: &'static str,
    pub class: Class,
}

/// The widest word of a state.
pub const WORD_WIDTH: usize = 11;

pub const GOOD: &str = "✔";
pub const BAD: &str = "✖";
pub const MOVING: &str = "◌";
pub const CLOCK: &str = "◷";
pub const WARNING: &str = "⚠";
const DOT: &str = "·";

impl Look {
    /// `restoring`: the pod is on its way back to its baseline.
    pub fn of(state: PodState, restoring: bool) -> Self {
        let look = |symbol, paint, word, class| Self { symbol, paint, word, class };
        match state {
            PodState::Chosen | PodState::Pending | PodState::InProgress | PodState::Applied if restoring => {
                look(MOVING, Paint::Attention, "Restoring", Class::Moving)
            }
            PodState::Chosen => look(DOT, Paint::Faint, "Chosen", Class::Queued),
            PodState::Pending => look(MOVING, Paint::Moving, "Pending", Class::Moving),
            PodState::InProgress => look(MOVING, Paint::Moving, "InProgress", Class::Moving),
            PodState::Applied => look(MOVING, Paint::Good, "Applied", Class::Moving),
            PodState::Deferred => look(CLOCK, Paint::Attention, "Deferred", Class::Waiting),
            PodState::Infeasible => look(BAD, Paint::Bad, "Infeasible", Class::Failing),
            PodState::Failed => look(BAD, Paint::Bad, "Failed", Class::Failing),
            PodState::Diverged => look(BAD, Paint::Bad, "Diverged", Class::Failing),
            PodState::Unhealthy => look(BAD, Paint::Bad, "Unhealthy", Class::Failing),
            PodState::NotRestored => look(BAD, Paint::Bad, "NotRestored", Class::Failing),
            PodState::Foreign => look(WARNING, Paint::Attention, "Foreign", Class::LeftOut),
            PodState::Skipped => look(WARNING, Paint::Attention, "Skipped", Class::LeftOut),
            PodState::Ready => look(GOOD, Paint::Good, "Ready", Class::Ok),
            PodState::Restored => look(GOOD, Paint::Good, "Restored", Class::Ok),
            PodState::Gone => look(DOT, Paint::Faint, "Gone", Class::Gone),
        }
    }
}

/// The states in the order in which counts are read out.
pub const READ_OUT: [PodState; 15] = [
    PodState::Ready,
    PodState::Restored,
    PodState::Applied,
    PodState::InProgress,
    PodState::Pending,
    PodState::Chosen,
    PodState::Deferred,
    PodState::Infeasible,
    PodState::Failed,
    PodState::Diverged,
    PodState::Unhealthy,
    PodState::NotRestored,
    PodState::Skipped,
    PodState::Foreign,
    PodState::Gone,
];

/// Pods by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally([usize; READ_OUT.len()]);

impl Tally {
    pub fn add(&mut self, state: PodState) {
        self.0[state as usize] += 1;
    }

    pub fn remove(&mut self, state: PodState) {
        self.0[state as usize] -= 1;
    }

    pub fn get(&self, state: PodState) -> usize {
        self.0[state as usize]
    }

    /// `2 Ready, 1 InProgress`; what there is none of is left out.
    pub fn words(&self) -> String {
        let parts = READ_OUT.iter().filter(|state| self.get(**state) > 0);
        parts
            .map(|state| format!("{} {}", self.get(*state), Look::of(*state, false).word))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl FromIterator<PodState> for Tally {
    fn from_iter<I: IntoIterator<Item = PodState>>(states: I) -> Self {
        let mut out = Self::default();
        states.into_iter().for_each(|state| out.add(state));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::text;

    #[test]
    fn every_state_is_read_out_once_and_its_word_fits() {
        let tally = READ_OUT.into_iter().collect::<Tally>();
        for state in READ_OUT {
            assert_eq!(tally.get(state), 1, "{state:?}");
            for restoring in [false, true] {
                let look = Look::of(state, restoring);
                assert!(text::width(look.word) <= WORD_WIDTH, "{}", look.word);
                assert_eq!(text::width(look.symbol), 1, "{}", look.symbol);
            }
        }
    }

    #[test]
    fn counts_in_words() {
        let tally = [PodState::Deferred, PodState::Ready, PodState::Ready].into_iter().collect::<Tally>();
        assert_eq!(tally.words(), "2 Ready, 1 Deferred");
    }
}
