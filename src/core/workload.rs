//! What the product acts on: a workload of `apps/v1`, by name and as it was last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::pod::PodView;
use super::resources::ContainerResources;

/// The kinds whose pods can be resized in place. All of `apps/v1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
}

impl WorkloadKind {
    pub const ALL: [Self; 4] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet, Self::ReplicaSet];
    pub const GROUP: &'static str = "apps";
    pub const API_VERSION: &'static str = "apps/v1";

    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::ReplicaSet => "ReplicaSet",
        }
    }

    /// The singular lower-case name, as kubectl prints it.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::ReplicaSet => "replicaset",
        }
    }

    /// Every spelling kubectl takes: kind, plural, short name, with or without the group.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let bare = lower.strip_suffix(".v1.apps").or_else(|| lower.strip_suffix(".apps")).unwrap_or(&lower);
        match bare {
            "deployment" | "deployments" | "deploy" => Some(Self::Deployment),
            "statefulset" | "statefulsets" | "sts" => Some(Self::StatefulSet),
            "daemonset" | "daemonsets" | "ds" => Some(Self::DaemonSet),
            "replicaset" | "replicasets" | "rs" => Some(Self::ReplicaSet),
            _ => None,
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A workload by kind, namespace and name. No UID: this is what a recommendation file can say.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct WorkloadRef {
    pub kind: WorkloadKind,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for WorkloadRef {
    /// `deployment/web`: what a person types; the namespace is said beside it where it matters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.singular(), self.name)
    }
}

/// A workload as it was last seen in the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadView {
    pub reference: WorkloadRef,
    pub uid: String,
    pub terminating: bool,
    /// `.spec.replicas`, or for a DaemonSet the number of nodes it wants a pod on.
    pub replicas: u64,
    /// Requests and limits of the template's containers and sidecars: what a pod is born with.
    pub template: ContainerResources,
    /// The hash label value of pods of the current template (`pod-template-hash`, `controller-revision-hash`).
    /// `None` where it cannot be told.
    pub template_hash: Option<String>,
    /// UIDs of the objects that own the pods directly: the ReplicaSets of a Deployment, otherwise its own UID.
    pub pod_owners: BTreeSet<String>,
    /// The label selector as a query string: what the pod watch asks for.
    pub selector: String,
    /// The labels of the template's pods: what a `PodDisruptionBudget` selects.
    pub pod_labels: BTreeMap<String, String>,
    /// Other controllers that change the same resources, each as a sentence fragment (`HorizontalPodAutoscaler "web"
    /// scales on cpu`), found by the adapter when it was asked to look.
    pub rivals: Vec<Rival>,
}

impl WorkloadView {
    /// Whether the pod is one of this workload's own (the selector may match others too).
    pub fn owns(&self, pod: &PodView) -> bool {
        pod.owner_uid.as_deref().is_some_and(|owner| self.pod_owners.contains(owner))
    }
}

/// Somebody else who acts on the resources of the same pods.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rival {
    /// A HorizontalPodAutoscaler that scales on utilisation of this resource: changed requests move its ratio.
    Hpa { name: String, cpu: bool, memory: bool },
    /// A VerticalPodAutoscaler that updates pods by itself.
    Vpa { name: String, mode: String },
}
