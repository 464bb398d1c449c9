//! `kubectl kapr demo`: the main job on the embedded cluster. No cluster, no network, under a minute.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::flags::{FIELD_MANAGER, KubeFlags, OutputFlags};
use super::policy_flags::PolicyFlags;
use super::rollout::{self, RolloutArgs};
use super::session::{Session, tell};
use super::wanted_args::WantedArgs;
use crate::core::exit::Exit;
use crate::error::{CommandError, CommandResult};
use crate::sandbox::{Behaviour, NodeConfig, Sandbox, SandboxConfig, Served};

/// See the main job on an embedded cluster: no cluster and no network needed
///
/// Starts a cluster inside this process (an API server, controllers and kubelets that behave like real ones), lets the
/// real `rollout` work on it over HTTP, and says at each stage what happens and what the same command on a real cluster
/// would be.
#[derive(Args, Clone, Debug, Default)]
pub struct DemoArgs {
    /// What happens during the rollout
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub scenario: Scenario,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scenario {
    /// Eleven pods are resized in three steps
    #[default]
    Healthy,
    /// The request is larger than any node: rolled back and denied
    Infeasible,
    /// A node is full: the run waits, and goes on when another workload makes room
    Deferred,
    /// A pod crashes after its resize: rolled back and denied
    Crash,
}

/// What a scenario is made of.
struct Script {
    intro: &'static str,
    values: &'static str,
    nodes: Vec<NodeConfig>,
    /// Annotations of the pod template: knobs of the embedded kubelet.
    annotations: &'static str,
    /// How the rollout has to end.
    expected: Exit,
    epilogue: &'static str,
}

impl Scenario {
    fn script(self) -> Script {
        let roomy = || vec![NodeConfig::new("node-a", "8", "32Gi"), NodeConfig::new("node-b", "8", "32Gi")];
        match self {
            Self::Healthy => Script {
                intro: "A recommender says that the 11 pods ask for too little CPU: 100m should be 250m.",
                values: "app=requests.cpu=250m,limits.memory=256Mi",
                nodes: roomy(),
                annotations: "{}",
                expected: Exit::Done,
                epilogue: "Every pod was seen at its new values in pod status, none was restarted, and no\n\
                           template was touched.",
            },
            Self::Infeasible => Script {
                intro: "A recommendation asks for 64 CPUs, more than any node of this cluster has.",
                values: "app=requests.cpu=64",
                nodes: roomy(),
                annotations: "{}",
                expected: Exit::RolledBack,
                epilogue: "The revision is on the deny-list of this workload: the same rollout is refused with\n\
                           exit code 7 until `kubectl kapr allow` lifts it.",
            },
            Self::Deferred => Script {
                intro: "The only node is nearly full. Another workload will be scaled down while the\n\
                        rollout waits for room.",
                values: "app=requests.cpu=350m",
                nodes: vec![NodeConfig::new("node-a", "4", "32Gi")],
                annotations: "{}",
                expected: Exit::Done,
                epilogue: "Deferred is not failed: the kubelet keeps the resize until there is room, and the\n\
                           run waits as long as --deferred-timeout allows.",
            },
            Self::Crash => Script {
                intro: "The application cannot live with the new values: it crashes two seconds after its\n\
                        resize.",
                values: "app=requests.cpu=250m",
                nodes: roomy(),
                annotations: "{sandbox.kapr.dev/crash-after-resize: 2s}",
                expected: Exit::RolledBack,
                epilogue: "Only the pods of the first step were touched, and each was seen back at its old\n\
                           values.",
            },
        }
    }
}

/// How often and how long: short enough for a demo, long enough to be watched.
const PAUSE: Duration = Duration::from_secs(3);
const MIN_READY: Duration = Duration::from_secs(2);
const STEPS: &str = "10%,25%,100%";

pub async fn run(args: &DemoArgs, output: &OutputFlags) -> CommandResult {
    let script = args.scenario.script();
    let stage = Stage::build(&script, args.scenario).await?;
    tell(&format!(
        "\n{}\n\nOn a real cluster you would type:\n\n    kubectl kapr rollout deployment/web -n shop --set {} \\\n        --steps {STEPS} --pause 3s --min-ready 2s\n\n",
        script.intro, script.values
    ));
    let session = stage.session(output).await?;
    if args.scenario == Scenario::Deferred {
        tokio::spawn(make_room(stage.sandbox.clone()));
    }
    let exit = rollout::run(&rollout_args(&script), &session).await?;
    tell(&format!(
        "\n{}\nIts exit code was {}. Other scenarios of demo --scenario: {}.\n",
        script.epilogue,
        exit.code(),
        names()
    ));
    if exit == script.expected {
        Ok(Exit::Done)
    } else {
        Err(CommandError::say(
            Exit::Unexpected,
            format!("the rollout ended with {}, not with {}", exit.code(), script.expected.code()),
        ))
    }
}

fn names() -> String {
    let all = Scenario::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    all.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ")
}

fn rollout_args(script: &Script) -> RolloutArgs {
    let policy = PolicyFlags {
        steps: STEPS.parse().ok(),
        pause: Some(PAUSE),
        min_ready: Some(MIN_READY),
        ..PolicyFlags::default()
    };
    let wanted = WantedArgs {
        workload: vec!["deployment/web".to_owned()],
        set: vec![script.values.to_owned()],
        policy,
        ..WantedArgs::default()
    };
    RolloutArgs { wanted, yes: true, reason: Some("demo".to_owned()), ..RolloutArgs::default() }
}

/// The embedded cluster of a demo, served on a loopback port.
struct Stage {
    sandbox: Sandbox,
    /// Serves as long as it lives.
    _served: Served,
    folder: PathBuf,
}

impl Stage {
    async fn build(script: &Script, scenario: Scenario) -> CommandResult<Self> {
        let behaviour = Behaviour {
            start_delay: Duration::from_millis(200),
            actuation_delay: Duration::from_millis(700),
            ..Behaviour::default()
        };
        let config = SandboxConfig { nodes: script.nodes.clone(), behaviour, ..SandboxConfig::default() };
        let sandbox = Sandbox::start(config).await;
        let failed = |what: &str| CommandError::say(Exit::Unexpected, format!("the embedded cluster {what}"));
        let mut manifest = WEB.replace("ANNOTATIONS", script.annotations);
        if scenario == Scenario::Deferred {
            manifest.push_str(BATCH);
        }
        sandbox.apply_yaml(&manifest).await.map_err(|error| failed(&format!("refused its manifest: {error:?}")))?;
        let ready = sandbox.wait_until(Duration::from_secs(30), |view| view.ready_pods("shop", "web") == 11).await;
        ready.map_err(|_| failed("did not get its pods ready"))?;
        let served = sandbox.serve(([127, 0, 0, 1], 0).into()).await?;
        let folder = std::env::temp_dir().join(format!("kapr-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        served.write_kubeconfig(&folder.join("kubeconfig"))?;
        tell(&format!(
            "An embedded cluster is up at http://{}, with 11 pods of\ndeployment/web in namespace shop.\n",
            served.address()
        ));
        Ok(Self { sandbox, _served: served, folder })
    }

    async fn session(&self, output: &OutputFlags) -> CommandResult<Session> {
        let kube = KubeFlags {
            kubeconfig: Some(self.folder.join("kubeconfig")),
            namespace: Some("shop".to_owned()),
            field_manager: FIELD_MANAGER.to_owned(),
            ..KubeFlags::default()
        };
        Session::open(&kube, output, "demo").await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A folder that is left behind in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Scales the other workload down once a pod has waited for room for a while.
async fn make_room(sandbox: Sandbox) {
    let deferred = sandbox.wait_until(Duration::from_mins(2), |view| {
        view.list("pods", "shop").iter().any(|pod| pod["status"]["conditions"].to_string().contains("Deferred"))
    });
    if deferred.await.is_err() {
        return;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/batch/scale";
    let body = r#"{"spec":{"replicas":0}}"#.into();
    let _ = sandbox.request("PATCH", path, "application/merge-patch+json", body).await;
}

const WEB: &str = r"
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
    metadata: {labels: {app: web}, annotations: ANNOTATIONS}
    spec:
      containers:
      - name: app
        image: example.com/web:1
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 192Mi}}
";

const BATCH: &str = r"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: batch, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: batch}}
  template:
    metadata: {labels: {app: batch}}
    spec:
      containers:
      - name: job
        image: example.com/batch:1
        resources: {requests: {cpu: 500m, memory: 128Mi}}
";
