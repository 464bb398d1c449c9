//! Runs as they go in practice, told as events: what the readers are tested with.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

use super::Reporter;
use crate::core::quantity::{Bytes, Millicores};
use crate::core::recommendation::Recommendation;
use crate::core::resources::{Amounts, ContainerResources, Resources};
use crate::core::revision::Revision;
use crate::core::rollout::cause::Cause;
use crate::core::rollout::event::{Event, Level, PodEvent, PodState, RefusedPod, Started};
use crate::core::rollout::outcome::{Conclusion, Ending, PodResult, RunResult, Stop};
use crate::core::rollout::waiting::{WaitReason, WaitingOn};
use crate::core::share::{Share, Steps};
use crate::core::workload::{WorkloadKind, WorkloadRef};

/// Events with their times, and where the story stands.
pub struct Story {
    pub events: Vec<(Timestamp, Event)>,
    now: Timestamp,
    pods: usize,
    steps: Vec<Share>,
    states: Vec<(PodState, String)>,
}

const NO_ROOM: &str = "Node didn't have enough resource: cpu, requested: 250, used: 1900, capacity: 2000";

impl Story {
    pub fn begin(pods: usize, steps: &str) -> Self {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let steps = steps.parse::<Steps>().unwrap().shares().to_vec();
        let mut story =
            Self { events: Vec::new(), now, pods, steps, states: vec![(PodState::Chosen, String::new()); pods] };
        story.say(Event::Started(Box::new(Started {
            workload: workload(),
            run: 3,
            revision: revision(),
            context: Some("kind-shop".into()),
            operator: "ana@laptop".into(),
            resumed: false,
            supersedes: None,
            steps: story.steps.clone(),
            eligible: pods,
            refused: vec![RefusedPod {
                name: "payments-7d4b9c6f5-qqqqq".into(),
                code: "not-running",
                message: "the pod is Pending".into(),
            }],
            target: target(),
            template: template(),
        })));
        story
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub fn say(&mut self, event: Event) {
        self.events.push((self.now, event));
    }

    /// `payments-7d4b9c6f5-` and five letters, as a ReplicaSet names its pods.
    pub fn name(pod: usize) -> Box<str> {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz";
        let mut rest = pod.wrapping_mul(7_919) + 31_337;
        let mut out = String::from("payments-7d4b9c6f5-");
        for _ in 0..5 {
            out.push(char::from(LETTERS[rest % LETTERS.len()]));
            rest /= LETTERS.len();
        }
        out.into()
    }

    pub fn pod(&mut self, pod: usize, state: PodState, message: &str) {
        self.states[pod] = (state, message.to_owned());
        let event = PodEvent {
            name: Self::name(pod),
            node: Some(format!("worker-{}", pod % 7).into()),
            step: self.steps.iter().position(|share| pod < share.of(self.pods)).unwrap_or(0),
            state,
            message: message.to_owned(),
            restoring: false,
        };
        self.say(Event::Pod(event));
    }

    pub fn restoring(&mut self, pod: usize, state: PodState) {
        self.pod(pod, state, "");
        if let Some((_, Event::Pod(event))) = self.events.last_mut() {
            event.restoring = true;
        }
    }

    pub fn step(&mut self, step: usize) -> std::ops::Range<usize> {
        let first = if step == 0 { 0 } else { self.steps[step - 1].of(self.pods) };
        let wanted = self.steps[step].of(self.pods);
        let pods = (first..wanted).map(Self::name).collect();
        self.say(Event::StepStarted { step, share: self.steps[step], wanted, eligible: self.pods, pods });
        first..wanted
    }

    pub fn wait(&mut self, reason: Option<WaitReason>, until: Option<i64>) {
        let until = until.map(|seconds| self.now + SignedDuration::from_secs(seconds));
        let on = reason.map(|reason| WaitingOn { reason, since: self.now, until });
        self.say(Event::Waiting { on });
    }

    /// A whole step that goes well.
    pub fn good_step(&mut self, step: usize) {
        let pods = self.step(step);
        let first = Self::name(pods.start);
        for pod in pods.clone() {
            self.pod(pod, PodState::Pending, "");
        }
        let message = String::new();
        let reason = WaitReason::Resizing { pods: pods.len(), pod: first.clone(), state: "InProgress", message };
        self.wait(Some(reason), Some(300));
        for (state, seconds) in [(PodState::InProgress, 1), (PodState::Applied, 1), (PodState::Ready, 10)] {
            self.pass(seconds);
            for pod in pods.clone() {
                self.pod(pod, state, "");
            }
            if state == PodState::Applied {
                self.wait(Some(WaitReason::Readiness { pods: pods.len(), pod: first.clone() }), Some(298));
            }
        }
        let done = self.steps[step].of(self.pods);
        self.say(Event::StepAtTarget { step, pods: done });
        self.wait(Some(WaitReason::Pause), Some(60));
    }

    pub fn pass_step(&mut self, step: usize) {
        self.pass(60);
        self.wait(None, None);
        self.say(Event::StepPassed { step, share: self.steps[step], pods: self.steps[step].of(self.pods) });
    }

    pub fn result(&mut self, conclusion: Conclusion, exit_code: u8, next: &[&str]) {
        let touched = self.states.iter().enumerate().filter(|(_, (state, _))| *state != PodState::Chosen);
        let pods = touched.map(|(pod, (state, message))| PodResult {
            name: Self::name(pod),
            uid: format!("uid-{pod}").into(),
            state: *state,
            message: message.clone(),
        });
        let pods = pods.collect();
        self.say(Event::Result(Box::new(RunResult {
            conclusion,
            exit_code,
            workload: workload(),
            run: 3,
            revision: revision(),
            pods,
            born_with: template(),
            next: next.iter().map(ToString::to_string).collect(),
        })));
    }
}

/// 11 pods, four steps, nothing goes wrong.
pub fn healthy() -> Story {
    let mut story = Story::begin(11, "10%,25%,50%,100%");
    for step in 0..4 {
        story.good_step(step);
        story.pass_step(step);
    }
    let next = ["kubectl kapr status deployment/payments -n shop", "kubectl kapr export deployment/payments -n shop"];
    story.result(Conclusion::Ended(Ending::ValidatedWithoutPersistence), 0, &next);
    story
}

/// The second step waits for room on a node, and then the operator presses Ctrl-C.
pub fn deferred() -> Story {
    let mut story = Story::begin(11, "10%,25%,50%,100%");
    story.good_step(0);
    story.pass_step(0);
    story.step(1);
    story.pod(2, PodState::Pending, "");
    story.pass(1);
    story.pod(2, PodState::Deferred, NO_ROOM);
    story.wait(Some(WaitReason::Deferred { pods: 1, pod: Story::name(2), message: NO_ROOM.into() }), Some(600));
    story.say(Event::Notice { level: Level::Warning, message: "watch of pods was interrupted; reading again".into() });
    story.pass(95);
    let next = ["kubectl kapr resume deployment/payments -n shop", "kubectl kapr rollback deployment/payments -n shop"];
    story.result(Conclusion::Stopped(Stop::Interrupted { signal: 2 }), 130, &next);
    story
}

/// The third step meets a node that can never hold it; everything goes back. Its message tries to paint the terminal.
pub fn rolled_back() -> Story {
    let mut story = Story::begin(11, "10%,25%,50%,100%");
    for step in 0..2 {
        story.good_step(step);
        story.pass_step(step);
    }
    for pod in story.step(2) {
        story.pod(pod, PodState::Pending, "");
    }
    story.pass(1);
    let message = "Node didn't have enough capacity: cpu, requested: 250, capacity: 200\r\x1b[31mall is well\x1b[0m";
    story.pod(3, PodState::InProgress, "");
    story.pod(4, PodState::Infeasible, message);
    let cause = Cause::Infeasible { pod: Story::name(4), message: message.into() };
    story.say(Event::RollbackStarted { cause: cause.clone(), pods: 6 });
    for pod in 0..6 {
        story.restoring(pod, PodState::Pending);
    }
    let restoring = WaitReason::Restoring { pods: 6, pod: Story::name(0), state: "InProgress", message: String::new() };
    story.wait(Some(restoring), Some(300));
    story.pass(2);
    for pod in 0..6 {
        story.restoring(pod, PodState::Restored);
    }
    story.wait(None, None);
    let next =
        ["kubectl kapr history deployment/payments -n shop --run 3", "kubectl kapr denied deployment/payments -n shop"];
    story.result(Conclusion::Ended(Ending::RolledBack { cause }), 3, &next);
    story
}

/// Many pods, at most 32 in flight; stops in the middle of the last step with one failed and two deferred.
pub fn many(pods: usize) -> Story {
    let mut story = Story::begin(pods, "10%,100%");
    story.good_step(0);
    story.pass_step(0);
    let last = story.step(1);
    for pod in last.clone().take(last.len() / 2) {
        story.pod(pod, PodState::Pending, "");
        let wave = pod - last.start;
        if wave >= 32 {
            story.pod(pod - 32, if wave.is_multiple_of(3) { PodState::Applied } else { PodState::Ready }, "");
        }
        if wave % 32 == 31 {
            story.pass(1);
        }
    }
    let middle = last.start + last.len() / 2;
    story.pod(middle - 5, PodState::Deferred, NO_ROOM);
    story.pod(middle - 9, PodState::Deferred, NO_ROOM);
    story.pod(middle - 7, PodState::Failed, "cannot decrease memory limits: attempting to set container \"app\" memory limit (33554432) below current usage (64090112)");
    story
        .wait(Some(WaitReason::Deferred { pods: 2, pod: Story::name(middle - 9), message: NO_ROOM.into() }), Some(600));
    story.pass(12);
    story
}

fn workload() -> WorkloadRef {
    WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "payments".into() }
}

fn target() -> ContainerResources {
    resources("250m", "256Mi")
}

fn template() -> ContainerResources {
    resources("100m", "128Mi")
}

fn resources(cpu: &str, memory: &str) -> ContainerResources {
    let app = Resources {
        requests: Amounts { cpu: Some(Millicores::parse(cpu).unwrap()), memory: None },
        limits: Amounts { cpu: None, memory: Some(Bytes::parse(memory).unwrap()) },
    };
    ContainerResources::from([("app".to_owned(), app)])
}

fn revision() -> Revision {
    Revision::of(&Recommendation::new(workload(), target()).unwrap())
}

/// A writer whose text can be looked at afterwards.
#[derive(Clone, Default)]
pub struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tells a story with a tick every second.
pub fn tell(story: &Story, reporter: &mut dyn Reporter) {
    let mut now = story.events[0].0;
    for (at, event) in &story.events {
        while now + SignedDuration::from_secs(1) <= *at {
            now += SignedDuration::from_secs(1);
            reporter.tick(now);
        }
        reporter.event(*at, event);
    }
    while now < story.now {
        now += SignedDuration::from_secs(1);
        reporter.tick(now);
    }
    reporter.finish().unwrap();
}
