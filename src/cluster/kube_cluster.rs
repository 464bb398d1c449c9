//! The port over kube: reads with the client's own retry, writes once. Turns every answer of the API server into a value.

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Status;

use super::connect::Connection;
use super::explain;
use super::pod_watch;
use super::translate::{pod_view, resize_patch};
use super::workloads;
use super::{Cluster, ClusterError, PodChange, Resized, WriteMode};
use crate::core::pod::PodView;
use crate::core::rollout::effect::Resize;
use crate::core::rollout::observation::{Budget, ResizeAnswer};
use crate::core::workload::{Rival, WorkloadRef, WorkloadView};

/// Pods in one page of a list: about 2 MB of JSON, decoded and translated before the next page is asked for.
const PAGE: u32 = 500;

#[derive(Clone)]
pub struct KubeCluster {
    read: kube::Client,
    write: kube::Client,
    watch: kube::Client,
    field_manager: String,
}

impl KubeCluster {
    pub fn new(connection: &Connection, field_manager: &str) -> Self {
        Self {
            read: connection.read.clone(),
            write: connection.write.clone(),
            watch: connection.watch.clone(),
            field_manager: field_manager.to_owned(),
        }
    }
}

impl Cluster for KubeCluster {
    async fn workload(&self, reference: &WorkloadRef) -> Result<Option<WorkloadView>, ClusterError> {
        workloads::read(&self.read, reference).await
    }

    async fn rivals(&self, reference: &WorkloadRef) -> Vec<Rival> {
        workloads::rivals(&self.read, reference).await
    }

    async fn pods(&self, workload: &WorkloadView) -> Result<Vec<PodView>, ClusterError> {
        let api = Api::<Pod>::namespaced(self.read.clone(), &workload.reference.namespace);
        Ok(list_pods(&api, &workload.selector).await?.0)
    }

    fn watch(&self, workload: &WorkloadView) -> BoxStream<'static, PodChange> {
        let api = Api::<Pod>::namespaced(self.watch.clone(), &workload.reference.namespace);
        pod_watch::watch(api, workload.selector.clone())
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, ClusterError> {
        let api = Api::<Pod>::namespaced(self.read.clone(), namespace);
        let pod = api.get_opt(name).await.map_err(|e| ClusterError::of(format!("cannot read pod {name}"), &e))?;
        Ok(pod.as_ref().and_then(pod_view))
    }

    async fn resize(&self, namespace: &str, resize: &Resize, mode: WriteMode) -> Resized {
        let api = Api::<Pod>::namespaced(self.write.clone(), namespace);
        let params = PatchParams {
            dry_run: mode == WriteMode::DryRun,
            field_manager: Some(self.field_manager.clone()),
            ..PatchParams::default()
        };
        match api.patch_resize(&resize.name, &params, &Patch::Strategic(resize_patch(resize))).await {
            Ok(pod) => Resized { answer: ResizeAnswer::Accepted, pod: pod_view(&pod) },
            Err(kube::Error::Api(status)) => Resized { answer: refusal(&status), pod: None },
            Err(error) => Resized { answer: lost(&error), pod: None },
        }
    }

    async fn budget(&self, workload: &WorkloadView) -> Result<Budget, ClusterError> {
        let api = Api::<PodDisruptionBudget>::namespaced(self.read.clone(), &workload.reference.namespace);
        let budgets = match api.list(&ListParams::default()).await {
            Ok(budgets) => budgets,
            // The right to read budgets is optional; `check` says what is lost without it.
            Err(kube::Error::Api(status)) if status.is_forbidden() => return Ok(Budget::Unlimited),
            Err(error) => return Err(ClusterError::of("cannot list PodDisruptionBudgets", &error)),
        };
        let tightest = budgets.items.into_iter().filter_map(|budget| {
            let selector = budget.spec.as_ref()?.selector.as_ref()?;
            // A budget whose controller has not spoken yet allows nothing.
            let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default();
            workloads::selects(selector, &workload.pod_labels)
                .then(|| (usize::try_from(allowed).unwrap_or_default(), budget.metadata.name.unwrap_or_default()))
        });
        Ok(tightest.min().map_or(Budget::Unlimited, |(allowed, name)| Budget::Limited { name, allowed }))
    }
}

/// All pods of a selector, page by page, with the resourceVersion to watch from.
pub(super) async fn list_pods(api: &Api<Pod>, selector: &str) -> Result<(Vec<PodView>, String), ClusterError> {
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let page = api.list(&params).await.map_err(|e| ClusterError::of("cannot list pods", &e))?;
        pods.extend(page.items.iter().filter_map(pod_view));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((pods, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// What the API server meant. Codes and causes: research on a real 1.37 and 1.34 (docs/resize.md, "Answers").
fn refusal(status: &Status) -> ResizeAnswer {
    let message = explain::one_line(&status.message);
    let has_cause = |reason: &str| {
        status.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    };
    match status.code {
        403 if has_cause("NodeCapacity") => ResizeAnswer::NodeCapacity { message },
        401 => ResizeAnswer::Forbidden { message },
        // The authorizer names the verb and the resource; admission plugins never do.
        403 if message.contains("cannot patch resource \"pods/resize\"") => ResizeAnswer::Forbidden { message },
        422 if message.contains("metadata.uid") => ResizeAnswer::Gone,
        404 => ResizeAnswer::Gone,
        400 | 403 | 405 | 413 | 415 | 422 => ResizeAnswer::Refused { message },
        // A 500 or 504 may hide a write that was made: the engine reads the pod before anything is sent again.
        500..=599 => ResizeAnswer::Lost { message },
        _ => ResizeAnswer::Busy { message },
    }
}

fn lost(error: &kube::Error) -> ResizeAnswer {
    let message = explain::explain(error);
    match explain::call_error(error) {
        Some(call) if !call.may_have_acted() => ResizeAnswer::Busy { message },
        _ => ResizeAnswer::Lost { message },
    }
}
