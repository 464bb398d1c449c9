//! Containers whose `resizePolicy` restarts them, and containers that do not survive their new values.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rstest::rstest;
use serde_json::{Value, json};

use super::Version::{self, V1_34, V1_37};
use super::manifest::{CPU, container, restarting, script, workload};
use super::{Place, Pod};

/// What a watch has seen of the pods of a workload, change by change.
struct Watch {
    child: std::process::Child,
    seen: tempfile::NamedTempFile,
}

impl Watch {
    fn start(place: &Place, name: &str) -> Self {
        let seen = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(place.kubectl_path());
        command.arg("--kubeconfig").arg(&place.kubeconfig).args([
            "-n",
            &place.namespace,
            "get",
            "pods",
            "-w",
            "-o=json",
        ]);
        let child =
            command.args(["-l", &format!("app={name}")]).stdout(Stdio::from(seen.reopen().unwrap())).spawn().unwrap();
        Self { child, seen }
    }

    /// The most pods that were not ready at the same time.
    fn most_away(mut self) -> usize {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.seen.flush().unwrap();
        let text = std::fs::read_to_string(self.seen.path()).unwrap();
        let mut ready = BTreeMap::new();
        let mut most = 0;
        for json in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
            let pod = Pod::new(&json);
            ready.insert(pod.uid, pod.ready);
            most = most.max(ready.values().filter(|ready| !**ready).count());
        }
        most
    }
}

#[rstest]
fn one_restart_each_and_one_at_a_time(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "restart") else { return };
    let mut app = restarting(container("app"), "cpu");
    // Away for long enough to be seen.
    app["readinessProbe"] = json!({"exec": {"command": ["true"]}, "initialDelaySeconds": 2, "periodSeconds": 1});
    place.start(&workload("Deployment", "web", 4, vec![app]), 4);
    let watch = Watch::start(&place, "web");
    place.rollout("web", "app=requests.cpu=25m", &["--steps=50%,100%"]).expect(0);
    place.assert_all_at("web", "requests.cpu", "25m");
    assert_eq!(place.pods("web").iter().map(|pod| pod.restarts("app")).collect::<Vec<_>>(), [1, 1, 1, 1]);
    assert_eq!(watch.most_away(), 1);

    // Bringing them back restarts them once more, one at a time again.
    let watch = Watch::start(&place, "web");
    place.kapr(&["rollback", "deploy/web", "--yes"]).expect(0);
    place.assert_all_at("web", "requests.cpu", CPU);
    assert_eq!(place.pods("web").iter().map(|pod| pod.restarts("app")).collect::<Vec<_>>(), [2, 2, 2, 2]);
    assert_eq!(watch.most_away(), 1);
}

/// A container that exits soon after it was started with more CPU than it had at first.
fn fragile() -> Value {
    let mut app = script("app", "[ $CPU = 20 ] || { sleep 2; exit 3; }; exec sleep 100000");
    app["env"] =
        json!([{"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}]);
    app
}

#[rstest]
fn a_crash_after_the_resize_fails_the_step(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "crash") else { return };
    place.start(&workload("Deployment", "web", 2, vec![restarting(fragile(), "cpu")]), 2);
    let ran = place.rollout("web", "app=requests.cpu=25m", &["--steps=1,100%", "--pause=60s"]).expect(3);
    let cause = ran.result()["cause"].clone();
    assert_eq!((&cause["reason"], &cause["container"]), (&json!("Unhealthy"), &json!("app")));
    assert!(cause["message"].as_str().unwrap().contains("exit code 3"), "{cause}");
    place.assert_all_at("web", "requests.cpu", CPU);
    let restarts = place.pods("web").iter().map(|pod| pod.restarts("app")).filter(|count| *count > 0).count();
    assert_eq!(restarts, 1, "only the pod of the first step");
}

#[rstest]
fn a_crash_without_a_restart_policy_fails_the_step(#[values(V1_37, V1_34)] version: Version) {
    let Some(place) = Place::open(version, "dies") else { return };
    // Goes once as soon as somebody leaves a file; nothing of its resize explains that. The file outlives the container.
    let app = script("app", "until [ -e /dev/shm/go ]; do sleep 0.2; done; rm /dev/shm/go; exit 4");
    place.start(&workload("Deployment", "web", 2, vec![app]), 2);
    let mut running = place.spawn_rollout("web", "app=requests.cpu=25m", &["--steps=1,100%", "--pause=60s"]);
    let taken = running.wait_event("step", |event| event["kind"] == "StepStarted")["pods"][0].clone();
    running.wait_at_target(0);
    let _ = place.try_kubectl(&["exec", taken.as_str().unwrap(), "--", "touch", "/dev/shm/go"], "");
    let ran = running.end().expect(3);
    let cause = ran.result()["cause"].clone();
    assert_eq!(cause["reason"], "Unhealthy");
    assert!(cause["message"].as_str().unwrap().contains("exit code 4"), "{cause}");
    place.assert_all_at("web", "requests.cpu", CPU);
}
