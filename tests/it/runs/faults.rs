//! One request in ten goes wrong, in every way a network and an API server know: the end is the same as without.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kapr::core::rollout::outcome::{Conclusion, Ending};
use kapr::sandbox::{Failure, Fault, Phase, Seen};
use tokio::time::Instant;

use super::stage::{Stage, Wish, policy};

/// A small generator with a seed: the same faults in every run of the test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's multiplier; the low bits of such a generator are poor, the high ones are not.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Faults at 10 % of the requests of the product; nothing else is touched.
fn trouble(stage: &Stage, seed: u64) -> Arc<Mutex<u32>> {
    let (dice, count) = (Mutex::new(Dice(seed)), Arc::new(Mutex::new(0)));
    let counted = count.clone();
    stage.sandbox.intercept(Some(Arc::new(move |phase: Phase, seen: &Seen| {
        if seen.user_agent.starts_with("sandbox/") {
            return Fault::None;
        }
        let mut dice = dice.lock().unwrap();
        let fault = match phase {
            Phase::Before if dice.roll(20) == 0 => match dice.roll(5) {
                0 => Fault::Answer(Failure::new(429, "TooManyRequests", "too many requests, please try again later")),
                1 => Fault::Answer(Failure::new(500, "InternalError", "etcdserver: request timed out")),
                2 => Fault::Answer(Failure::new(503, "ServiceUnavailable", "apiserver is shutting down")),
                3 => Fault::Drop,
                _ => Fault::Delay(Duration::from_secs(5)),
            },
            Phase::After(_) if dice.roll(20) == 0 => match dice.roll(3) {
                0 => {
                    Fault::Answer(Failure::new(504, "Timeout", "request did not complete within the allotted timeout"))
                }
                1 => Fault::Drop,
                _ => Fault::Delay(Duration::from_secs(5)),
            },
            Phase::Before | Phase::After(_) => Fault::None,
        };
        if !matches!(fault, Fault::None) {
            *counted.lock().unwrap() += 1;
        }
        fault
    })));
    count
}

async fn run(seed: Option<u64>) -> (Duration, u32) {
    let stage = Stage::eleven().await;
    let faults = seed.map(|seed| trouble(&stage, seed));
    let begun = Instant::now();
    // An operator who was turned away at the very beginning comes again, as a person would.
    let mut tries = 0;
    let result = loop {
        let actor = stage.actor("ann");
        match actor.act(Wish::Rollout("app=requests.cpu=150m", policy())).await {
            Ok(result) => break result,
            Err(error) => {
                tries += 1;
                assert!(tries < 20, "seed {seed:?}: {error:?}");
            }
        }
    };
    let took = begun.elapsed();
    stage.sandbox.intercept(None);
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence), "seed {seed:?}");
    assert!(stage.all_have("150m"), "seed {seed:?}: {:?}", stage.cpus());
    let record = stage.record().await;
    assert!(record.folded.denied.is_empty(), "seed {seed:?}");
    (took, faults.map_or(0, |count| *count.lock().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn the_same_end_in_at_most_three_times_the_time() {
    let (calm, _) = run(None).await;
    let (mut slowest, mut faults) = (Duration::ZERO, 0);
    for seed in 1..=30 {
        let (took, count) = run(Some(seed)).await;
        println!("seed {seed}: {count} faults, {took:?}");
        slowest = slowest.max(took);
        faults += count;
    }
    println!("30 runs with {faults} faults: slowest {slowest:?}, calm {calm:?}");
    assert!(faults > 100, "only {faults} faults");
    assert!(slowest <= calm * 3, "{slowest:?} against {calm:?}");
}
