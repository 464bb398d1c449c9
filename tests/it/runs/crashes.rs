//! The process dies before or after each of its writes: whoever resumes comes to the same end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kapr::core::policy::Policy;
use kapr::core::rollout::outcome::Conclusion;
use kapr::sandbox::{Fault, Phase, Seen};
use tokio::sync::Notify;

use super::stage::{Actor, Stage, Wish, policy};

/// Where the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The write never reaches the server.
    Before(u64),
    /// The server took the write; its answer is never read.
    After(u64),
}

/// Kills at a write: the request hangs for ever, and the actor's future is dropped.
fn arm(stage: &Stage, moment: Moment) -> Arc<Notify> {
    let (order, dead) = (Mutex::new(Vec::<u64>::new()), Arc::new(Notify::new()));
    let told = dead.clone();
    stage.sandbox.intercept(Some(Arc::new(move |phase: Phase, seen: &Seen| {
        if !seen.is_write() || seen.user_agent.starts_with("sandbox/") {
            return Fault::None;
        }
        let mut order = order.lock().unwrap();
        let at = phase == Phase::Before;
        if at {
            order.push(seen.number);
        }
        let number = order.iter().position(|known| *known == seen.number).map_or(0, |i| i as u64 + 1);
        let hit = match moment {
            Moment::Before(n) => at && number == n,
            Moment::After(n) => !at && number == n,
        };
        if hit {
            told.notify_one();
            return Fault::Hang;
        }
        Fault::None
    })));
    dead
}

/// Runs the first operator until it dies or ends; `true` if it ended by itself.
async fn first(stage: &Stage, actor: &Actor, wish: Wish<'_>, moment: Moment) -> bool {
    let dead = arm(stage, moment);
    let ended = tokio::select! {
        result = actor.act(wish) => { let _ = result; true }
        () = dead.notified() => false,
    };
    stage.sandbox.intercept(None);
    ended
}

/// What the end has to be, whatever happened on the way.
struct End {
    conclusion: fn(&Conclusion) -> bool,
    cpu: &'static str,
}

/// Kills at every write of the scenario, one after the other, and resumes from a process that knows nothing. Returns the
/// number of points.
async fn every_point(
    prepare: impl AsyncFn() -> Stage,
    wish: impl Fn() -> Wish<'static>,
    policy: fn() -> Policy,
    values: &'static str,
    end: End,
) -> u64 {
    let mut points = 0;
    for after in [false, true] {
        for n in 1.. {
            let moment = if after { Moment::After(n) } else { Moment::Before(n) };
            let stage = prepare().await;
            if first(&stage, &stage.actor("ann"), wish(), moment).await {
                break;
            }
            points += 1;
            let result = finish(&stage, values, policy()).await.unwrap_or_else(|e| panic!("{moment:?}: {e}"));
            assert!((end.conclusion)(&result), "{moment:?}: {result:?}");
            assert!(stage.all_have(end.cpu), "{moment:?}: {:?}", stage.cpus());
            assert!(stage.lease_is_free(), "{moment:?}: the lease is still held");
            assert!(stage.record().await.active().is_none(), "{moment:?}: the run is still active");
            check_intents(&stage, moment).await;
        }
    }
    points
}

/// What somebody else does who finds the workload like this: resumes, or begins where nothing was begun.
async fn finish(stage: &Stage, values: &'static str, policy: Policy) -> Result<Conclusion, String> {
    let begun = stage.record().await.run.is_some();
    let wish = if begun { Wish::Resume } else { Wish::Rollout(values, policy) };
    match stage.actor("bob").act(wish).await {
        Ok(result) => Ok(result.conclusion),
        // The last write of the first process was its end: the record says the same.
        Err(kapr::engine::Failed::Declined(_)) => Ok(ended(stage).await),
        Err(other) => Err(format!("{other:?}")),
    }
}

async fn ended(stage: &Stage) -> Conclusion {
    use kapr::core::journal::Stage as RunStage;
    let record = stage.record().await;
    match &record.run.expect("there is a run").stage {
        RunStage::Ended { ending, .. } => Conclusion::Ended(ending.clone()),
        other => panic!("not ended: {other:?}"),
    }
}

/// No pod was ever patched that has no intent, and each baseline is what the pod was born with.
async fn check_intents(stage: &Stage, moment: Moment) {
    let record = stage.record().await;
    let run = record.run.expect("there is a run");
    let view = stage.sandbox.view();
    let names = run.intents.values().map(|intent| intent.name.to_string()).collect::<Vec<_>>();
    for request in stage.sandbox.requests().iter().filter(|r| r.path.ends_with("/resize") && r.method == "PATCH") {
        let pod = request.path.split('/').rev().nth(1).unwrap();
        assert!(names.iter().any(|name| name == pod), "{moment:?}: {pod} was patched without an intent");
    }
    for intent in run.intents.values() {
        let before = intent.baseline["app"].to_string();
        assert_eq!(before, "requests.cpu=100m,requests.memory=64Mi,limits.memory=128Mi", "{moment:?}: {}", intent.name);
    }
    drop(view);
}

fn validated(conclusion: &Conclusion) -> bool {
    use kapr::core::rollout::outcome::Ending;
    *conclusion == Conclusion::Ended(Ending::ValidatedWithoutPersistence)
}

fn rolled_back(conclusion: &Conclusion) -> bool {
    use kapr::core::rollout::outcome::Ending;
    matches!(conclusion, Conclusion::Ended(Ending::RolledBack { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_passes() {
    let end = End { conclusion: validated, cpu: "150m" };
    let wish = || Wish::Rollout("app=requests.cpu=150m", policy());
    let points = every_point(async || Stage::eleven().await, wish, policy, "app=requests.cpu=150m", end).await;
    println!("{points} crash points of a run that passes");
    assert!(points > 40, "only {points} points");
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_second_step_and_its_rollback() {
    // The third pod of the order crashes after its resize; which one it is depends on names only.
    let prepare = async || {
        let stage = Stage::eleven().await;
        let third = third_pod(&stage);
        stage.sandbox.behave("shop", &third, |b| b.crash_after_resize = Some(Duration::from_secs(1)));
        stage
    };
    let end = End { conclusion: rolled_back, cpu: "100m" };
    let wish = || Wish::Rollout("app=requests.cpu=150m", policy());
    let points = every_point(prepare, wish, policy, "app=requests.cpu=150m", end).await;
    println!("{points} crash points of a run that fails in step 2");
    assert!(points > 15, "only {points} points");
}

/// The pod that the second step of 10 %, 25 % takes.
fn third_pod(stage: &Stage) -> String {
    use kapr::core::pod::PodUid;
    let view = stage.sandbox.view();
    let uid = view.get("deployments", "shop", "web").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let pods = view.list("pods", "shop");
    let uids = pods.iter().map(|pod| PodUid::new(pod["metadata"]["uid"].as_str().unwrap())).collect::<Vec<_>>();
    let third = kapr::core::selection::stable_order(&uid, &uids)[2].clone();
    let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == *third.0).unwrap();
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}
