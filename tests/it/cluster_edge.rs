//! Connecting to a real API server, and the rights it gives: only RBAC itself can say what docs/rbac.yaml is worth.
//! Runs when `KAPR_TEST_KUBECONFIG` names a kubeconfig of a cluster administrator.

use std::io::Write as _;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kapr::cluster::connect::{ConnectOptions, Connection, Invocation};
use kapr::cluster::environment::Environment;
use kapr::cluster::rights::{Purpose, missing_rights, rights_for, user_name};
use kapr::cluster::version::{server_version, serves_resize};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KAPR_TEST_KUBECONFIG").map(PathBuf::from);
    if path.is_none() {
        writeln!(std::io::stderr(), "skipped: no cluster (KAPR_TEST_KUBECONFIG is not set)").unwrap();
    }
    path
}

async fn connect(kubeconfig: &std::path::Path, change: impl FnOnce(&mut ConnectOptions)) -> Connection {
    let mut options = ConnectOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ConnectOptions::default() };
    change(&mut options);
    Connection::open(options, Environment::default(), Invocation::default()).await.unwrap()
}

#[tokio::test]
async fn the_server_knows_us_and_whom_we_impersonate() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let connection = connect(&kubeconfig, |_| ()).await;
    let version = server_version(&connection.read).await.unwrap();
    assert_eq!(serves_resize(&connection.read).await.unwrap(), version.supports_resize());
    assert!(connection.clock_skew().is_some());
    let me = user_name(&connection.read).await.unwrap();
    assert_ne!(me, "system:anonymous");

    let connection = connect(&kubeconfig, |options| options.impersonate.user = Some("kapr-bob".to_owned())).await;
    assert_eq!(user_name(&connection.read).await.unwrap(), "kapr-bob");
    connection.reconnect().await.unwrap();
    assert_eq!(user_name(&connection.write).await.unwrap(), "kapr-bob");
}

async fn missing(kubeconfig: &std::path::Path, namespace: &str, user: &str) -> Vec<String> {
    let connection = connect(kubeconfig, |options| options.impersonate.user = Some(user.to_owned())).await;
    let missing = missing_rights(&connection.read, namespace, &rights_for(Purpose::Rollout)).await.unwrap();
    missing.iter().map(ToString::to_string).collect()
}

async fn bind(admin: &Connection, namespace: &str, role: &str, user: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(admin.write.clone(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_namespace_admin_lacks_the_resize_until_the_document_is_applied() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let admin = connect(&kubeconfig, |_| ()).await;
    let name = format!("kapr-edge-{}", std::process::id());
    let namespaces: Api<Namespace> = Api::all(admin.write.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();

    assert!(missing(&kubeconfig, &name, "kapr-ann").await.contains(&"list pods".to_owned()));
    bind(&admin, &name, "admin", "kapr-ann").await;
    assert_eq!(missing(&kubeconfig, &name, "kapr-ann").await, ["patch pods/resize", "get nodes"]);

    let roles: Vec<ClusterRole> = serde_saphyr::from_multiple(include_str!("../../docs/rbac.yaml")).unwrap();
    let api: Api<ClusterRole> = Api::all(admin.write.clone());
    for role in roles {
        let role_name = role.metadata.name.clone().unwrap();
        api.patch(&role_name, &PatchParams::apply("kapr-test").force(), &Patch::Apply(role)).await.unwrap();
    }
    // The document alone is enough, without the role admin.
    bind(&admin, &name, "kapr-rollout", "kapr-eve").await;
    assert_eq!(missing(&kubeconfig, &name, "kapr-eve").await, ["get nodes"]);

    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
}
