//! The table of resources the sandbox serves. A new resource is a line here; rules about a resource live elsewhere.

/// One served resource.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "`kind` is what manifests call it")]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version within the group.
    pub version: &'static str,
    /// Plural name, as in the URL.
    pub plural: &'static str,
    /// `plural.group`, as in error messages; the key of the storage.
    pub id: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Kind, as in manifests.
    pub kind: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// kubectl's short names.
    pub short: &'static [&'static str],
    /// Subresources.
    pub sub: &'static [&'static str],
    /// Whether `metadata.generation` counts changes of the spec.
    pub counted: bool,
}

impl Kind {
    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether the status has an endpoint of its own, so that ordinary writes leave it alone.
    pub fn has_status(&self) -> bool {
        self.sub.contains(&"status")
    }
}

macro_rules! kinds {
    ($($name:ident = $group:literal / $version:literal $plural:literal $id:literal $singular:literal $kind:literal
       $namespaced:literal $short:expr, $sub:expr, $counted:literal;)*) => {
        $(pub(super) static $name: Kind = Kind {
            group: $group, version: $version, plural: $plural, id: $id, singular: $singular, kind: $kind,
            namespaced: $namespaced, short: &$short, sub: &$sub, counted: $counted,
        };)*
        /// Every served resource, in the order of discovery.
        pub(super) static KINDS: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    NAMESPACES = "" / "v1" "namespaces" "namespaces" "namespace" "Namespace" false ["ns"], ["status", "finalize"], false;
    NODES = "" / "v1" "nodes" "nodes" "node" "Node" false ["no"], ["status"], false;
    PODS = "" / "v1" "pods" "pods" "pod" "Pod" true ["po"], ["status", "resize", "eviction", "binding"], true;
    CONFIG_MAPS = "" / "v1" "configmaps" "configmaps" "configmap" "ConfigMap" true ["cm"], [], false;
    SECRETS = "" / "v1" "secrets" "secrets" "secret" "Secret" true [], [], false;
    SERVICES = "" / "v1" "services" "services" "service" "Service" true ["svc"], ["status"], false;
    SERVICE_ACCOUNTS = "" / "v1" "serviceaccounts" "serviceaccounts" "serviceaccount" "ServiceAccount" true ["sa"], [], false;
    EVENTS = "" / "v1" "events" "events" "event" "Event" true ["ev"], [], false;
    LIMIT_RANGES = "" / "v1" "limitranges" "limitranges" "limitrange" "LimitRange" true ["limits"], [], false;
    QUOTAS = "" / "v1" "resourcequotas" "resourcequotas" "resourcequota" "ResourceQuota" true ["quota"], ["status"], false;
    DEPLOYMENTS = "apps" / "v1" "deployments" "deployments.apps" "deployment" "Deployment" true ["deploy"], ["status", "scale"], true;
    REPLICA_SETS = "apps" / "v1" "replicasets" "replicasets.apps" "replicaset" "ReplicaSet" true ["rs"], ["status", "scale"], true;
    STATEFUL_SETS = "apps" / "v1" "statefulsets" "statefulsets.apps" "statefulset" "StatefulSet" true ["sts"], ["status", "scale"], true;
    DAEMON_SETS = "apps" / "v1" "daemonsets" "daemonsets.apps" "daemonset" "DaemonSet" true ["ds"], ["status"], true;
    REVISIONS = "apps" / "v1" "controllerrevisions" "controllerrevisions.apps" "controllerrevision" "ControllerRevision" true [], [], false;
    BUDGETS = "policy" / "v1" "poddisruptionbudgets" "poddisruptionbudgets.policy" "poddisruptionbudget" "PodDisruptionBudget" true ["pdb"], ["status"], true;
    LEASES = "coordination.k8s.io" / "v1" "leases" "leases.coordination.k8s.io" "lease" "Lease" true [], [], false;
    AUTOSCALERS = "autoscaling" / "v2" "horizontalpodautoscalers" "horizontalpodautoscalers.autoscaling" "horizontalpodautoscaler" "HorizontalPodAutoscaler" true ["hpa"], ["status"], false;
    ACCESS_REVIEWS = "authorization.k8s.io" / "v1" "selfsubjectaccessreviews" "selfsubjectaccessreviews.authorization.k8s.io" "selfsubjectaccessreview" "SelfSubjectAccessReview" false [], [], false;
}

/// The resource of a URL.
pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|k| k.group == group && k.version == version && k.plural == plural)
}

/// The resource of a manifest.
pub(super) fn of_manifest(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    KINDS.iter().copied().find(|k| k.group == group && k.version == version && k.kind == kind)
}
