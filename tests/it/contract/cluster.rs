//! The cluster a case runs on: a namespace of its own, helpers to make pods and to wait. May not: assert anything.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kapr::sandbox::{NodeConfig, Sandbox, SandboxConfig, Version};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// How long anything may take on either cluster.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Cluster {
    pub client: kube::Client,
    pub namespace: String,
    /// Minor version of Kubernetes.
    pub minor: u32,
    /// Only where the sandbox is the cluster.
    pub sandbox: Option<Sandbox>,
}

pub async fn on_sandbox(version: Version, case: &str, run: impl AsyncFnOnce(&Cluster)) {
    let nodes = vec![NodeConfig::new("localhost", "2", "8Gi")];
    let sandbox = Sandbox::start(SandboxConfig { version, nodes, ..SandboxConfig::default() }).await;
    let cluster = Cluster::open(sandbox.client(), case, Some(sandbox)).await;
    run(&cluster).await;
}

pub async fn on_real(case: &str, run: impl AsyncFnOnce(&Cluster)) {
    let Some(path) = std::env::var_os("KAPR_TEST_KUBECONFIG") else {
        eprintln!("skipped: no cluster (KAPR_TEST_KUBECONFIG is not set)");
        return;
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).expect("KAPR_TEST_KUBECONFIG names a kubeconfig");
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("the kubeconfig is complete");
    // A hidden retry of 429 would turn a refused eviction into minutes of waiting.
    config.default_retry = false;
    let client = kube::Client::try_from(config).expect("a client");
    let cluster = Cluster::open(client, case, None).await;
    let outcome = std::panic::AssertUnwindSafe(run(&cluster)).catch_unwind().await;
    // Also after a failure: what a case leaves behind takes room from the others.
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let now = DeleteParams::background();
    namespaces.delete(&cluster.namespace, &now).await.expect("the namespace is deleted");
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Cluster {
    async fn open(client: kube::Client, case: &str, sandbox: Option<Sandbox>) -> Self {
        let version = client.apiserver_version().await.expect("a version");
        let minor = version.minor.trim_end_matches('+').parse().expect("a minor version");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let prefix = format!("c-{}-", case.replace('_', "-"));
        let new = serde_json::from_value(json!({"metadata": {"generateName": prefix}})).expect("a namespace");
        let created = namespaces.create(&PostParams::default(), &new).await.expect("a namespace is created");
        let namespace = created.metadata.name.expect("the server named it");
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        for _ in 0..200 {
            if accounts.get_opt("default").await.expect("an answer").is_some() {
                return Self { client, namespace, minor, sandbox };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no default service account in {namespace}");
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    /// Creates a pod from a spec and waits until it is ready.
    pub async fn pod(&self, name: &str, resources: Value) -> Value {
        self.pod_of(pod(name, resources)).await
    }

    pub async fn pod_of(&self, pod: Value) -> Value {
        let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
        self.create(pod).await.expect("the pod is created");
        self.wait(&name, ready).await
    }

    /// Creates any object of this namespace.
    pub async fn create(&self, object: Value) -> Result<Value, Refusal> {
        let path = self.collection(&object);
        self.send("POST", &path, "application/json", &object).await
    }

    /// The path of the collection of an object.
    pub fn collection(&self, object: &Value) -> String {
        let api = object["apiVersion"].as_str().unwrap_or("v1");
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let base = if api.contains('/') { "apis" } else { "api" };
        format!("/{base}/{api}/namespaces/{}/{kind}s", self.namespace)
    }

    pub fn pod_path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{rest}", self.namespace)
    }

    /// One request; a refusal is taken apart.
    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value, Refusal> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send_bytes(method, path, content_type, body).await
    }

    pub async fn send_bytes(&self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Result<Value, Refusal> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("accept", "application/json")
            .body(kube::client::Body::from(body))
            .expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        let code = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if code < 400 { Ok(value) } else { Err(Refusal { code, status: value }) }
    }

    /// A strategic merge patch of `/resize`.
    pub async fn resize(&self, name: &str, patch: &Value) -> Result<Value, Refusal> {
        let path = self.pod_path(&format!("{name}/resize"));
        self.send("PATCH", &path, "application/strategic-merge-patch+json", patch).await
    }

    pub async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.pods().get(name).await.expect("the pod is there")).expect("JSON")
    }

    /// Waits until a pod is as wished.
    pub async fn wait(&self, name: &str, wish: impl Fn(&Value) -> bool) -> Value {
        let (found, _) = self.follow(name, "0", wish).await;
        found
    }

    /// Watches a pod from a version until it is as wished: the last state and every state on the way.
    pub async fn follow(&self, name: &str, version: &str, wish: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let seen = std::sync::Mutex::new(Vec::new());
        let look = async {
            let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(280);
            let mut stream = self.pods().watch(&params, version).await.expect("a watch").boxed();
            while let Some(event) = stream.try_next().await.expect("a watch event") {
                let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
                let pod = serde_json::to_value(pod).expect("JSON");
                seen.lock().expect("a lock").push(pod.clone());
                if wish(&pod) {
                    return pod;
                }
            }
            panic!("the watch of {name} ended");
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        let seen = seen.into_inner().expect("a lock");
        match found {
            Ok(pod) => (pod, seen),
            Err(tokio::time::error::Elapsed { .. }) => {
                panic!("{name} did not become as wished; last: {:#}", seen.last().unwrap_or(&Value::Null))
            }
        }
    }

    pub async fn patch_config_map(&self, name: &str, patch: Value) -> Result<Value, kube::Error> {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = self.api();
        let result = maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(serde_json::to_value(result).expect("JSON"))
    }
}

/// A refusal, taken apart.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub status: Value,
}

impl Refusal {
    pub fn reason(&self) -> &str {
        self.status["reason"].as_str().unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.status["message"].as_str().unwrap_or_default()
    }

    pub fn cause(&self) -> &str {
        self.status["details"]["causes"][0]["reason"].as_str().unwrap_or_default()
    }

    /// Code, reason and message at once; `NS` in the message stands for the namespace.
    pub fn all(&self) -> (u16, &str, &str) {
        (self.code, self.reason(), self.message())
    }
}

/// A pod that ends quickly when asked to, with one container `app`.
pub fn pod(name: &str, resources: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "contract"}},
        "spec": {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
            "containers": [container("app", resources)]},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "called with json!")]
pub fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "kapr.test/busybox:1", "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"], "resources": resources})
}

/// Requests of 10m and 16Mi, a memory limit of 32Mi.
pub fn burstable() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}})
}

/// A patch of the resources of container `app`.
#[expect(clippy::needless_pass_by_value, reason = "called with json!")]
pub fn to(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "app", "resources": resources}]}})
}

pub fn cpu(amount: &str) -> Value {
    to(json!({"requests": {"cpu": amount}}))
}

pub fn ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|c| c["status"] == "True")
}

pub fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

pub fn app_status(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

/// The actual CPU request of container `app`.
pub fn actual_cpu(pod: &Value) -> &str {
    app_status(pod)["resources"]["requests"]["cpu"].as_str().unwrap_or_default()
}

/// Whether a resize to this CPU request is over.
pub fn applied(pod: &Value, cpu: &str) -> bool {
    actual_cpu(pod) == cpu
        && condition(pod, "PodResizeInProgress").is_none()
        && condition(pod, "PodResizePending").is_none()
        && ready(pod)
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().expect("a version")
}
