//! Which rights kapr needs and why, which of them the user lacks, and the RBAC objects that would grant them.
//! May not: decide whether a missing right stops a command.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest as _, Sha256};

use super::explain::Failure;

/// What a right is for. Each has its own `ClusterRole` in `docs/rbac.yaml`, because their reach differs: evicting can
/// delete any pod of the namespace, persisting can change any object of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// `rollout`, `plan`, `status`, `resume`, `rollback`, `abort`, `history`.
    Rollout,
    /// `evict` and `rollout --on-deferred evict`.
    Evict,
    /// `rollout --persist` and `persist`.
    Persist,
}

/// One verb on one resource, in RBAC's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub purpose: Purpose,
    /// Empty for the core group.
    pub group: &'static str,
    pub resource: &'static str,
    /// Empty for the resource itself.
    pub subresource: &'static str,
    pub verb: &'static str,
    /// Whether a Role of the namespace can grant it.
    pub namespaced: bool,
    /// Whether the purpose fails without it; otherwise less is known or less is offered.
    pub required: bool,
    /// What kapr does with it.
    pub why: &'static str,
}

impl Right {
    /// `pods/resize`, as RBAC rules name it.
    pub fn resource_path(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// The resource as kubectl names it: `pods/resize`, `deployments.apps`.
    pub fn target(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let subresource = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        format!("{}{group}{subresource}", self.resource)
    }
}

impl fmt::Display for Right {
    /// `patch pods/resize` or `get deployments.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target())
    }
}

/// One line of the table below: verbs on one resource for one reason.
struct Need {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verbs: &'static [&'static str],
    namespaced: bool,
    required: bool,
    why: &'static str,
}

const fn need(
    resource: (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
    why: &'static str,
) -> Need {
    let (group, resource, subresource) = resource;
    Need { group, resource, subresource, verbs, namespaced: true, required: true, why }
}

const fn optional(mut need: Need) -> Need {
    need.required = false;
    need
}

const fn cluster_wide(mut need: Need) -> Need {
    need.namespaced = false;
    need
}

const READ: &[&str] = &["get", "list", "watch"];
const LIST: &[&str] = &["list"];

const ROLLOUT: &[Need] = &[
    need(("", "pods", ""), READ, "see what the pods have and what became of a resize"),
    need(("", "pods", "resize"), &["patch"], "resize running pods; none of the roles view, edit and admin has it"),
    need(("apps", "deployments", ""), &["get"], "find the pods of a Deployment"),
    need(("apps", "statefulsets", ""), &["get"], "find the pods of a StatefulSet"),
    need(("apps", "daemonsets", ""), &["get"], "find the pods of a DaemonSet"),
    need(("apps", "replicasets", ""), &["get", "list"], "tell the pods of the current template from older ones"),
    need(("", "configmaps", ""), &["get", "list", "create", "update", "patch"], "keep the record of a run"),
    need(("coordination.k8s.io", "leases", ""), &["get", "create", "update", "patch"], "keep two runs apart"),
    optional(need(("", "configmaps", ""), &["delete"], "remove old records")),
    optional(need(("", "limitranges", ""), LIST, "see a LimitRange before the server refuses")),
    optional(need(("", "resourcequotas", ""), LIST, "see a ResourceQuota before the server refuses")),
    optional(need(("policy", "poddisruptionbudgets", ""), LIST, "keep budgets when a resize restarts containers")),
    optional(need(
        ("autoscaling", "horizontalpodautoscalers", ""),
        LIST,
        "notice an autoscaler that works on the same resource",
    )),
    optional(need(("", "events", ""), LIST, "say why a resize was refused")),
    optional(cluster_wide(need(("", "nodes", ""), &["get"], "tell whether a target fits the pod's node"))),
];

const EVICT: &[Need] = &[
    need(("", "pods", "eviction"), &["create"], "evict pods"),
    optional(need(("policy", "poddisruptionbudgets", ""), &["get", "list"], "name the budget that blocks")),
    optional(need(
        ("lifecycle.k8s.io", "evictionrequests", ""),
        &["get", "list", "watch", "create", "patch", "delete"],
        "ask responders for a graceful eviction",
    )),
    optional(need(("lifecycle.k8s.io", "evictions", ""), READ, "follow a graceful eviction")),
    optional(need(
        ("lifecycle.k8s.io", "evictions", ""),
        &["create", "patch"],
        "drive a graceful eviction where no controller does",
    )),
    optional(need(("lifecycle.k8s.io", "evictions", "status"), &["patch"], "answer as a responder, or drive")),
    optional(need(("lifecycle.k8s.io", "evictionrequests", "status"), &["patch"], "drive a graceful eviction")),
];

const AUTHOR: &[&str] = &["get", "list", "create", "update", "patch", "delete"];
const ADMISSION: &str = "admissionregistration.k8s.io";

const PERSIST: &[Need] = &[
    cluster_wide(need((ADMISSION, "mutatingadmissionpolicies", ""), AUTHOR, "put the values into the next template")),
    cluster_wide(need(
        (ADMISSION, "mutatingadmissionpolicybindings", ""),
        AUTHOR,
        "put the values into the next template",
    )),
    need(("apps", "deployments", ""), &["patch"], "prove with a dry run that the policy of a Deployment works"),
    need(("apps", "statefulsets", ""), &["patch"], "prove with a dry run that the policy of a StatefulSet works"),
    need(("apps", "daemonsets", ""), &["patch"], "prove with a dry run that the policy of a DaemonSet works"),
];

/// The rights of a purpose, one per verb, in the order in which a run uses them.
pub fn rights_for(purpose: Purpose) -> Vec<Right> {
    let needs = match purpose {
        Purpose::Rollout => ROLLOUT,
        Purpose::Evict => EVICT,
        Purpose::Persist => PERSIST,
    };
    needs
        .iter()
        .flat_map(|need| {
            need.verbs.iter().map(|verb| Right {
                purpose,
                group: need.group,
                resource: need.resource,
                subresource: need.subresource,
                verb,
                namespaced: need.namespaced,
                required: need.required,
                why: need.why,
            })
        })
        .collect()
}

/// So many questions are on their way at once: enough to hide the latency, few enough not to be throttled.
const QUESTIONS_AT_ONCE: usize = 10;

/// Those of `rights` that the user lacks, in the order given. Asks the server once for each, with the subresource in
/// its own field: without that `patch pods/resize` is read as a pod named "resize" and an admin is told yes.
pub async fn missing_rights(client: &kube::Client, namespace: &str, rights: &[Right]) -> Result<Vec<Right>, Failure> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let ask = |right: Right| {
        let reviews = reviews.clone();
        async move {
            let answer = reviews.create(&PostParams::default(), &question(&right, namespace)).await;
            let answer = answer.map_err(|error| Failure::new(format!("ask for the right to {right}"), &error))?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok((!allowed).then_some(right))
        }
    };
    let answers = futures::stream::iter(rights.iter().copied()).map(ask).buffered(QUESTIONS_AT_ONCE);
    answers.try_filter_map(|missing| async move { Ok(missing) }).try_collect().await
}

fn question(right: &Right, namespace: &str) -> SelfSubjectAccessReview {
    let attributes = ResourceAttributes {
        group: Some(right.group.to_owned()),
        resource: Some(right.resource.to_owned()),
        subresource: Some(right.subresource.to_owned()).filter(|name| !name.is_empty()),
        verb: Some(right.verb.to_owned()),
        namespace: right.namespaced.then(|| namespace.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

/// Whom the server takes us for, impersonation included: the name an RBAC binding needs.
pub async fn user_name(client: &kube::Client) -> Result<String, Failure> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let answer = answer.map_err(|error| Failure::new("ask the server who we are", &error))?;
    let info = answer.status.and_then(|status| status.user_info);
    Ok(info.and_then(|info| info.username).unwrap_or_else(|| "system:anonymous".to_owned()))
}

/// The RBAC objects that give exactly these rights to `user` (a name as the server knows it) in `namespace`: a Role and
/// its binding, and the same for the whole cluster for what is not in a namespace.
///
/// The objects are named after their content, so that applying a second grant does not take the first away.
pub fn grant_yaml(rights: &[Right], namespace: &str, user: &str) -> String {
    let (inside, outside): (Vec<Right>, Vec<Right>) = rights.iter().copied().partition(|right| right.namespaced);
    let mut documents = Vec::new();
    if !inside.is_empty() {
        let name = grant_name(&inside, user);
        documents.push(role("Role", &name, Some(namespace), &inside));
        documents.push(binding("Role", &name, Some(namespace), user));
    }
    if !outside.is_empty() {
        let name = grant_name(&outside, user);
        documents.push(role("ClusterRole", &name, None, &outside));
        documents.push(binding("ClusterRole", &name, None, user));
    }
    documents.join("---\n")
}

/// `docs/rbac.yaml`: every right kapr can use, as roles to bind.
pub fn reference_yaml() -> String {
    let rollout = rights_for(Purpose::Rollout);
    let (inside, nodes): (Vec<Right>, Vec<Right>) = rollout.into_iter().partition(|right| right.namespaced);
    let mut text = String::from(
        "# The rights kubectl-kapr can use, generated from the list in the code (`kubectl kapr check` asks for the same).\n\
         # Bind kapr-rollout in each namespace where pods are resized:\n\
         #   kubectl create rolebinding kapr-rollout --clusterrole=kapr-rollout --user=NAME -n NAMESPACE\n\
         # kapr-nodes (one ClusterRoleBinding) lets plans tell whether a target fits its node.\n\
         # kapr-evict can delete any pod of the namespace it is bound in; kapr-persist can change any object of the\n\
         # cluster at admission. Bind them only to those who may.\n",
    );
    let roles = [
        ("kapr-rollout", inside),
        ("kapr-nodes", nodes),
        ("kapr-evict", rights_for(Purpose::Evict)),
        ("kapr-persist", rights_for(Purpose::Persist)),
    ];
    let documents: Vec<String> = roles.iter().map(|(name, rights)| role("ClusterRole", name, None, rights)).collect();
    text.push_str(&documents.join("---\n"));
    text
}

fn grant_name(rights: &[Right], user: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(user);
    for right in rights {
        hash.update(format!("\n{right}"));
    }
    let digest = hash.finalize();
    format!("kapr-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rights: &[Right]) -> String {
    format!("{}rules:\n{}", head(kind, name, namespace), rules(rights))
}

/// The order in which rules name verbs.
const ORDER: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// Rules with one line per resource, resources with the same verbs together.
fn rules(rights: &[Right]) -> String {
    let mut verbs: BTreeMap<(&str, String), BTreeSet<usize>> = BTreeMap::new();
    for right in rights {
        let place = ORDER.iter().position(|verb| *verb == right.verb).unwrap_or(ORDER.len() - 1);
        verbs.entry((right.group, right.resource_path())).or_default().insert(place);
    }
    let mut rules: BTreeMap<(&str, BTreeSet<usize>), Vec<String>> = BTreeMap::new();
    for ((group, resource), places) in verbs {
        rules.entry((group, places)).or_default().push(resource);
    }
    let list = |items: &[String]| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ");
    let rule = |((group, places), resources): ((&str, BTreeSet<usize>), Vec<String>)| {
        let verbs: Vec<String> = places.into_iter().map(|place| ORDER[place].to_owned()).collect();
        let (resources, verbs) = (list(&resources), list(&verbs));
        format!("- apiGroups: [{group:?}]\n  resources: [{resources}]\n  verbs: [{verbs}]\n")
    };
    rules.into_iter().map(rule).collect::<Vec<_>>().concat()
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, user: &str) -> String {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let subject = match account {
        Some((namespace, account)) => {
            format!("- kind: ServiceAccount\n  name: {account}\n  namespace: {namespace}\n")
        }
        // A JSON string is a YAML string whatever the name holds.
        None => {
            format!("- apiGroup: rbac.authorization.k8s.io\n  kind: User\n  name: {}\n", serde_json::Value::from(user))
        }
    };
    format!(
        "{}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\nsubjects:\n{subject}",
        head(&format!("{kind}Binding"), name, namespace)
    )
}

fn head(kind: &str, name: &str, namespace: Option<&str>) -> String {
    let namespace = namespace.map_or_else(String::new, |namespace| format!("  namespace: {namespace}\n"));
    format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(text: &str) -> Right {
        let purposes = [Purpose::Rollout, Purpose::Evict, Purpose::Persist];
        let mut all = purposes.into_iter().flat_map(rights_for);
        all.find(|right| right.to_string() == text).unwrap()
    }

    #[test]
    fn rights_are_listed_once_per_purpose() {
        for purpose in [Purpose::Rollout, Purpose::Evict, Purpose::Persist] {
            let rights = rights_for(purpose);
            let distinct: BTreeSet<String> = rights.iter().map(ToString::to_string).collect();
            assert_eq!(rights.len(), distinct.len(), "{purpose:?}");
        }
    }

    #[test]
    fn the_subresource_has_its_own_field() {
        let asked = question(&right("patch pods/resize"), "shop").spec.resource_attributes.unwrap();
        assert_eq!(asked.resource.as_deref(), Some("pods"));
        assert_eq!(asked.subresource.as_deref(), Some("resize"));
        assert_eq!(asked.namespace.as_deref(), Some("shop"));
        let asked = question(&right("get nodes"), "shop").spec.resource_attributes.unwrap();
        assert_eq!((asked.subresource, asked.namespace), (None, None));
    }

    #[test]
    fn a_grant_holds_exactly_what_was_missing() {
        let rights = ["get pods", "list pods", "patch pods/resize", "get nodes", "get deployments.apps"].map(right);
        insta::assert_snapshot!(grant_yaml(&rights, "shop", "o'hara: \"x\""), @r#"
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata:
          name: kapr-bf7b28b6
          namespace: shop
        rules:
        - apiGroups: [""]
          resources: ["pods"]
          verbs: ["get", "list"]
        - apiGroups: [""]
          resources: ["pods/resize"]
          verbs: ["patch"]
        - apiGroups: ["apps"]
          resources: ["deployments"]
          verbs: ["get"]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata:
          name: kapr-bf7b28b6
          namespace: shop
        roleRef:
          apiGroup: rbac.authorization.k8s.io
          kind: Role
          name: kapr-bf7b28b6
        subjects:
        - apiGroup: rbac.authorization.k8s.io
          kind: User
          name: "o'hara: \"x\""
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata:
          name: kapr-a42ebe79
        rules:
        - apiGroups: [""]
          resources: ["nodes"]
          verbs: ["get"]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata:
          name: kapr-a42ebe79
        roleRef:
          apiGroup: rbac.authorization.k8s.io
          kind: ClusterRole
          name: kapr-a42ebe79
        subjects:
        - apiGroup: rbac.authorization.k8s.io
          kind: User
          name: "o'hara: \"x\""
        "#);
    }

    #[test]
    fn a_service_account_is_a_subject_of_its_own_kind() {
        let yaml = grant_yaml(&[right("get pods")], "shop", "system:serviceaccount:ci:deployer");
        assert!(yaml.ends_with("- kind: ServiceAccount\n  name: deployer\n  namespace: ci\n"), "{yaml}");
        assert!(!yaml.contains("ClusterRole"));
    }

    #[test]
    fn the_document_is_the_list() {
        let document = include_str!("../../docs/rbac.yaml");
        assert_eq!(document, reference_yaml(), "write docs/rbac.yaml anew with `kubectl-kapr reference --dir docs`");
    }
}
