//! Names of what is in the cluster, for completion: one page each, and nothing when there is no answer.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::connect::Connection;

/// More names than this do not help on a command line.
const MOST_NAMES: u32 = 500;

/// The namespaces.
pub async fn namespaces(connection: Connection) -> Vec<String> {
    names(&Api::<Namespace>::all(connection.read), "").await
}

/// `deployment/web` and the like, in the connection's namespace.
pub async fn workloads(connection: Connection) -> Vec<String> {
    let (client, namespace) = (connection.read, connection.namespace);
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    let stateful_sets = Api::<StatefulSet>::namespaced(client.clone(), &namespace);
    let daemon_sets = Api::<DaemonSet>::namespaced(client, &namespace);
    let (mut all, more, rest) = tokio::join!(
        names(&deployments, "deployment/"),
        names(&stateful_sets, "statefulset/"),
        names(&daemon_sets, "daemonset/"),
    );
    all.extend(more);
    all.extend(rest);
    all
}

/// `pod/web-0` and the like, in the connection's namespace.
pub async fn pods(connection: Connection) -> Vec<String> {
    names(&Api::<Pod>::namespaced(connection.read, &connection.namespace), "pod/").await
}

async fn names<K>(api: &Api<K>, prefix: &str) -> Vec<String>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let list = api.list_metadata(&ListParams::default().limit(MOST_NAMES)).await;
    let items = list.map(|list| list.items).unwrap_or_default();
    items.into_iter().filter_map(|item| item.metadata.name).map(|name| format!("{prefix}{name}")).collect()
}
