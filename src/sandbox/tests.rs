//! The sandbox as its users see it: workloads come up, resizes take the course of a real kubelet, faults show.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn deployment(replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - name: app
        image: example.test/web:1
        resources: {{requests: {{cpu: 100m, memory: 64Mi}}, limits: {{memory: 128Mi}}}}
"
    )
}

async fn with_web(replicas: usize, config: SandboxConfig) -> Sandbox {
    let sandbox = Sandbox::start(config).await;
    sandbox.apply_yaml(&deployment(replicas)).await.expect("the server takes a Deployment");
    sandbox.wait_until(MINUTE, |v| v.ready_pods("default", "web-") == replicas).await.expect("pods become ready");
    sandbox
}

fn cpu(to: &str) -> Patch<Value> {
    Patch::Strategic(json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": to}}}]}}))
}

async fn first_pod(sandbox: &Sandbox) -> (Api<Pod>, Pod) {
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    let list = pods.list(&ListParams::default().labels("app=web")).await.expect("a list");
    let pod = list.items.into_iter().next().expect("a pod");
    (pods, pod)
}

fn status<'a>(view: &'a View, name: &str) -> &'a Value {
    &view.get("pods", "default", name).expect("the pod is there")["status"]
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_and_rolls() {
    let sandbox = with_web(3, SandboxConfig::default()).await;
    let view = sandbox.view();
    let web = view.get("deployments", "default", "web").expect("the deployment");
    assert_eq!(web["status"]["readyReplicas"], 3);
    let changed = deployment(3).replace("web:1", "web:2");
    sandbox.apply_yaml(&changed).await.expect("the server takes the change");
    let rolled = |view: &View| {
        let pods = view.list("pods", "default");
        pods.len() == 3
            && view.ready_pods("default", "web-") == 3
            && pods.iter().all(|p| p["spec"]["containers"][0]["image"] == "example.test/web:2")
    };
    sandbox.wait_until(MINUTE, rolled).await.expect("every pod is replaced");
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced_and_scaling_works() {
    let sandbox = with_web(2, SandboxConfig::default()).await;
    let (pods, pod) = first_pod(&sandbox).await;
    let name = pod.metadata.name.expect("a name");
    pods.delete(&name, &kube::api::DeleteParams::default()).await.expect("a deletion");
    let replaced = |v: &View| v.ready_pods("default", "web-") == 2 && v.get("pods", "default", &name).is_none();
    sandbox.wait_until(MINUTE, replaced).await.expect("a new pod");
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(sandbox.client());
    let scale = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments.patch_scale("web", &PatchParams::default(), &scale).await.expect("a scale");
    sandbox.wait_until(MINUTE, |v| v.ready_pods("default", "web-") == 5).await.expect("five pods");
}

#[tokio::test(start_paused = true)]
async fn a_resize_shows_the_old_resources_under_the_new_generation_first() {
    let sandbox = with_web(1, SandboxConfig::default()).await;
    let (pods, pod) = first_pod(&sandbox).await;
    let name = pod.metadata.name.expect("a name");
    let answer = pods.patch_resize(&name, &PatchParams::default(), &cpu("200m")).await.expect("a resize");
    assert_eq!(answer.metadata.generation, Some(2));
    let seen = |v: &View| status(v, &name)["observedGeneration"] == 2;
    let view = sandbox.wait_until(MINUTE, seen).await.expect("the kubelet sees it");
    let early = status(&view, &name);
    assert_eq!(early["conditions"][0]["type"], "PodResizeInProgress");
    assert_eq!(early["containerStatuses"][0]["resources"]["requests"]["cpu"], "100m");
    assert_eq!(early["containerStatuses"][0]["allocatedResources"]["cpu"], "200m");
    let done = |v: &View| status(v, &name)["containerStatuses"][0]["resources"]["requests"]["cpu"] == "200m";
    let view = sandbox.wait_until(MINUTE, done).await.expect("the kubelet does it");
    assert_eq!(status(&view, &name)["conditions"][0]["type"], "PodReadyToStartContainers");
}

#[tokio::test(start_paused = true)]
async fn a_deferred_resize_goes_on_when_another_pod_shrinks() {
    let nodes = vec![NodeConfig::new("only", "350m", "64Gi")];
    let sandbox = with_web(2, SandboxConfig { nodes, ..SandboxConfig::default() }).await;
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    let names: Vec<String> = pods
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items
        .into_iter()
        .filter_map(|p| p.metadata.name)
        .collect();
    pods.patch_resize(&names[0], &PatchParams::default(), &cpu("300m")).await.expect("a resize");
    let deferred = |v: &View| status(v, &names[0])["conditions"][0]["reason"] == "Deferred";
    let view = sandbox.wait_until(MINUTE, deferred).await.expect("it waits");
    assert_eq!(
        status(&view, &names[0])["conditions"][0]["message"],
        "Node didn't have enough resource: cpu, requested: 300, used: 100, capacity: 350"
    );
    pods.patch_resize(&names[1], &PatchParams::default(), &cpu("50m")).await.expect("a resize");
    let done = |v: &View| status(v, &names[0])["containerStatuses"][0]["resources"]["requests"]["cpu"] == "300m";
    sandbox.wait_until(MINUTE, done).await.expect("it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_a_resize_is_healed_by_going_back() {
    let sandbox = with_web(1, SandboxConfig::default()).await;
    sandbox.behave("default", "web-", |b| b.crash_after_resize = Some(Duration::from_secs(5)));
    let (pods, pod) = first_pod(&sandbox).await;
    let name = pod.metadata.name.expect("a name");
    pods.patch_resize(&name, &PatchParams::default(), &cpu("200m")).await.expect("a resize");
    let looping =
        |v: &View| status(v, &name)["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    sandbox.wait_until(MINUTE, looping).await.expect("it crashes twice");
    pods.patch_resize(&name, &PatchParams::default(), &cpu("100m")).await.expect("a resize");
    sandbox.wait_until(MINUTE, |v| v.ready_pods("default", "web-") == 1).await.expect("it is healthy again");
}

#[tokio::test(start_paused = true)]
async fn the_interceptor_fails_drops_and_counts() {
    let sandbox = with_web(1, SandboxConfig::default()).await;
    sandbox.clear_requests();
    sandbox.intercept(Some(Arc::new(|phase, seen| match (phase, seen.method.as_str()) {
        (Phase::Before, "PATCH") => Fault::Answer(Failure::new(503, "ServiceUnavailable", "later")),
        (Phase::After(_), "GET") => Fault::Drop,
        _ => Fault::None,
    })));
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    let refused = pods.patch_resize("x", &PatchParams::default(), &cpu("200m")).await;
    assert!(matches!(refused, Err(kube::Error::Api(s)) if s.code == 503));
    assert!(matches!(pods.get("x").await, Err(kube::Error::Service(_))));
    let methods: Vec<String> = sandbox.requests().into_iter().map(|r| r.method).collect();
    assert_eq!(methods, ["PATCH", "GET"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_names() {
    let names = |view: View| -> Vec<Value> {
        view.list("pods", "default").iter().map(|p| p["metadata"]["uid"].clone()).collect()
    };
    let one = names(with_web(3, SandboxConfig::default()).await.view());
    let two = names(with_web(3, SandboxConfig::default()).await.view());
    assert_eq!((one.len(), &one), (3, &two));
}

/// Thousands of pods are a matter of seconds even without optimisation: no controller looks at all pods for each.
/// Names are drawn until they are free, so none is lost to a collision.
#[tokio::test(start_paused = true)]
async fn thousands_of_pods_in_one_workload() {
    let nodes = vec![NodeConfig::new("big", "2k", "2Ti")];
    let sandbox = with_web(0, SandboxConfig { nodes, watch_window: 50_000, ..SandboxConfig::default() }).await;
    let real = std::time::Instant::now();
    sandbox.apply_yaml(&deployment(4_000)).await.expect("the server takes a Deployment");
    let up = async {
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(sandbox.client());
        loop {
            let web = deployments.get("web").await.expect("the deployment");
            if web.status.and_then(|s| s.ready_replicas) == Some(4_000) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(MINUTE, up).await.expect("every pod becomes ready");
    let started = real.elapsed();
    let (pods, pod) = first_pod(&sandbox).await;
    let listed = real.elapsed().saturating_sub(started);
    let name = pod.metadata.name.expect("a name");
    pods.patch_resize(&name, &PatchParams::default(), &cpu("150m")).await.expect("a resize");
    // Generous: the machine may be busy. What this catches is a square: it would take many minutes.
    assert!(started < 2 * MINUTE && listed < MINUTE, "{started:?}, {listed:?}");
}
