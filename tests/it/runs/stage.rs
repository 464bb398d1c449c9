//! The stage of a story: a sandbox with a workload, and operators that act on it through the product's own ports.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kapr::clock::TokioClock;
use kapr::cluster::{Cluster as _, KubeCluster, connect::Connection};
use kapr::core::admission::{Admission, admit};
use kapr::core::journal::{Entry, Record, RunStarted};
use kapr::core::policy::Policy;
use kapr::core::recommendation::Recommendation;
use kapr::core::revision::Revision;
use kapr::core::rollout::event::Event;
use kapr::core::rollout::observation::Command;
use kapr::core::rollout::outcome::RunResult;
use kapr::core::workload::{WorkloadKind, WorkloadRef};
use kapr::engine::{Decide, Failed, Holder, Intention, Operator};
use kapr::sandbox::{Sandbox, SandboxConfig};
use kapr::source::set;
use kapr::store::{KubeStore, Store as _, Subject};
use serde_json::Value;
use tokio::sync::mpsc;

pub const NAMESPACE: &str = "shop";

/// A sandbox with a Deployment `web`.
pub struct Stage {
    pub sandbox: Sandbox,
    pub clock: TokioClock,
}

/// One process of the product, as far as it can be told apart from others.
pub struct Actor {
    cluster: KubeCluster,
    store: KubeStore,
    pub holder: Holder,
    clock: TokioClock,
    pub commands: mpsc::UnboundedSender<Command>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
    pub events: Arc<Mutex<Vec<(Timestamp, Event)>>>,
}

/// What an actor wants.
pub enum Wish<'a> {
    /// `rollout --set …`
    Rollout(&'a str, Policy),
    Supersede(&'a str, Policy),
    Resume,
    RollBack,
    Abort,
}

pub const WEB: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 11
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        image: kapr.test/busybox:1
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
";

/// Steps of 10 %, 25 % and 100 % with short waits.
pub fn policy() -> Policy {
    Policy {
        steps: "10%,25%,100%".parse().unwrap(),
        pause: Duration::from_secs(5),
        min_ready: Duration::from_secs(2),
        resize_timeout: Duration::from_mins(1),
        deferred_timeout: Duration::from_secs(90),
        ..Policy::default()
    }
}

impl Stage {
    pub async fn with(config: SandboxConfig, manifest: &str, ready: usize) -> Self {
        let start: Timestamp = "2026-12-01T08:00:00Z".parse().unwrap();
        let sandbox = Sandbox::start(SandboxConfig { start_time: Some(start), ..config }).await;
        let clock = TokioClock::starting_at(start);
        sandbox.apply_yaml(manifest).await.unwrap();
        sandbox
            .wait_until(Duration::from_mins(2), |view| view.ready_pods(NAMESPACE, "web") == ready)
            .await
            .unwrap_or_else(|view| panic!("{} of {ready} pods are ready", view.ready_pods(NAMESPACE, "web")));
        Self { sandbox, clock }
    }

    /// 11 ready pods of the Deployment `web`.
    pub async fn eleven() -> Self {
        Self::with(SandboxConfig::default(), WEB, 11).await
    }

    pub fn actor(&self, name: &str) -> Actor {
        let connection = Connection::from_client(self.sandbox.client(), NAMESPACE);
        let (commands, receiver) = mpsc::unbounded_channel();
        Actor {
            cluster: KubeCluster::new(&connection, "kubectl-kapr"),
            store: KubeStore::new(&connection, "kubectl-kapr"),
            holder: Holder::new(name, "test"),
            clock: self.clock,
            commands,
            receiver: Mutex::new(Some(receiver)),
            events: Arc::default(),
        }
    }

    /// `requests.cpu` asked for and really had, for each pod: sorted by name.
    pub fn cpus(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let view = self.sandbox.view();
        let mut pods = view
            .list("pods", NAMESPACE)
            .into_iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| {
                (
                    text(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]),
                    text(&pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]),
                )
            })
            .collect::<Vec<_>>();
        pods.sort();
        pods
    }

    /// Every pod asks for this CPU, and has it.
    pub fn all_have(&self, cpu: &str) -> bool {
        self.cpus().iter().all(|(asked, has)| asked == cpu && has == cpu)
    }

    /// The lease has no holder.
    pub fn lease_is_free(&self) -> bool {
        let view = self.sandbox.view();
        view.list("leases", NAMESPACE)
            .iter()
            .all(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or("").is_empty())
    }

    /// The record as a fresh operator reads it.
    pub async fn record(&self) -> Record {
        let actor = self.actor("reader");
        let workload = actor.cluster.workload(&web()).await.unwrap().expect("the workload is there");
        actor.store.read(&Subject { workload: web(), uid: workload.uid }).await.unwrap().record
    }
}

pub fn web() -> WorkloadRef {
    WorkloadRef { kind: WorkloadKind::Deployment, namespace: NAMESPACE.into(), name: "web".into() }
}

pub fn recommendation(values: &str) -> Recommendation {
    let containers = set::parse_all(&[values.to_owned()]).unwrap();
    Recommendation::new(web(), containers).unwrap()
}

impl Actor {
    /// Does what the command of that name does, after its questions.
    pub async fn act(&self, wish: Wish<'_>) -> Result<RunResult, Failed<String>> {
        let workload = self.cluster.workload(&web()).await.map_err(|error| Failed::Engine(error.into()))?;
        let workload = workload.expect("the workload is there");
        let uid = workload.uid.clone();
        let (mut first, mut supersede) = (None, None);
        let by = self.holder.operator.clone();
        let decide: Decide<'_, String> = match wish {
            Wish::Rollout(values, policy) => {
                let recommendation = recommendation(values);
                Box::new(move |record| start(record, &recommendation, policy, &uid))
            }
            Wish::Supersede(values, policy) => {
                let recommendation = recommendation(values);
                supersede = Some(Revision::of(&recommendation));
                Box::new(move |record| start(record, &recommendation, policy, &uid))
            }
            Wish::Resume => Box::new(|record| match record.active() {
                Some(_) => Ok(Vec::new()),
                None => Err("nothing to resume".to_owned()),
            }),
            Wish::RollBack => {
                first = Some(Command::RollBack { by: by.clone() });
                Box::new(move |record| {
                    let run = record.run.as_ref().ok_or("no run")?;
                    let cause = kapr::core::rollout::cause::Cause::Asked { by };
                    Ok(if run.is_ended() { vec![Entry::RollbackStarted { cause }] } else { Vec::new() })
                })
            }
            Wish::Abort => {
                first = Some(Command::Abort { by });
                Box::new(|_| Ok(Vec::new()))
            }
        };
        let operator = Operator {
            cluster: &self.cluster,
            store: &self.store,
            clock: &self.clock,
            holder: &self.holder,
            server_minor: 37,
            context: None,
        };
        let commands = self.receiver.lock().unwrap().take().expect("an actor acts once");
        let intention = Intention { workload, decide, first, commands, deadline: None, supersede };
        let events = self.events.clone();
        let mut report = move |at: Timestamp, event: &Event| events.lock().unwrap().push((at, event.clone()));
        operator.operate(intention, &mut report).await
    }

    /// The events so far, each as its JSON.
    pub fn told(&self) -> Vec<Value> {
        self.events.lock().unwrap().iter().map(|(_, event)| serde_json::to_value(event).unwrap()).collect()
    }
}

fn start(record: &Record, recommendation: &Recommendation, policy: Policy, uid: &str) -> Result<Vec<Entry>, String> {
    let revision = Revision::of(recommendation);
    let supersedes = match admit(record, &revision) {
        Admission::Continue(_) => return Ok(Vec::new()),
        Admission::Denied(denial) => return Err(format!("denied: {}", denial.cause)),
        Admission::Supersede(run) => Some(run.started.run),
        Admission::Fresh => None,
    };
    Ok(vec![Entry::RunStarted(Box::new(RunStarted {
        run: record.next_run_number(),
        revision,
        workload_uid: uid.to_owned(),
        target: recommendation.containers().clone(),
        policy,
        eligible: 11,
        reason: None,
        origin: "--set".to_owned(),
        supersedes,
        program: "test".to_owned(),
    }))])
}
