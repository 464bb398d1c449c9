//! The record in a ConfigMap and the lease in a Lease, both in the workload's namespace and owned by the workload, so that
//! they go when it goes. Writes are compare-and-swap on the resourceVersion.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Listed, Store, StoreError, Stored, Subject, Version, encoding, lease};
use crate::cluster::connect::Connection;
use crate::cluster::explain;
use crate::core::journal::{Append, Folded, Record};
use crate::core::lock::LeaseView;
use crate::core::workload::{WorkloadKind, WorkloadRef};

/// The most a ConfigMap's data may hold (`MaxSecretSize`, which the API server applies to ConfigMaps too).
const LIMIT: usize = 1 << 20;

/// On every object of ours, so that `status -A` finds them with one list.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubectl-kapr");
const KIND: &str = "kapr.dev/workload-kind";
const NAME: &str = "kapr.dev/workload-name";
const UID: &str = "kapr.dev/workload-uid";

/// The store over kube.
#[derive(Clone)]
pub struct KubeStore {
    pub(super) read: kube::Client,
    pub(super) write: kube::Client,
    pub(super) field_manager: String,
}

impl KubeStore {
    pub fn new(connection: &Connection, field_manager: &str) -> Self {
        Self { read: connection.read.clone(), write: connection.write.clone(), field_manager: field_manager.to_owned() }
    }

    fn api(&self, subject: &Subject) -> Api<ConfigMap> {
        Api::namespaced(self.write.clone(), &subject.workload.namespace)
    }

    /// For reads: what passes by itself is waited for.
    fn read_api(&self, subject: &Subject) -> Api<ConfigMap> {
        Api::namespaced(self.read.clone(), &subject.workload.namespace)
    }
}

/// `kapr-deployment-web`; a name that would be too long is cut and told apart by a hash.
pub(super) fn object_name(workload: &WorkloadRef) -> String {
    const MOST: usize = 253;
    let name = format!("kapr-{}-{}", workload.kind.singular(), workload.name);
    if name.len() <= MOST {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    let tail = format!("-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
    format!("{}{tail}", name[..MOST - tail.len()].trim_end_matches(['-', '.']))
}

/// Name, labels, annotation and owner of our objects.
pub(super) fn metadata(subject: &Subject) -> ObjectMeta {
    let workload = &subject.workload;
    let owner = OwnerReference {
        api_version: WorkloadKind::API_VERSION.to_owned(),
        kind: workload.kind.name().to_owned(),
        name: workload.name.clone(),
        uid: subject.uid.clone(),
        ..OwnerReference::default()
    };
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    ObjectMeta {
        name: Some(object_name(workload)),
        namespace: Some(workload.namespace.clone()),
        labels: Some(BTreeMap::from([label(MANAGED_BY.0, MANAGED_BY.1), label(KIND, workload.kind.singular())])),
        annotations: Some(BTreeMap::from([label(NAME, &workload.name), label(UID, &subject.uid)])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

impl Store for KubeStore {
    async fn read(&self, subject: &Subject) -> Result<Stored, StoreError> {
        let found = self.read_api(subject).get_opt(&object_name(&subject.workload)).await;
        match found.map_err(|e| failure("cannot read the record", &e))? {
            None => Ok(Stored { record: Record::default(), version: Version::Absent }),
            Some(map) => stored(subject, map),
        }
    }

    async fn append(
        &self,
        subject: &Subject,
        version: &Version,
        append: &Append,
        fold: Option<&Folded>,
    ) -> Result<Version, StoreError> {
        let packed = encoding::pack(append);
        let (written, keys) = match version {
            Version::Absent => {
                let key = encoding::key(1);
                (self.create(subject, &key, packed, fold, None).await, vec![key])
            }
            Version::Foreign { resource_version } => {
                let key = encoding::key(1);
                (self.create(subject, &key, packed, fold, Some(resource_version)).await, vec![key])
            }
            Version::Present { resource_version, keys } => {
                let key = encoding::key(keys.last().and_then(|key| encoding::number(key)).unwrap_or(0) + 1);
                let patch = patch(resource_version, &key, &packed, fold.map(|folded| (folded, keys.as_slice())));
                let params = PatchParams { field_manager: Some(self.field_manager.clone()), ..PatchParams::default() };
                let name = object_name(&subject.workload);
                let answer = self.api(subject).patch(&name, &params, &Patch::Merge(patch)).await;
                let kept = if fold.is_some() { &[] } else { keys.as_slice() };
                (answer, kept.iter().cloned().chain([key]).collect())
            }
        };
        let map = written.map_err(|e| write_failure(subject, append, &e))?;
        Ok(Version::Present { resource_version: map.metadata.resource_version.unwrap_or_default(), keys })
    }

    async fn read_lease(&self, subject: &Subject) -> Result<Option<LeaseView>, StoreError> {
        lease::read(self, subject).await
    }

    async fn hold_lease(
        &self,
        subject: &Subject,
        seen: Option<&str>,
        holder: &str,
        taking: bool,
    ) -> Result<String, StoreError> {
        lease::hold(self, subject, seen, holder, taking).await
    }

    async fn release_lease(&self, subject: &Subject, seen: &str) -> Result<(), StoreError> {
        lease::release(self, subject, seen).await
    }

    async fn list(&self, namespace: Option<&str>) -> Result<Vec<Listed>, StoreError> {
        let api = match namespace {
            Some(namespace) => Api::<ConfigMap>::namespaced(self.read.clone(), namespace),
            None => Api::<ConfigMap>::all(self.read.clone()),
        };
        let params = ListParams::default().labels(&format!("{}={},{KIND}", MANAGED_BY.0, MANAGED_BY.1));
        let maps = api.list(&params).await.map_err(|e| failure("cannot list records", &e))?;
        Ok(maps
            .items
            .into_iter()
            .filter_map(|map| {
                let subject = subject_of(&map)?;
                let stored = stored(&subject, map);
                Some((subject, stored))
            })
            .collect())
    }
}

impl KubeStore {
    async fn create(
        &self,
        subject: &Subject,
        key: &str,
        packed: Vec<u8>,
        fold: Option<&Folded>,
        replaces: Option<&str>,
    ) -> kube::Result<ConfigMap> {
        let mut data = BTreeMap::from([(key.to_owned(), ByteString(packed))]);
        data.extend(fold.map(|folded| (encoding::FOLDED.to_owned(), ByteString(encoding::pack(folded)))));
        let mut map = ConfigMap { metadata: metadata(subject), binary_data: Some(data), ..ConfigMap::default() };
        let params = PostParams { field_manager: Some(self.field_manager.clone()), ..PostParams::default() };
        match replaces {
            None => self.api(subject).create(&params, &map).await,
            Some(resource_version) => {
                map.metadata.resource_version = Some(resource_version.to_owned());
                self.api(subject).replace(&object_name(&subject.workload), &params, &map).await
            }
        }
    }
}

/// A JSON merge patch: the resourceVersion makes it a compare-and-swap, `null` takes folded entries away.
fn patch(resource_version: &str, key: &str, packed: &[u8], fold: Option<(&Folded, &[String])>) -> Value {
    let mut data = serde_json::Map::new();
    if let Some((folded, keys)) = fold {
        data.extend(keys.iter().map(|key| (key.clone(), Value::Null)));
        data.insert(encoding::FOLDED.to_owned(), STANDARD.encode(encoding::pack(folded)).into());
    }
    data.insert(key.to_owned(), STANDARD.encode(packed).into());
    json!({"metadata": {"resourceVersion": resource_version}, "binaryData": data})
}

fn subject_of(map: &ConfigMap) -> Option<Subject> {
    let annotations = map.metadata.annotations.as_ref()?;
    let kind = WorkloadKind::parse(map.metadata.labels.as_ref()?.get(KIND)?)?;
    let workload =
        WorkloadRef { kind, namespace: map.metadata.namespace.clone()?, name: annotations.get(NAME)?.clone() };
    Some(Subject { workload, uid: annotations.get(UID)?.clone() })
}

fn stored(subject: &Subject, map: ConfigMap) -> Result<Stored, StoreError> {
    let resource_version = map.metadata.resource_version.clone().unwrap_or_default();
    let uid = map.metadata.annotations.as_ref().and_then(|annotations| annotations.get(UID));
    if uid.is_some_and(|uid| *uid != subject.uid) {
        return Ok(Stored { record: Record::default(), version: Version::Foreign { resource_version } });
    }
    let data = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
    let (record, keys) = encoding::decode(&data).map_err(|reason| StoreError::Unreadable {
        what: format!("the record of {} (ConfigMap {})", subject.workload, object_name(&subject.workload)),
        reason: explain::one_line(&reason),
    })?;
    Ok(Stored { record, version: Version::Present { resource_version, keys } })
}

fn write_failure(subject: &Subject, append: &Append, error: &kube::Error) -> StoreError {
    if let kube::Error::Api(status) = error
        && (status.code == 422 || status.code == 413)
    {
        let size = encoding::pack(append).len();
        return StoreError::TooLarge { what: subject.workload.to_string(), size, limit: LIMIT };
    }
    failure("cannot write the record", error)
}

/// What a failed call means for whoever wanted to read or write.
pub(super) fn failure(operation: &str, error: &kube::Error) -> StoreError {
    let (operation, reason) = (operation.to_owned(), explain::explain(error));
    match error {
        kube::Error::Api(status) if status.code == 409 || status.code == 404 => StoreError::Conflict { what: reason },
        kube::Error::Api(status) if status.is_forbidden() => StoreError::Forbidden { operation, reason },
        _ => StoreError::Unknown { operation, reason },
    }
}
