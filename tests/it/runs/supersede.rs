//! A new revision while a run is in flight, and two operators at once.

use std::time::Duration;

use kapr::core::rollout::observation::Command;
use kapr::core::rollout::outcome::{Conclusion, Ending, Stop};
use kapr::engine::{Failed, HoldError};

use super::stage::{Stage, Wish, policy};

#[tokio::test(start_paused = true)]
async fn a_new_revision_begins_again_and_keeps_the_first_baselines() {
    let stage = Stage::eleven().await;
    let first = stage.actor("ann");
    let commands = first.commands.clone();
    tokio::spawn(async move {
        // In the second step: three pods are at 150m.
        tokio::time::sleep(Duration::from_secs(11)).await;
        let _ = commands.send(Command::Interrupt { signal: 2 });
    });
    let _ = first.act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert_eq!(stage.cpus().iter().filter(|(asked, _)| asked == "150m").count(), 3);
    let result = stage.actor("ann").act(Wish::Rollout("app=requests.cpu=170m", policy())).await.unwrap();
    assert_eq!(result.conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert_eq!(result.run, 2);
    assert!(stage.all_have("170m"), "{:?}", stage.cpus());
    let undone = stage.actor("ann").act(Wish::RollBack).await.unwrap();
    assert_eq!(undone.exit_code, 0);
    assert!(stage.all_have("100m"), "baselines are those from before the first run: {:?}", stage.cpus());
}

#[tokio::test(start_paused = true)]
async fn a_superseded_pod_outside_the_first_step_is_restored_before_anything_else() {
    let stage = Stage::eleven().await;
    let first = stage.actor("ann");
    let commands = first.commands.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(11)).await;
        let _ = commands.send(Command::Interrupt { signal: 2 });
    });
    let _ = first.act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    let second = stage.actor("ann");
    let _ = second.act(Wish::Rollout("app=requests.cpu=170m", policy())).await.unwrap();
    let told = second.told();
    let restored = told.iter().position(|event| event["kind"] == "Pod" && event["state"] == "Restored");
    let applied = told.iter().position(|event| event["kind"] == "Pod" && event["state"] == "Ready");
    assert!(restored.unwrap() < applied.unwrap(), "the third pod goes back before the first two are at the new values");
}

#[tokio::test(start_paused = true)]
async fn the_second_operator_is_told_who_works() {
    let stage = Stage::eleven().await;
    let (ann, bob) = (stage.actor("ann"), stage.actor("bob"));
    let both = tokio::join!(ann.act(Wish::Rollout("app=requests.cpu=150m", policy())), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        bob.act(Wish::Rollout("app=requests.cpu=170m", policy())).await
    });
    assert_eq!(both.0.unwrap().exit_code, 0);
    let Err(Failed::Hold(error @ HoldError::Held { .. })) = both.1 else { panic!("{:?}", both.1) };
    assert!(error.to_string().contains("held by ann@test (pid "), "{error}");
    assert!(error.to_string().contains(" since 2"), "{error}");
    assert!(stage.all_have("150m"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_taken_over_from_after_its_lease() {
    let stage = Stage::eleven().await;
    let ann = stage.actor("ann");
    // The process is gone in the middle of the first step, as after kill -9.
    let killed =
        tokio::time::timeout(Duration::from_secs(3), ann.act(Wish::Rollout("app=requests.cpu=150m", policy())));
    assert!(killed.await.is_err());
    assert!(!stage.lease_is_free());
    let begun = tokio::time::Instant::now();
    let result = stage.actor("bob").act(Wish::Rollout("app=requests.cpu=150m", policy())).await.unwrap();
    assert_eq!(result.exit_code, 0);
    assert!(begun.elapsed() >= Duration::from_mins(1));
    assert!(stage.all_have("150m"));
    assert_eq!(result.run, 1, "it is the same run");
}

#[tokio::test(start_paused = true)]
async fn supersede_asks_the_working_operator_and_takes_over() {
    let stage = Stage::eleven().await;
    let (ann, bob) = (stage.actor("ann"), stage.actor("bob"));
    let both = tokio::join!(ann.act(Wish::Rollout("app=requests.cpu=150m", policy())), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        bob.act(Wish::Supersede("app=requests.cpu=170m", policy())).await
    });
    let first = both.0.unwrap();
    assert_eq!(first.conclusion, Conclusion::Stopped(Stop::SupersedeWished { by: "bob@test".to_owned() }));
    assert_eq!(first.exit_code, 6);
    assert_eq!(both.1.unwrap().conclusion, Conclusion::Ended(Ending::ValidatedWithoutPersistence));
    assert!(stage.all_have("170m"));
    assert!(stage.lease_is_free());
}
