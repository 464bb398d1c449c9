//! The lease of a workload: who is alive. Written by compare-and-swap, judged in `core/lock.rs`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::configmap::{KubeStore, failure, metadata, object_name};
use super::{StoreError, Subject};
use crate::core::lock::{LEASE_DURATION, LeaseView};

fn api(store: &KubeStore, subject: &Subject) -> Api<Lease> {
    Api::namespaced(store.write.clone(), &subject.workload.namespace)
}

pub(super) async fn read(store: &KubeStore, subject: &Subject) -> Result<Option<LeaseView>, StoreError> {
    let api = Api::<Lease>::namespaced(store.read.clone(), &subject.workload.namespace);
    let lease = api.get_opt(&object_name(&subject.workload)).await;
    Ok(lease.map_err(|e| failure("cannot read the lease", &e))?.map(view))
}

fn view(lease: Lease) -> LeaseView {
    let spec = lease.spec.unwrap_or_default();
    LeaseView {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        version: lease.metadata.resource_version.unwrap_or_default(),
        duration: spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(LEASE_DURATION, Duration::from_secs),
        acquired_at: spec.acquire_time.map(|time| time.0),
        renewed_at: spec.renew_time.map(|time| time.0),
    }
}

pub(super) async fn hold(
    store: &KubeStore,
    subject: &Subject,
    seen: Option<&str>,
    holder: &str,
    taking: bool,
) -> Result<String, StoreError> {
    // For people who read the lease; nobody decides by it.
    let now = MicroTime(Timestamp::now());
    let seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
    let written = match seen {
        None => {
            let spec = LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: seconds,
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            };
            let lease = Lease { metadata: metadata(subject), spec: Some(spec) };
            let params = PostParams { field_manager: Some(store.field_manager.clone()), ..PostParams::default() };
            api(store, subject).create(&params, &lease).await
        }
        Some(version) => {
            let mut spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now});
            if taking {
                spec["acquireTime"] = json!(now);
            }
            change(store, subject, version, &json!({"spec": spec})).await
        }
    };
    let lease = written.map_err(|e| failure("cannot take the lease", &e))?;
    Ok(lease.metadata.resource_version.unwrap_or_default())
}

/// An empty holder means free; the object stays, so that a later holder does not need the right to create it.
pub(super) async fn release(store: &KubeStore, subject: &Subject, seen: &str) -> Result<(), StoreError> {
    let body = json!({"spec": {"holderIdentity": null, "acquireTime": null}});
    change(store, subject, seen, &body).await.map(drop).map_err(|e| failure("cannot release the lease", &e))
}

async fn change(store: &KubeStore, subject: &Subject, version: &str, body: &serde_json::Value) -> kube::Result<Lease> {
    let mut body = body.clone();
    let meta = metadata(subject);
    // A lease left by a deleted workload of the same name becomes this workload's.
    body["metadata"] =
        json!({"resourceVersion": version, "annotations": meta.annotations, "ownerReferences": meta.owner_references});
    let params = PatchParams { field_manager: Some(store.field_manager.clone()), ..PatchParams::default() };
    api(store, subject).patch(&object_name(&subject.workload), &params, &Patch::Merge(body)).await
}
