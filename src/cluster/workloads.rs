//! Reading workloads of `apps/v1`, who owns their pods, and who else acts on them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::core::{Expression, Selector, SelectorExt};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::ClusterError;
use super::translate::template_resources;
use crate::core::workload::{Rival, WorkloadKind, WorkloadRef, WorkloadView};

/// The label that tells pods of one template from those of another, for everything but ReplicaSets.
const REVISION_HASH: &str = "controller-revision-hash";

/// Reads a workload; `None` when there is none of that name.
pub async fn read(client: &Client, reference: &WorkloadRef) -> Result<Option<WorkloadView>, ClusterError> {
    match reference.kind {
        WorkloadKind::Deployment => deployment(client, reference).await,
        WorkloadKind::StatefulSet => {
            let Some(set) = get::<StatefulSet>(client, reference).await? else { return Ok(None) };
            let spec = set.spec;
            let mut view = view(reference, &set.metadata, &spec.selector, Some(&spec.template), spec.replicas);
            view.template_hash = set.status.and_then(|status| status.update_revision);
            Ok(Some(view))
        }
        WorkloadKind::DaemonSet => {
            let Some(set) = get::<DaemonSet>(client, reference).await? else { return Ok(None) };
            let spec = set.spec;
            let wanted = set.status.map(|status| status.desired_number_scheduled);
            let mut view = view(reference, &set.metadata, &spec.selector, Some(&spec.template), wanted);
            view.template_hash = newest_revision(client, &view).await;
            Ok(Some(view))
        }
        WorkloadKind::ReplicaSet => {
            let Some(set) = get::<ReplicaSet>(client, reference).await? else { return Ok(None) };
            let spec = set.spec;
            Ok(Some(view(reference, &set.metadata, &spec.selector, spec.template.as_ref(), spec.replicas)))
        }
    }
}

async fn get<K>(client: &Client, reference: &WorkloadRef) -> Result<Option<K>, ClusterError>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), &reference.namespace);
    api.get_opt(&reference.name)
        .await
        .map_err(|e| ClusterError::of(format!("cannot read {reference} in namespace {}", reference.namespace), &e))
}

async fn deployment(client: &Client, reference: &WorkloadRef) -> Result<Option<WorkloadView>, ClusterError> {
    let Some(deployment) = get::<Deployment>(client, reference).await? else { return Ok(None) };
    let spec = deployment.spec;
    let mut view = view(reference, &deployment.metadata, &spec.selector, Some(&spec.template), spec.replicas);
    let api = Api::<ReplicaSet>::namespaced(client.clone(), &reference.namespace);
    let sets = api
        .list(&ListParams::default().labels(&view.selector))
        .await
        .map_err(|e| ClusterError::of(format!("cannot list the ReplicaSets of {reference}"), &e))?;
    let owned = sets.items.into_iter().filter(|set| is_owned_by(&set.metadata, &view.uid)).collect::<Vec<_>>();
    view.pod_owners = owned.iter().filter_map(|set| set.metadata.uid.clone()).collect();
    let newest = owned.iter().max_by_key(|set| revision_number(&set.metadata));
    view.template_hash = newest.and_then(|set| set.metadata.labels.as_ref()?.get("pod-template-hash").cloned());
    Ok(Some(view))
}

fn is_owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.as_deref().unwrap_or_default().iter().any(|o| o.controller == Some(true) && o.uid == uid)
}

fn revision_number(meta: &ObjectMeta) -> u64 {
    let text = meta.annotations.as_ref().and_then(|all| all.get("deployment.kubernetes.io/revision"));
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The hash of a DaemonSet's newest template. Not being allowed to know it is no error: nothing depends on it but
/// `--only-current`.
async fn newest_revision(client: &Client, view: &WorkloadView) -> Option<String> {
    let api = Api::<ControllerRevision>::namespaced(client.clone(), &view.reference.namespace);
    let revisions = api.list(&ListParams::default().labels(&view.selector)).await.ok()?;
    let own = revisions.items.into_iter().filter(|revision| is_owned_by(&revision.metadata, &view.uid));
    own.max_by_key(|revision| revision.revision)?.metadata.labels?.get(REVISION_HASH).cloned()
}

fn view(
    reference: &WorkloadRef,
    meta: &ObjectMeta,
    selector: &LabelSelector,
    template: Option<&PodTemplateSpec>,
    replicas: Option<i32>,
) -> WorkloadView {
    let uid = meta.uid.clone().unwrap_or_default();
    let spec = template.and_then(|template| template.spec.as_ref());
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let labels = template.and_then(|template| template.metadata.as_ref()).and_then(|meta| meta.labels.clone());
    WorkloadView {
        reference: reference.clone(),
        pod_owners: BTreeSet::from([uid.clone()]),
        uid,
        terminating: meta.deletion_timestamp.is_some(),
        replicas: replicas.and_then(|n| u64::try_from(n).ok()).unwrap_or(1),
        template: template_resources(spec.map(|spec| spec.containers.as_slice()).unwrap_or_default(), init),
        template_hash: meta.labels.as_ref().and_then(|labels| labels.get("pod-template-hash").cloned()),
        selector: selector_text(selector),
        pod_labels: labels.unwrap_or_default(),
        rivals: Vec::new(),
    }
}

/// The selector as the API server takes it in a query.
fn selector_text(selector: &LabelSelector) -> String {
    parse(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// Whether a label selector picks these labels. One that cannot be read picks nothing; an empty one picks everything.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    parse(selector).is_some_and(|selector| selector.matches(labels))
}

fn parse(selector: &LabelSelector) -> Option<Selector> {
    let equals = selector.match_labels.clone().unwrap_or_default().into_iter();
    let mut all = equals.map(|(key, value)| Expression::Equal(key, value)).collect::<Vec<_>>();
    for wanted in selector.match_expressions.as_deref().unwrap_or_default() {
        let (key, values) = (wanted.key.clone(), wanted.values.clone().unwrap_or_default().into_iter().collect());
        all.push(match wanted.operator.as_str() {
            "In" => Expression::In(key, values),
            "NotIn" => Expression::NotIn(key, values),
            "Exists" => Expression::Exists(key),
            "DoesNotExist" => Expression::DoesNotExist(key),
            _ => return None,
        });
    }
    Some(all.into_iter().collect())
}

/// Other controllers that act on the same resources. What may not be read, or is not installed, is not there.
pub async fn rivals(client: &Client, reference: &WorkloadRef) -> Vec<Rival> {
    let mut rivals = scalers(client, reference).await;
    rivals.extend(vertical_scalers(client, reference).await);
    rivals
}

async fn scalers(client: &Client, reference: &WorkloadRef) -> Vec<Rival> {
    let api = Api::<HorizontalPodAutoscaler>::namespaced(client.clone(), &reference.namespace);
    let Ok(list) = api.list(&ListParams::default()).await else { return Vec::new() };
    list.items
        .into_iter()
        .filter_map(|hpa| {
            let spec = hpa.spec;
            let target = &spec.scale_target_ref;
            let ours = target.kind == reference.kind.name() && target.name == reference.name;
            let scales_on = |resource: &str| {
                spec.metrics.iter().flatten().any(|metric| {
                    let by_pod =
                        metric.resource.as_ref().is_some_and(|m| m.name == resource && m.target.type_ == "Utilization");
                    let by_container = metric
                        .container_resource
                        .as_ref()
                        .is_some_and(|m| m.name == resource && m.target.type_ == "Utilization");
                    by_pod || by_container
                })
            };
            let (cpu, memory) = (scales_on("cpu"), scales_on("memory"));
            (ours && (cpu || memory)).then_some(Rival::Hpa { name: hpa.metadata.name?, cpu, memory })
        })
        .collect()
}

async fn vertical_scalers(client: &Client, reference: &WorkloadRef) -> Vec<Rival> {
    let kind = GroupVersionKind::gvk("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler");
    let resource = ApiResource::from_gvk_with_plural(&kind, "verticalpodautoscalers");
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &reference.namespace, &resource);
    let Ok(list) = api.list(&ListParams::default()).await else { return Vec::new() };
    list.items
        .into_iter()
        .filter_map(|vpa| {
            let target = vpa.data.pointer("/spec/targetRef")?;
            let ours = target.get("kind")?.as_str()? == reference.kind.name()
                && target.get("name")?.as_str()? == reference.name;
            // An absent mode is the default, which acts on pods.
            let mode = vpa.data.pointer("/spec/updatePolicy/updateMode").and_then(|m| m.as_str()).unwrap_or("Recreate");
            ours.then(|| Rival::Vpa { name: vpa.metadata.name.unwrap_or_default(), mode: mode.to_owned() })
        })
        .collect()
}
