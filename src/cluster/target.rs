//! From the chosen kubeconfig entries and the flags to a [`kube::Config`].
//!
//! The `Config` is filled field by field: `Config::from_custom_kubeconfig` parses `NO_PROXY` on its way and fails on
//! a trailing comma, and `Config::infer` falls back to the pod's service account without saying so.
//! May not: make clients.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use http::Uri;
use kube::config::{AuthInfo, Cluster, KubeconfigError, LoadDataError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::connect::{ConnectError, ConnectOptions, Impersonation};
use super::environment::Environment;
use super::{explain, kubeconfig, proxy};

/// Everything about the server and us that is known before the first call.
#[derive(Debug)]
pub struct Target {
    pub config: kube::Config,
    pub context: Option<String>,
    pub cluster_name: Option<String>,
    /// Without credentials.
    pub server_url: String,
    /// Without credentials.
    pub proxy: Option<String>,
    /// Whom the log-in is for, as a message names it: `user "ann"`.
    pub login: String,
    /// The user for headers and records: `ann`, `ann as bob`.
    pub user: String,
}

/// Works out the target. The pod's service account is used only when there is no kubeconfig at all and no flag names
/// a cluster.
pub fn resolve(options: &ConnectOptions, environment: &Environment) -> Result<Target, ConnectError> {
    let loaded = kubeconfig::load(options, environment)?;
    let names_nothing = options.server.is_none() && options.cluster.is_none() && options.context.is_none();
    if loaded.files.is_empty() && names_nothing && environment.in_cluster {
        return in_cluster(options, environment);
    }
    let mut chosen = kubeconfig::choose(&loaded, options)?;
    override_cluster(&mut chosen.cluster, options);
    override_user(&mut chosen.user, options);
    let uri = server_uri(&chosen.cluster, &chosen.user, chosen.cluster_name.as_deref())?;
    let owner =
        chosen.cluster_name.as_ref().map_or_else(|| "the flags".to_owned(), |name| format!("cluster \"{name}\""));

    let mut config = kube::Config::new(uri.clone());
    config.root_cert = root_certificates(&chosen.cluster, &owner)?;
    config.tls_server_name.clone_from(&chosen.cluster.tls_server_name);
    config.proxy_url = proxy::choose(&uri, chosen.cluster.proxy_url.as_deref(), environment)?;
    config.default_namespace = chosen.namespace.unwrap_or_else(|| "default".to_owned());
    if let Some(exec) = chosen.user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        let info = (&chosen.cluster).try_into();
        exec.cluster = Some(info.map_err(|error| translate_config(&error, &owner))?);
    }
    config.auth_info = chosen.user;
    config.accept_invalid_certs = chosen.cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = chosen.cluster.disable_compression.unwrap_or(false);
    finish(&mut config, options);
    Ok(Target {
        proxy: config.proxy_url.as_ref().map(shown),
        config,
        login: login(options, chosen.user_name.as_deref()),
        context: chosen.context,
        cluster_name: chosen.cluster_name,
        server_url: shown(&uri),
        user: user_label(options, chosen.user_name.as_deref()),
    })
}

fn in_cluster(options: &ConnectOptions, environment: &Environment) -> Result<Target, ConnectError> {
    let mut config =
        kube::Config::incluster().map_err(|error| ConnectError::InCluster { reason: explain::chain(&error) })?;
    config.proxy_url = proxy::choose(&config.cluster_url, None, environment)?;
    override_user(&mut config.auth_info, options);
    config.accept_invalid_certs = options.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = options.disable_compression.unwrap_or(false);
    finish(&mut config, options);
    let server_url = shown(&config.cluster_url);
    let pod = "the service account of this pod";
    Ok(Target {
        proxy: config.proxy_url.as_ref().map(shown),
        config,
        context: None,
        cluster_name: None,
        server_url,
        login: pod.to_owned(),
        user: user_label(options, Some(pod)),
    })
}

/// What holds for every config: no hidden retry (it turns a refusal into silence; `link` retries where that is right)
/// and a connect limit that is not longer than the call's.
fn finish(config: &mut kube::Config, options: &ConnectOptions) {
    if let Some(namespace) = &options.namespace {
        config.default_namespace.clone_from(namespace);
    }
    config.default_retry = false;
    config.connect_timeout = match (config.connect_timeout, options.request_timeout) {
        (Some(connect), Some(request)) => Some(connect.min(request)),
        (connect, _) => connect,
    };
}

fn override_cluster(cluster: &mut Cluster, options: &ConnectOptions) {
    if let Some(server) = &options.server {
        cluster.server = Some(server.clone());
        // The name in the kubeconfig belongs to the kubeconfig's server; client-go drops it too.
        cluster.tls_server_name = None;
    }
    if let Some(name) = &options.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
    if let Some(path) = &options.certificate_authority {
        cluster.certificate_authority_data = None;
        cluster.certificate_authority = Some(path.display().to_string());
    }
    cluster.insecure_skip_tls_verify = options.insecure_skip_tls_verify.or(cluster.insecure_skip_tls_verify);
    cluster.disable_compression = options.disable_compression.or(cluster.disable_compression);
}

/// `--token` and `--client-certificate` replace every other way to log in: the server prefers a client certificate to
/// a token, and kube runs a credential plugin whose answer nobody wants.
fn override_user(user: &mut AuthInfo, options: &ConnectOptions) {
    if options.token.is_some() || options.client_certificate.is_some() {
        *user = AuthInfo {
            impersonate: user.impersonate.take(),
            impersonate_uid: user.impersonate_uid.take(),
            impersonate_groups: user.impersonate_groups.take(),
            impersonate_user_extra: user.impersonate_user_extra.take(),
            ..AuthInfo::default()
        };
    }
    let text = |path: &PathBuf| path.display().to_string();
    user.token = options.token.clone().map(Into::into).or(user.token.take());
    if let Some(certificate) = &options.client_certificate {
        user.client_certificate = Some(text(certificate));
        user.client_certificate_data = None;
    }
    if let Some(key) = &options.client_key {
        user.client_key = Some(text(key));
        user.client_key_data = None;
    }
    impersonate(user, &options.impersonate);
}

fn impersonate(user: &mut AuthInfo, wanted: &Impersonation) {
    if let Some(name) = &wanted.user {
        user.impersonate = Some(name.clone());
    }
    if let Some(uid) = &wanted.uid {
        user.impersonate_uid = Some(uid.clone());
    }
    if !wanted.groups.is_empty() {
        user.impersonate_groups = Some(wanted.groups.clone());
    }
    if !wanted.extras.is_empty() {
        let mut extras: HashMap<String, Vec<String>> = HashMap::new();
        for (key, value) in &wanted.extras {
            extras.entry(key.clone()).or_default().push(value.clone());
        }
        user.impersonate_user_extra = Some(extras);
    }
}

/// Without a scheme client-go takes https if anything about TLS is configured, else http.
fn server_uri(cluster: &Cluster, user: &AuthInfo, name: Option<&str>) -> Result<Uri, ConnectError> {
    let server = cluster.server.as_deref().map(str::trim).filter(|server| !server.is_empty());
    let Some(server) = server else {
        return Err(ConnectError::NoServer { cluster: name.unwrap_or_default().to_owned() });
    };
    let tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true)
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some();
    let full = match server.contains("://") {
        true => server.to_owned(),
        false if tls => format!("https://{server}"),
        false => format!("http://{server}"),
    };
    let refuse = || ConnectError::BadServer { server: proxy::without_credentials(server) };
    let uri: Uri = full.parse().map_err(|_| refuse())?;
    let usable = matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some_and(|host| !host.is_empty());
    if usable { Ok(uri) } else { Err(refuse()) }
}

fn root_certificates(cluster: &Cluster, owner: &str) -> Result<Option<Vec<Vec<u8>>>, ConnectError> {
    let pem = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) if !data.is_empty() => {
            let bad = |_| bad_data("certificate-authority-data", owner, "is not base64");
            base64::engine::general_purpose::STANDARD.decode(data.trim()).map_err(bad)?
        }
        (_, Some(path)) if !path.is_empty() => read_file("certificate authority", Path::new(path))?,
        _ => return Ok(None),
    };
    let bad = || bad_data("certificate authority", owner, "holds no PEM certificate");
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates: Vec<Vec<u8>> = certificates.map_err(|_| bad())?.iter().map(|der| der.to_vec()).collect();
    if certificates.is_empty() { Err(bad()) } else { Ok(Some(certificates)) }
}

fn read_file(what: &'static str, path: &Path) -> Result<Vec<u8>, ConnectError> {
    std::fs::read(path).map_err(|source| ConnectError::File { what, path: path.to_owned(), source })
}

fn bad_data(what: &'static str, owner: &str, reason: &str) -> ConnectError {
    ConnectError::BadData { what, owner: owner.to_owned(), reason: reason.to_owned() }
}

fn shown(uri: &Uri) -> String {
    proxy::without_credentials(&uri.to_string()).trim_end_matches('/').to_owned()
}

fn login(options: &ConnectOptions, user_name: Option<&str>) -> String {
    if options.client_certificate.is_some() {
        "--client-certificate".to_owned()
    } else {
        user_name.map_or_else(|| "the anonymous user".to_owned(), |name| format!("user \"{name}\""))
    }
}

fn user_label(options: &ConnectOptions, user_name: Option<&str>) -> String {
    let login = if options.token.is_some() {
        "the bearer of --token"
    } else if options.client_certificate.is_some() {
        "the holder of --client-certificate"
    } else {
        user_name.unwrap_or("anonymous")
    };
    match &options.impersonate.user {
        Some(name) => format!("{login} as {name}"),
        None => login.to_owned(),
    }
}

/// What making the client said, in our words.
pub(super) fn translate(error: &kube::Error, target: &Target) -> ConnectError {
    let user = target.login.clone();
    match error {
        kube::Error::InferKubeconfig(error) => translate_config(error, &user),
        kube::Error::Auth(error) => ConnectError::Credentials { user, reason: explain::credentials(error) },
        other => ConnectError::Client { server: target.server_url.clone(), reason: explain::explain(other) },
    }
}

fn translate_config(error: &KubeconfigError, owner: &str) -> ConnectError {
    let (what, data) = match error {
        KubeconfigError::LoadClientCertificate(data) => ("client certificate", data),
        KubeconfigError::LoadClientKey(data) => ("client key", data),
        KubeconfigError::LoadCertificateAuthority(data) => ("certificate authority", data),
        other => return bad_data("configuration", owner, &format!("is not valid: {}", explain::chain(other))),
    };
    match data {
        LoadDataError::ReadFile(source, path) => ConnectError::File {
            what,
            path: path.clone(),
            source: source.raw_os_error().map_or_else(|| source.kind().into(), std::io::Error::from_raw_os_error),
        },
        LoadDataError::DecodeBase64(_) => bad_data(what, owner, "is not base64"),
        LoadDataError::NoBase64DataOrFile => bad_data(what, owner, "is missing"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CONFIG: &str = "
apiVersion: v1
kind: Config
current-context: dev
contexts: [{name: dev, context: {cluster: one, user: ann, namespace: shop}}]
clusters: [{name: one, cluster: {server: 'https://one:6443', tls-server-name: inside, proxy-url: 'p:1'}}]
users:
- name: ann
  user:
    client-certificate-data: eA==
    client-key-data: eA==
    exec: {apiVersion: client.authentication.k8s.io/v1, command: never-run, interactiveMode: Never}
";

    fn resolve_with(change: impl FnOnce(&mut ConnectOptions)) -> Result<Target, ConnectError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, CONFIG).unwrap();
        let mut options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
        change(&mut options);
        // A NO_PROXY that kube itself refuses.
        let no_proxy = Some("localhost,127.0.0.1,".to_owned());
        resolve(&options, &Environment { no_proxy, ..Environment::default() })
    }

    #[test]
    fn the_context_decides_and_nothing_is_retried_behind_our_back() {
        let target = resolve_with(|_| ()).unwrap();
        assert_eq!(target.server_url, "https://one:6443");
        assert_eq!(target.context.as_deref(), Some("dev"));
        assert_eq!(target.user, "ann");
        assert_eq!(target.config.default_namespace, "shop");
        assert_eq!(target.config.tls_server_name.as_deref(), Some("inside"));
        assert_eq!(target.config.proxy_url.unwrap().to_string(), "http://p:1/");
        assert!(!target.config.default_retry);
    }

    #[test]
    fn a_token_replaces_every_other_login() {
        let target = resolve_with(|options| options.token = Some("t".to_owned())).unwrap();
        let user = target.config.auth_info;
        assert!(user.token.is_some());
        assert!(user.exec.is_none() && user.client_certificate_data.is_none() && user.client_key_data.is_none());
        assert_eq!(target.user, "the bearer of --token");
    }

    #[test]
    fn overrides_reach_the_config() {
        let target = resolve_with(|options| {
            options.server = Some("https://user:pw@other:1".to_owned());
            options.namespace = Some("ns".to_owned());
            options.insecure_skip_tls_verify = Some(true);
            options.disable_compression = Some(true);
            options.impersonate.user = Some("bob".to_owned());
            options.impersonate.extras =
                [("k", "v"), ("k", "w")].map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
            options.request_timeout = Some(std::time::Duration::from_secs(5));
        })
        .unwrap();
        assert_eq!(target.server_url, "https://other:1");
        assert_eq!(target.user, "ann as bob");
        assert_eq!(target.config.default_namespace, "ns");
        assert!(target.config.accept_invalid_certs && target.config.disable_compression);
        assert_eq!(target.config.tls_server_name, None);
        assert_eq!(target.config.auth_info.impersonate_user_extra.unwrap()["k"], ["v", "w"]);
        assert_eq!(target.config.connect_timeout, Some(std::time::Duration::from_secs(5)));
    }

    #[rstest]
    #[case("127.0.0.1:8080", false, "http://127.0.0.1:8080")]
    #[case("one:6443", true, "https://one:6443")]
    #[case("https://one:6443/k8s/clusters/c-1/", false, "https://one:6443/k8s/clusters/c-1")]
    fn schemes(#[case] server: &str, #[case] tls: bool, #[case] expected: &str) {
        let cluster =
            Cluster { server: Some(server.to_owned()), insecure_skip_tls_verify: Some(tls), ..Cluster::default() };
        assert_eq!(shown(&server_uri(&cluster, &AuthInfo::default(), None).unwrap()), expected);
    }

    #[rstest]
    #[case("ftp://one", "server address \"ftp://one\" is not a URL of the form https://HOST:PORT")]
    #[case("https://", "server address \"https://\" is not a URL of the form https://HOST:PORT")]
    fn bad_servers(#[case] server: &str, #[case] expected: &str) {
        let error = resolve_with(|options| options.server = Some(server.to_owned())).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_missing_authority_file_is_named() {
        let error = resolve_with(|options| options.certificate_authority = Some("/no/such/ca".into())).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the certificate authority /no/such/ca");
    }
}
