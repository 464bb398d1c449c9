//! The binary as a process: with a home directory of its own, to the end or in the background.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::cluster::{Place, wait_for};

/// How long a command may take altogether before the test fails.
const PATIENCE: u64 = 180;

/// A process that has ended.
#[derive(Debug)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub took: Duration,
}

/// A process at work. It does not outlive the test.
pub struct Running {
    child: Child,
    files: TempDir,
    started: std::time::Instant,
}

impl Place {
    /// Runs a command to its end.
    pub fn kapr(&self, args: &[&str]) -> Ran {
        self.spawn(args).end()
    }

    /// `rollout deployment/NAME --set SET` with short pauses and more flags, as JSON lines, to its end.
    pub fn rollout(&self, name: &str, set: &str, more: &[&str]) -> Ran {
        self.spawn_rollout(name, set, more).end()
    }

    pub fn spawn_rollout(&self, name: &str, set: &str, more: &[&str]) -> Running {
        let workload = if name.contains('/') { name.to_owned() } else { format!("deployment/{name}") };
        self.spawn(&[&["rollout", &workload, "--set", set, "--yes", "-o", "json"], &QUICK[..], more].concat())
    }

    /// Starts a command from an empty home directory: what it knows of earlier ones is in the cluster.
    pub fn spawn(&self, args: &[&str]) -> Running {
        let files = tempfile::tempdir().unwrap();
        let home = files.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let output = |name: &str| Stdio::from(File::create(files.path().join(name)).unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_kubectl-kapr"))
            .args(["-n", &self.namespace])
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("TERM", "dumb")
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"))
            .spawn()
            .unwrap();
        Running { child, files, started: std::time::Instant::now() }
    }
}

/// Flags of most runs: the waits that people want are no use to a test.
pub const QUICK: [&str; 4] = ["--pause=1s", "--min-ready=1s", "--resize-timeout=60s", "--deferred-timeout=60s"];

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn text(&self, name: &str) -> String {
        let path: PathBuf = self.files.path().join(name);
        String::from_utf8(std::fs::read(path).unwrap()).unwrap()
    }

    /// The JSON lines so far.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text("stdout");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The first event that fits; fails when the process ends before it.
    #[track_caller]
    pub fn wait_event(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, PATIENCE, || {
            let ended = self.child.try_wait().unwrap();
            let found = self.events().into_iter().find(&fits);
            assert!(
                found.is_some() || ended.is_none(),
                "ended ({ended:?}) before {what}:\n{}{}",
                self.text("stdout"),
                self.text("stderr")
            );
            found
        })
    }

    /// Waits until the pause after this step (from 0).
    #[track_caller]
    pub fn wait_at_target(&mut self, step: usize) {
        self.wait_event(&format!("step {step} at target"), |event| {
            event["kind"] == "StepAtTarget" && event["step"] == step
        });
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// `kill -9`.
    pub fn kill(mut self) -> Ran {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let status: ExitStatus = {
            let end = std::time::Instant::now() + Duration::from_secs(PATIENCE);
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    break status;
                }
                assert!(
                    std::time::Instant::now() < end,
                    "still at work after {PATIENCE} s:\n{}{}",
                    self.text("stdout"),
                    self.text("stderr")
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        Ran {
            stdout: self.text("stdout"),
            stderr: self.text("stderr"),
            code: status.code(),
            took: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n{}{}", self.stdout, self.stderr);
        self
    }

    pub fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Events of one kind.
    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// The last line; it repeats the exit code.
    #[track_caller]
    pub fn result(&self) -> Value {
        let last = self.events().pop().unwrap_or_default();
        assert_eq!(last["kind"], "Result", "\n{}{}", self.stdout, self.stderr);
        assert_eq!(last["exitCode"].as_i64(), self.code.map(i64::from));
        last
    }

    /// Names of the pods that each step took.
    pub fn taken(&self) -> Vec<Vec<String>> {
        let names = |event: &Value| {
            let pods = event["pods"].as_array().unwrap();
            pods.iter().map(|pod| pod.as_str().unwrap().to_owned()).collect()
        };
        self.of_kind("StepStarted").iter().map(names).collect()
    }

    /// What was said of pods in this state.
    pub fn said(&self, state: &str) -> Vec<String> {
        let pods = self.of_kind("Pod").into_iter().filter(|event| event["state"] == state);
        pods.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}
