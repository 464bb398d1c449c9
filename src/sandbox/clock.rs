//! Time and identity inside the sandbox: a wall clock that moves with tokio's (so a paused clock moves the cluster's
//! timestamps too) and identifiers that are the same in every run with the same seed.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The cluster's wall clock.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    started: Instant,
    at_start: Timestamp,
}

impl Clock {
    pub(super) fn new(at_start: Option<Timestamp>) -> Self {
        Self { started: Instant::now(), at_start: at_start.unwrap_or_else(Timestamp::now) }
    }

    pub(super) fn instant() -> Instant {
        Instant::now()
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.at_start + self.started.elapsed()
    }

    /// Now, in whole seconds, as objects carry it.
    pub(super) fn stamp(&self) -> String {
        seconds(self.wall())
    }

    pub(super) fn stamp_in(&self, wait: Duration) -> String {
        seconds(self.wall() + wait)
    }
}

fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// A source of names and UIDs: splitmix64 over a counter, so that runs repeat.
#[derive(Debug)]
pub(super) struct Ids(u64);

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn uid(&mut self) -> String {
        let (a, b) = (self.number(), self.number());
        let (high, low) = ((a & !0xf000) | 0x4000, (b & !(0b11 << 62)) | (0b10 << 62));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Five letters, from the alphabet that Kubernetes uses for generated names.
    pub(super) fn suffix(&mut self) -> String {
        word(self.number(), 5)
    }

    pub(super) fn container(&mut self) -> String {
        format!("containerd://{:016x}{:016x}{:016x}{:016x}", self.number(), self.number(), self.number(), self.number())
    }
}

/// `length` letters of a number, in Kubernetes' alphabet without vowels and look-alikes.
pub(super) fn word(mut number: u64, length: usize) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..length)
        .map(|_| {
            let letter = ALPHABET[usize::try_from(number % 27).unwrap_or(0)];
            number /= 27;
            char::from(letter)
        })
        .collect()
}

/// FNV-1a, for hashes that only have to be stable (template hashes).
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_repeat_with_the_seed_and_have_the_form_of_a_uuid() {
        let (mut one, mut two) = (Ids::new(7), Ids::new(7));
        let uid = one.uid();
        assert_eq!(uid, two.uid());
        assert_ne!(uid, one.uid());
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
    }

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_moves_with_tokio() {
        let clock = Clock::new(Some("2026-01-01T00:00:00Z".parse().expect("a timestamp")));
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.stamp(), "2026-01-01T00:01:30Z");
    }
}
