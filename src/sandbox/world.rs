//! The state of the cluster behind one lock: storage, the indexes over it, timers and the work that changes make
//! necessary. Every write goes through [`World::put`] or [`World::remove`], so that no controller misses one.
//! May not: know what a controller does with its work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::SandboxConfig;
use super::clock::{Clock, Ids};
use super::kubelet::{Kubelets, Timer};
use super::registry::{BUDGETS, DAEMON_SETS, Kind};
use super::rules::Rules;
use super::storage::{Key, Storage};

/// Something a controller has to look at. Looking twice is looking once: work is a set in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Deployment(Key),
    ReplicaSet(Key),
    StatefulSet(Key),
    DaemonSet(Key),
    Budget(Key),
    /// A pod without a node.
    Schedule(Key),
    /// A pod whose node's kubelet has news about it.
    Pod(Key),
    /// The dependents of an owner that is gone.
    Collect(String),
    Namespace(String),
}

/// Pods of one controller, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub alive: usize,
    pub ready: usize,
}

/// Where an object lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub id: &'static str,
    pub key: Key,
}

pub(super) struct World {
    pub config: SandboxConfig,
    pub rules: Rules,
    pub store: Storage,
    pub clock: Clock,
    pub ids: Ids,
    pub kubelets: Kubelets,
    pub tallies: BTreeMap<String, Tally>,
    owned: BTreeMap<String, BTreeSet<Place>>,
    timers: BTreeMap<(Instant, u64), Timer>,
    timer_count: u64,
    queue: VecDeque<Work>,
    queued: BTreeSet<Work>,
    wake: Arc<Notify>,
    versions: watch::Sender<u64>,
}

impl World {
    pub(super) fn new(config: SandboxConfig, wake: Arc<Notify>, versions: watch::Sender<u64>) -> Self {
        let store = Storage::new(config.watch_window);
        let clock = Clock::new(config.start_time);
        let ids = Ids::new(config.seed);
        Self {
            rules: Rules::new(config.behaviour.clone()),
            config,
            store,
            clock,
            ids,
            kubelets: Kubelets::default(),
            tallies: BTreeMap::new(),
            owned: BTreeMap::new(),
            timers: BTreeMap::new(),
            timer_count: 0,
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            wake,
            versions,
        }
    }

    /// Minor version of the simulated Kubernetes.
    pub(super) fn minor(&self) -> u32 {
        self.config.version.minor
    }

    pub(super) fn get(&self, kind: &Kind, key: &Key) -> Option<Arc<Value>> {
        self.store.get(kind.id, &key.0, &key.1).cloned()
    }

    /// Stores an object (its namespace and name are in its metadata) and queues what follows from the change.
    pub(super) fn put(&mut self, kind: &'static Kind, object: Value) -> Arc<Value> {
        let (namespace, name) = key_of(&object);
        let (after, before) = self.store.put(kind.id, &namespace, &name, object);
        self.changed(kind, before.as_deref(), Some(&after));
        after
    }

    /// Removes an object for good.
    pub(super) fn remove(&mut self, kind: &'static Kind, key: &Key) -> Option<Arc<Value>> {
        let last = self.store.remove(kind.id, &key.0, &key.1)?;
        self.changed(kind, Some(&last), None);
        if let Some(uid) = last["metadata"]["uid"].as_str().filter(|uid| self.owned.contains_key(*uid)) {
            self.queue(Work::Collect(uid.to_owned()));
        }
        Some(last)
    }

    /// Changes a stored object in place; nothing happens when it is gone or the change changes nothing.
    pub(super) fn update(
        &mut self,
        kind: &'static Kind,
        key: &Key,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let before = self.get(kind, key)?;
        let mut object = (*before).clone();
        change(&mut object);
        if object == *before {
            return Some(before);
        }
        Some(self.put(kind, object))
    }

    /// Metadata of an object that the cluster itself creates.
    pub(super) fn metadata(&mut self, namespace: &str, name: &str) -> Value {
        let mut metadata = json!({"name": name, "uid": self.ids.uid(), "creationTimestamp": self.clock.stamp()});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata
    }

    pub(super) fn queue(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.queue.push_back(work);
            self.wake.notify_one();
        }
    }

    pub(super) fn next_work(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }

    pub(super) fn after(&mut self, wait: Duration, timer: Timer) {
        self.timer_count += 1;
        self.timers.insert((Clock::instant() + wait, self.timer_count), timer);
        self.wake.notify_one();
    }

    pub(super) fn due(&mut self) -> Option<Timer> {
        let (at, _) = *self.timers.first_key_value()?.0;
        (at <= Clock::instant()).then(|| self.timers.pop_first())?.map(|(_, timer)| timer)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// The dependents of an owner, of one resource.
    pub(super) fn dependents(&self, owner: &str, id: &str) -> Vec<Key> {
        let places = self.owned.get(owner).into_iter().flatten();
        places.filter(|p| p.id == id).map(|p| p.key.clone()).collect()
    }

    pub(super) fn all_dependents(&self, owner: &str) -> Vec<Place> {
        self.owned.get(owner).into_iter().flatten().cloned().collect()
    }

    pub(super) fn tally(&self, owner: &str) -> Tally {
        self.tallies.get(owner).copied().unwrap_or_default()
    }

    fn changed(&mut self, kind: &'static Kind, before: Option<&Value>, after: Option<&Value>) {
        self.index_owners(kind, before, after);
        let Some(object) = after.or(before) else { return };
        let key = key_of(object);
        match kind.plural {
            "pods" => self.pod_changed(&key, before, after),
            "deployments" => self.queue(Work::Deployment(key)),
            "replicasets" => {
                self.queue_owner(object);
                self.queue(Work::ReplicaSet(key));
            }
            "statefulsets" => self.queue(Work::StatefulSet(key)),
            "daemonsets" => self.queue(Work::DaemonSet(key)),
            "poddisruptionbudgets" => self.queue(Work::Budget(key)),
            "namespaces" if after.is_some_and(is_deleting) => self.queue(Work::Namespace(key.1)),
            "nodes" => self.node_changed(&key.1, after),
            _ => {}
        }
        self.versions.send_replace(self.store.version());
    }

    fn index_owners(&mut self, kind: &'static Kind, before: Option<&Value>, after: Option<&Value>) {
        let owners = |object: Option<&Value>| -> BTreeSet<String> {
            let list = object.and_then(|o| o["metadata"]["ownerReferences"].as_array());
            list.into_iter().flatten().filter_map(|o| o["uid"].as_str().map(str::to_owned)).collect()
        };
        let (old, new) = (owners(before), owners(after));
        if old == new && before.is_some() {
            return;
        }
        let Some(object) = after.or(before) else { return };
        let place = Place { id: kind.id, key: key_of(object) };
        for uid in old.difference(&new) {
            if let Some(set) = self.owned.get_mut(uid) {
                set.remove(&place);
                if set.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
        for uid in new.difference(&old) {
            self.owned.entry(uid.clone()).or_default().insert(place.clone());
        }
    }

    fn pod_changed(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        let (old, new) = (before.map(health), after.map(health));
        if old != new {
            self.count(before, after);
            let object = after.or(before).unwrap_or(&Value::Null);
            self.queue_owner(object);
            self.queue_budgets(&key.0, object);
        }
        match after {
            None => self.pod_gone(before),
            Some(pod) if pod["spec"]["nodeName"].is_null() => {
                if before.is_none() || is_deleting(pod) {
                    self.queue(Work::Schedule(key.clone()));
                }
            }
            Some(pod) => {
                let news =
                    |o: &Value| (o["spec"]["nodeName"].clone(), o["metadata"]["generation"].clone(), is_deleting(o));
                if before.map(news) != Some(news(pod)) {
                    self.queue(Work::Pod(key.clone()));
                }
            }
        }
    }

    fn count(&mut self, before: Option<&Value>, after: Option<&Value>) {
        for (object, sign) in [(before, -1isize), (after, 1)] {
            let Some((pod, owner)) = object.and_then(|o| Some((o, controller(o)?["uid"].as_str()?.to_owned()))) else {
                continue;
            };
            let health = health(pod);
            let tally = self.tallies.entry(owner.clone()).or_default();
            tally.alive = tally.alive.saturating_add_signed(if health.alive { sign } else { 0 });
            tally.ready = tally.ready.saturating_add_signed(if health.alive && health.ready { sign } else { 0 });
            if *tally == Tally::default() {
                self.tallies.remove(&owner);
            }
        }
    }

    /// Queues the controller of an object.
    pub(super) fn queue_owner(&mut self, object: &Value) {
        let Some(owner) = controller(object) else { return };
        let key = (
            object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            owner["name"].as_str().unwrap_or_default().to_owned(),
        );
        match owner["kind"].as_str() {
            Some("ReplicaSet") => self.queue(Work::ReplicaSet(key)),
            Some("StatefulSet") => self.queue(Work::StatefulSet(key)),
            Some("DaemonSet") => self.queue(Work::DaemonSet(key)),
            Some("Deployment") => self.queue(Work::Deployment(key)),
            _ => {}
        }
    }

    fn queue_budgets(&mut self, namespace: &str, pod: &Value) {
        let keys: Vec<Key> = self
            .store
            .list(BUDGETS.id, Some(namespace))
            .filter(|(_, budget)| super::controllers::budget::selects(budget, pod))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.queue(Work::Budget(key));
        }
    }

    /// Queues everything again that waits for a node.
    pub(super) fn queue_unscheduled(&mut self) {
        let waiting: Vec<Key> = self.kubelets.unscheduled.iter().cloned().collect();
        for key in waiting {
            self.queue(Work::Schedule(key));
        }
    }

    fn node_changed(&mut self, name: &str, after: Option<&Value>) {
        self.kubelets.node_changed(name, after);
        self.queue_unscheduled();
        let sets: Vec<Key> = self.store.list(DAEMON_SETS.id, None).map(|(key, _)| key.clone()).collect();
        for key in sets {
            self.queue(Work::DaemonSet(key));
        }
    }

    fn pod_gone(&mut self, before: Option<&Value>) {
        let Some(pod) = before else { return };
        self.kubelets.unscheduled.remove(&key_of(pod));
        if let Some(node) = self.kubelets.forget(pod["metadata"]["uid"].as_str().unwrap_or_default()) {
            super::kubelet_resize::room_changed(self, &node);
            self.queue_unscheduled();
        }
    }
}

/// What controllers and budgets care about in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub alive: bool,
    pub ready: bool,
}

pub(super) fn health(pod: &Value) -> Health {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    Health { alive: !ended && !is_deleting(pod), ready: condition(pod, "Ready").is_some_and(|c| c["status"] == "True") }
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// The owner reference of the controller.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|o| o["controller"] == true)
}

pub(super) fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// The kind of a storage id that owns pods or is owned.
pub(super) fn kind_of(id: &str) -> Option<&'static Kind> {
    super::registry::KINDS.iter().copied().find(|k| k.id == id)
}
