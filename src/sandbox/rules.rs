//! Knobs: how pods and kubelets misbehave. A behaviour comes from the sandbox's default, then from rules set by tests,
//! then from the pod's own annotations (`sandbox.kapr.dev/…`), later ones winning. May not: act.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::quantity;

/// The annotation prefix under which a manifest can set each knob.
pub const ANNOTATION_PREFIX: &str = "sandbox.kapr.dev/";

/// How one pod, its kubelet and its runtime behave. The text in brackets is the annotation's name.
#[expect(clippy::struct_excessive_bools, reason = "independent knobs, each with a name of its own in manifests")]
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// From binding to running containers [`start-delay`].
    pub start_delay: Duration,
    /// From running to ready [`ready-delay`].
    pub ready_delay: Duration,
    /// From a deletion to the end of the containers, at most the grace period [`stop-delay`].
    pub stop_delay: Duration,
    /// From a resize in the API to the kubelet's first status [`resize-delay`].
    pub resize_delay: Duration,
    /// From the kubelet's first status to the runtime's change [`actuation-delay`].
    pub actuation_delay: Duration,
    /// From a container's end to its next start, for a resize with `RestartContainer` [`restart-delay`].
    pub restart_delay: Duration,
    /// From a refused actuation to the reason `Error` in the status [`error-delay`].
    pub error_delay: Duration,
    /// Between two tries of a refused actuation [`retry-period`].
    pub retry_period: Duration,
    /// Memory in use in each container, in bytes [`memory-usage`].
    pub memory_usage: i64,
    /// The kubelet admits a resize and never actuates it [`stubborn`].
    pub stubborn: bool,
    /// The kubelet writes admission and actuation as one status, as a loaded one does [`coalesces`].
    pub coalesces: bool,
    /// The kubelet reads nothing of the pod's changes [`deaf`].
    pub deaf: bool,
    /// The containers crash this long after a resize, again and again while the values differ from those they were
    /// born with [`crash-after-resize`].
    pub crash_after_resize: Option<Duration>,
    /// The same, as `OOMKilled` [`oom-after-resize`].
    pub oom_after_resize: Option<Duration>,
    /// The pod stops being ready after a resize, while the values differ from those it was born with
    /// [`unready-after-resize`].
    pub unready_after_resize: bool,
    /// The pod never becomes ready [`never-ready`].
    pub never_ready: bool,
    /// The runtime reports other values than those asked for (1m of CPU and 4 KiB of memory more) [`diverges`].
    pub diverges: bool,
    /// The node runs the static CPU manager: a change of CPU of a Guaranteed pod is infeasible [`static-cpu`].
    pub static_cpu: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start_delay: Duration::from_millis(500),
            ready_delay: Duration::ZERO,
            stop_delay: Duration::from_millis(500),
            resize_delay: Duration::from_millis(50),
            actuation_delay: Duration::from_millis(200),
            restart_delay: Duration::from_secs(1),
            error_delay: Duration::from_secs(3),
            retry_period: Duration::from_secs(10),
            memory_usage: 4 << 20,
            stubborn: false,
            coalesces: false,
            deaf: false,
            crash_after_resize: None,
            oom_after_resize: None,
            unready_after_resize: false,
            never_ready: false,
            diverges: false,
            static_cpu: false,
        }
    }
}

impl Behaviour {
    fn annotate(&mut self, name: &str, text: &str) {
        let time = || text.parse::<humantime::Duration>().ok().map(Duration::from);
        let set = |field: &mut Duration| *field = time().unwrap_or(*field);
        let yes = text == "true";
        match name {
            "start-delay" => set(&mut self.start_delay),
            "ready-delay" => set(&mut self.ready_delay),
            "stop-delay" => set(&mut self.stop_delay),
            "resize-delay" => set(&mut self.resize_delay),
            "actuation-delay" => set(&mut self.actuation_delay),
            "restart-delay" => set(&mut self.restart_delay),
            "error-delay" => set(&mut self.error_delay),
            "retry-period" => set(&mut self.retry_period),
            "memory-usage" => self.memory_usage = quantity::units(text).unwrap_or(self.memory_usage),
            "stubborn" => self.stubborn = yes,
            "coalesces" => self.coalesces = yes,
            "deaf" => self.deaf = yes,
            "crash-after-resize" => self.crash_after_resize = time(),
            "oom-after-resize" => self.oom_after_resize = time(),
            "unready-after-resize" => self.unready_after_resize = yes,
            "never-ready" => self.never_ready = yes,
            "diverges" => self.diverges = yes,
            "static-cpu" => self.static_cpu = yes,
            _ => {}
        }
    }
}

type Change = Arc<dyn Fn(&mut Behaviour) + Send + Sync>;

struct Rule {
    namespace: String,
    name_prefix: String,
    change: Change,
}

/// The default behaviour and what tests have changed of it.
pub(super) struct Rules {
    base: Behaviour,
    rules: Vec<Rule>,
}

impl Rules {
    pub(super) fn new(base: Behaviour) -> Self {
        Self { base, rules: Vec::new() }
    }

    pub(super) fn add(&mut self, namespace: &str, name_prefix: &str, change: Change) {
        self.rules.push(Rule { namespace: namespace.to_owned(), name_prefix: name_prefix.to_owned(), change });
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// How a pod behaves now.
    pub(super) fn of(&self, pod: &Value) -> Behaviour {
        let mut behaviour = self.base.clone();
        let metadata = &pod["metadata"];
        let (namespace, name) = (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str());
        for rule in &self.rules {
            if rule.namespace == namespace && name.is_some_and(|n| n.starts_with(&rule.name_prefix)) {
                (rule.change)(&mut behaviour);
            }
        }
        for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
            if let (Some(name), Some(text)) = (key.strip_prefix(ANNOTATION_PREFIX), value.as_str()) {
                behaviour.annotate(name, text);
            }
        }
        behaviour
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_win_over_rules_and_rules_over_the_default() {
        let mut rules = Rules::new(Behaviour::default());
        rules.add("a", "web-", Arc::new(|b| (b.stubborn, b.memory_usage) = (true, 1)));
        let pod = json!({"metadata": {"namespace": "a", "name": "web-1",
            "annotations": {"sandbox.kapr.dev/memory-usage": "48Mi", "sandbox.kapr.dev/crash-after-resize": "5s"}}});
        let behaviour = rules.of(&pod);
        assert_eq!((behaviour.stubborn, behaviour.memory_usage), (true, 48 << 20));
        assert_eq!(behaviour.crash_after_resize, Some(Duration::from_secs(5)));
        let other = json!({"metadata": {"namespace": "b", "name": "web-1"}});
        assert_eq!(rules.of(&other), Behaviour::default());
    }
}
