//! The embedded cluster: an in-memory Kubernetes API server with controllers, a scheduler and simulated kubelets, good
//! enough for kube and kubectl. It follows what a real server and kubelet do, down to the order of status writes and the
//! words of refusals; the contract suite runs against both. In process it uses no sockets and only tokio's clock, so that
//! tests with paused time are exact. May not: use anything else of this crate, or be used by `core`.

mod access;
mod admission;
mod answer;
mod clock;
mod controllers;
mod defaults;
mod deletes;
mod discovery;
mod encode;
mod eviction;
mod http;
mod interceptor;
mod kubelet;
mod kubelet_faults;
mod kubelet_resize;
mod kubelet_status;
mod patch;
mod quantity;
mod reads;
mod registry;
mod request;
mod resize;
mod resources;
mod route;
mod rules;
mod scale;
mod scheduler;
mod selectors;
mod service;
mod storage;
mod table;
#[cfg(test)]
mod tests;
mod watch;
mod world;
mod writes;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

pub use self::access::Denied;
pub use self::answer::Failure;
pub use self::http::{Served, kubeconfig};
pub use self::interceptor::{ConnectionLost, Fault, Interceptor, Phase, Seen};
pub use self::rules::{ANNOTATION_PREFIX, Behaviour};
pub use self::service::SandboxBody;

use self::service::Shared;

/// The simulated version of Kubernetes, `1.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Minor version: what the sandbox's behaviour depends on.
    pub minor: u32,
    /// Patch version: shown only.
    pub patch: u32,
}

impl Version {
    /// 1.37.2, the default.
    pub const V1_37: Self = Self { minor: 37, patch: 2 };
    /// 1.34.4.
    pub const V1_34: Self = Self { minor: 34, patch: 4 };
    /// 1.33.0.
    pub const V1_33: Self = Self { minor: 33, patch: 0 };
}

/// A node to begin with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name.
    pub name: String,
    /// Allocatable CPU, as a quantity.
    pub cpu: String,
    /// Allocatable memory, as a quantity.
    pub memory: String,
    /// How many pods it takes.
    pub pods: u32,
}

impl NodeConfig {
    /// A node that takes any number of pods.
    pub fn new(name: &str, cpu: &str, memory: &str) -> Self {
        Self { name: name.to_owned(), cpu: cpu.to_owned(), memory: memory.to_owned(), pods: 100_000 }
    }
}

/// How a sandbox begins.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// The version it simulates.
    pub version: Version,
    /// Its nodes.
    pub nodes: Vec<NodeConfig>,
    /// How pods and kubelets behave where nothing else is said.
    pub behaviour: Behaviour,
    /// Rights that nobody has.
    pub denied: Vec<Denied>,
    /// Seed of names and UIDs.
    pub seed: u64,
    /// The cluster's time at the start; the machine's if absent.
    pub start_time: Option<jiff::Timestamp>,
    /// How many changes of each resource a watch can catch up on.
    pub watch_window: usize,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            version: Version::V1_37,
            nodes: vec![NodeConfig::new("node-1", "16", "64Gi"), NodeConfig::new("node-2", "16", "64Gi")],
            behaviour: Behaviour::default(),
            denied: Vec::new(),
            seed: 1,
            start_time: None,
            watch_window: 20_000,
        }
    }
}

/// A running embedded cluster. Cheap to clone; it ends with the last clone.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts a cluster with the namespaces `default`, `kube-system` and its nodes. Needs a tokio runtime with time.
    #[expect(clippy::unused_async, reason = "says that a runtime is needed; starting may wait for things later")]
    pub async fn start(config: SandboxConfig) -> Self {
        let (nodes, minor, patch) = (config.nodes.clone(), config.version.minor, config.version.patch);
        let shared = Shared::start(config);
        shared.world(|world| {
            for name in ["default", "kube-system"] {
                writes::create_namespace(world, name);
            }
            for node in nodes {
                let mut metadata = world.metadata("", &node.name);
                metadata["labels"] = json!({"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64"});
                let size = json!({"cpu": node.cpu, "memory": node.memory, "pods": node.pods.to_string()});
                let now = world.clock.stamp();
                world.put(
                    &registry::NODES,
                    json!({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {},
                    "status": {"capacity": size, "allocatable": size,
                        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                            "lastHeartbeatTime": now, "lastTransitionTime": now}],
                        "nodeInfo": {"kubeletVersion": format!("v1.{minor}.{patch}"), "operatingSystem": "linux",
                            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sandbox://1",
                            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "sandbox",
                            "systemUUID": ""}}}),
                );
            }
        });
        Self { shared }
    }

    /// Answers one request. The error is a connection that an interceptor broke.
    pub async fn handle(
        &self,
        request: ::http::Request<Bytes>,
    ) -> Result<::http::Response<SandboxBody>, ConnectionLost> {
        self.shared.clone().handle(request).await
    }

    /// A client in this process, in the namespace `default`, without hidden retries.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The tower service behind [`Sandbox::client`], to put layers around.
    pub fn service(&self) -> SandboxService {
        SandboxService { sandbox: self.clone() }
    }

    /// Serves on an address (port 0: any free one) until the result is dropped.
    pub async fn serve(&self, address: SocketAddr) -> std::io::Result<Served> {
        http::serve(self.clone(), address).await
    }

    /// Applies objects given as YAML (several documents are allowed), each as `kubectl apply` would: created, or
    /// merged into what is there. The error is the server's refusal or the parser's complaint.
    pub async fn apply_yaml(&self, text: &str) -> Result<Vec<Value>, Failure> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|e| Failure::new(400, "BadRequest", format!("not YAML: {e}")))?;
        let mut results = Vec::new();
        for document in documents.into_iter().filter(|d| !d.is_null()) {
            results.push(self.apply(document).await?);
        }
        Ok(results)
    }

    /// Applies one object; see [`Sandbox::apply_yaml`].
    pub async fn apply(&self, object: Value) -> Result<Value, Failure> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let kind = registry::of_manifest(&api, &kind)
            .ok_or_else(|| Failure::new(404, "NotFound", format!("the sandbox does not serve {kind} of {api}")))?;
        let base = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let place = if kind.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let name = text(&object["metadata"]["name"]);
        let path = format!("{base}/{}{place}/{}/{name}?fieldManager=sandbox", kind.version, kind.plural);
        self.request("PATCH", &path, "application/apply-patch+yaml", object.to_string().into()).await
    }

    /// Sends one request and answers the JSON of the answer.
    pub async fn request(&self, method: &str, path: &str, content_type: &str, body: Bytes) -> Result<Value, Failure> {
        let request = ::http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "sandbox/1")
            .body(body)
            .map_err(|e| Failure::new(400, "BadRequest", e.to_string()))?;
        let lost = |e: ConnectionLost| Failure::new(503, "ServiceUnavailable", e.to_string());
        let response = self.handle(request).await.map_err(lost)?;
        let code = response.status().as_u16();
        let Ok(body) = response.into_body().collect().await;
        let value: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null);
        if code < 400 {
            return Ok(value);
        }
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Err(Failure { details: value["details"].clone(), ..Failure::new(code, &text("reason"), text("message")) })
    }

    /// A look at everything stored, without a request.
    pub fn view(&self) -> View {
        self.shared.world(|world| {
            let mut objects = Vec::new();
            for kind in registry::KINDS {
                objects.extend(world.store.list(kind.id, None).map(|(_, object)| (kind.plural, object.clone())));
            }
            View { objects, version: world.store.version() }
        })
    }

    /// Waits until the view is as wished. The error is the last view, when that took longer than `within`.
    pub async fn wait_until(&self, within: Duration, mut wish: impl FnMut(&View) -> bool) -> Result<View, View> {
        let mut versions = self.shared.versions();
        let end = tokio::time::Instant::now() + within;
        loop {
            versions.borrow_and_update();
            let view = self.view();
            if wish(&view) {
                return Ok(view);
            }
            tokio::select! {
                _ = versions.changed() => {}
                () = tokio::time::sleep_until(end) => return Err(view),
            }
        }
    }

    /// Changes the behaviour of the pods of a namespace whose names begin with a prefix, from now on.
    pub fn behave(&self, namespace: &str, name_prefix: &str, change: impl Fn(&mut Behaviour) + Send + Sync + 'static) {
        self.shared.world(|world| world.rules.add(namespace, name_prefix, Arc::new(change)));
    }

    /// Forgets every change made by [`Sandbox::behave`].
    pub fn behave_normally(&self) {
        self.shared.world(|world| world.rules.clear());
    }

    /// Sets a node ready or not ready. A node that is not ready does nothing.
    pub fn set_node_ready(&self, name: &str, ready: bool) {
        self.shared.world(|world| kubelet::set_node_ready(world, name, ready));
    }

    /// Forgets the watch log: watches and list pages from before answer 410.
    pub fn compact(&self) {
        self.shared.world(|world| world.store.compact());
    }

    /// Denies rights from now on, instead of those denied before.
    pub fn deny(&self, denied: Vec<Denied>) {
        *self.shared.denied.lock().unwrap_or_else(PoisonError::into_inner) = denied;
    }

    /// Puts a hook between clients and the server, or takes it away.
    pub fn intercept(&self, hook: Option<Interceptor>) {
        *self.shared.interceptor.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    /// Every request so far (also those of [`Sandbox::apply`]; their user agent is `sandbox/1`).
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the request log.
    pub fn clear_requests(&self) {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The cluster's time.
    pub fn now(&self) -> jiff::Timestamp {
        self.shared.world(|world| world.clock.wall())
    }
}

/// What was stored at one moment.
#[derive(Clone, Debug)]
pub struct View {
    objects: Vec<(&'static str, Arc<Value>)>,
    /// The newest resourceVersion.
    pub version: u64,
}

impl View {
    /// The objects of a resource, by its plural, in one namespace.
    pub fn list(&self, plural: &str, namespace: &str) -> Vec<&Value> {
        let of_kind = self.objects.iter().filter(|(p, _)| *p == plural).map(|(_, o)| o.as_ref());
        of_kind.filter(|o| o["metadata"]["namespace"].as_str().unwrap_or_default() == namespace).collect()
    }

    /// One object.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.list(plural, namespace).into_iter().find(|o| o["metadata"]["name"] == name)
    }

    /// How many pods of a namespace are ready (and not ending), of those whose names begin with a prefix.
    pub fn ready_pods(&self, namespace: &str, name_prefix: &str) -> usize {
        let pods = self.list("pods", namespace).into_iter();
        pods.filter(|p| p["metadata"]["name"].as_str().is_some_and(|n| n.starts_with(name_prefix)))
            .filter(|p| world::health(p).alive && world::health(p).ready)
            .count()
    }
}

/// The sandbox as a [`tower::Service`] for [`kube::Client::new`].
#[derive(Clone, Debug)]
pub struct SandboxService {
    sandbox: Sandbox,
}

impl tower::Service<::http::Request<kube::client::Body>> for SandboxService {
    type Response = ::http::Response<SandboxBody>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ::http::Request<kube::client::Body>) -> Self::Future {
        let sandbox = self.sandbox.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(sandbox.handle(::http::Request::from_parts(parts, body)).await?)
        })
    }
}
