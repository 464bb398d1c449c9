//! A namespace of its own on a running cluster, seen and changed through kubectl. May not: know the product.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The clusters that the tests know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    V1_37,
    V1_34,
}

impl Version {
    const fn variable(self) -> &'static str {
        match self {
            Self::V1_37 => "KAPR_E2E_137",
            Self::V1_34 => "KAPR_E2E_134",
        }
    }
}

/// A namespace that goes away with the test.
pub struct Place {
    pub namespace: String,
    pub kubeconfig: PathBuf,
    kubectl: PathBuf,
}

/// A pod as the API server tells it.
#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    pub ready: bool,
    pub json: Value,
}

/// Asks until it is answered. The deadline is long because machines are slow, never because the answer takes time.
pub fn wait_for<T>(what: &str, seconds: u64, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not seen within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Place {
    /// `None`, and a line on stderr, where that cluster is not running.
    pub fn open(version: Version, subject: &str) -> Option<Self> {
        let Some(dir) = std::env::var_os(version.variable()).map(PathBuf::from) else {
            writeln!(std::io::stderr(), "skipped: no cluster ({} is not set)", version.variable()).unwrap();
            return None;
        };
        let kubectl = std::fs::read_to_string(dir.join("kubectl-dir"))
            .map_or_else(|_| PathBuf::from("kubectl"), |folder| PathBuf::from(folder.trim()).join("kubectl"));
        let namespace = format!("e2e-{subject}-{}", std::process::id());
        let place = Self { namespace, kubeconfig: dir.join("kubeconfig"), kubectl };
        place.kubectl(&["create", "namespace", &place.namespace]);
        // Pods are refused until it is there.
        wait_for("the default service account", 30, || {
            place.try_kubectl(&["get", "serviceaccount", "default"], "").ok()
        });
        Some(place)
    }

    pub fn kubectl_path(&self) -> &std::path::Path {
        &self.kubectl
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", &self.namespace]).args(args);
        command
    }

    /// What kubectl said on stdout, or on stderr when it failed.
    pub fn try_kubectl(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        self.try_kubectl(args, "").unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
    }

    pub fn get(&self, what: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[&["get", "-o", "json"], what].concat())).unwrap()
    }

    pub fn apply(&self, manifest: &Value) {
        self.try_kubectl(&["apply", "-f", "-"], &manifest.to_string()).unwrap();
    }

    /// Applies a workload and waits until so many of its pods are ready.
    pub fn start(&self, manifest: &Value, pods: usize) -> Vec<Pod> {
        self.apply(manifest);
        let name = manifest["metadata"]["name"].as_str().unwrap();
        self.ready_pods(name, pods)
    }

    /// The pods of the workload as soon as exactly so many are there and ready.
    pub fn ready_pods(&self, name: &str, count: usize) -> Vec<Pod> {
        wait_for(&format!("{count} ready pods of {name}"), 90, || {
            let pods = self.pods(name);
            (pods.len() == count && pods.iter().all(|pod| pod.ready)).then_some(pods)
        })
    }

    /// The pods of the workload (label `app`) that are not on their way out, by name.
    pub fn pods(&self, name: &str) -> Vec<Pod> {
        let list = self.get(&["pods", "-l", &format!("app={name}")]);
        let mut pods = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(Pod::new)
            .collect::<Vec<_>>();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    /// How many pods of the workload ask for this value of `app` and have it, e.g. `requests.cpu`.
    pub fn count_at(&self, name: &str, key: &str, value: &str) -> usize {
        self.pods(name).iter().filter(|pod| pod.has("app", key, value)).count()
    }

    /// Every pod asks for this value and has it.
    #[track_caller]
    pub fn assert_all_at(&self, name: &str, key: &str, value: &str) {
        let pods = self.pods(name);
        let others = pods.iter().filter(|pod| !pod.has("app", key, value)).fold(String::new(), |mut text, pod| {
            let _ = writeln!(text, "{}: {:?}", pod.name, pod.values("app", key));
            text
        });
        assert!(!pods.is_empty() && others.is_empty(), "not at {key}={value}:\n{others}");
    }

    /// Resizes one pod as somebody else would.
    pub fn resize_by_hand(&self, pod: &str, container: &str, resources: &Value) {
        let patch = serde_json::json!({"spec": {"containers": [{"name": container, "resources": resources}]}});
        self.kubectl(&["patch", "pod", pod, "--subresource", "resize", "--patch", &patch.to_string()]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let delete = ["delete", "namespace", &self.namespace, "--wait=false", "--ignore-not-found"];
        if let Err(error) = self.try_kubectl(&delete, "") {
            let _ = writeln!(std::io::stderr(), "namespace {} stays: {error}", self.namespace);
        }
    }
}

impl Pod {
    pub fn new(json: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ready = json["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        });
        Self { name: text(&json["metadata"]["name"]), uid: text(&json["metadata"]["uid"]), ready, json: json.clone() }
    }

    fn find(lists: [&Value; 2], container: &str) -> Value {
        let all = lists.into_iter().filter_map(Value::as_array).flatten();
        all.into_iter().find(|each| each["name"] == container).cloned().unwrap_or_default()
    }

    /// What the pod asks for and what it has, for a key such as `limits.memory`; `None` where it has none.
    pub fn values(&self, container: &str, key: &str) -> (Option<String>, Option<String>) {
        let (kind, resource) = key.split_once('.').unwrap();
        let spec = &self.json["spec"];
        let want = Self::find([&spec["containers"], &spec["initContainers"]], container);
        let have = self.status(container);
        let of = |value: &Value| value["resources"][kind][resource].as_str().map(str::to_owned);
        (of(&want), of(&have))
    }

    fn status(&self, container: &str) -> Value {
        let status = &self.json["status"];
        Self::find([&status["containerStatuses"], &status["initContainerStatuses"]], container)
    }

    pub fn has(&self, container: &str, key: &str, value: &str) -> bool {
        self.values(container, key) == (Some(value.to_owned()), Some(value.to_owned()))
    }

    pub fn restarts(&self, container: &str) -> u64 {
        self.status(container)["restartCount"].as_u64().unwrap()
    }
}
