//! From flags to clients: the only place that makes a [`kube::Client`].
//!
//! All clients of a [`Connection`] share one pool and one set of credentials (a credential plugin runs once for all of
//! them); they differ in what [`super::link`] does around a call. May not: read the environment itself, write to a
//! terminal.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::environment::Environment;
use super::link::{Hooks, Link, Mode, Rebuild};
use super::plugin;
use super::target::{self, Target};

/// What the user asked of the connection; `None` everywhere means what kubectl would do without flags.
#[derive(Clone)]
pub struct ConnectOptions {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
    pub server: Option<String>,
    pub token: Option<String>,
    pub certificate_authority: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub tls_server_name: Option<String>,
    pub impersonate: Impersonation,
    /// The limit of each call that is not a watch; `None` means no limit.
    pub request_timeout: Option<Duration>,
    pub disable_compression: Option<bool>,
}

impl ConnectOptions {
    /// kubectl has no limit and hangs on a dead VPN; 30 s is longer than any answer seen from a loaded API server.
    pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            cluster: None,
            user: None,
            namespace: None,
            server: None,
            token: None,
            certificate_authority: None,
            client_certificate: None,
            client_key: None,
            insecure_skip_tls_verify: None,
            tls_server_name: None,
            impersonate: Impersonation::default(),
            request_timeout: Some(Self::DEFAULT_REQUEST_TIMEOUT),
            disable_compression: None,
        }
    }
}

impl fmt::Debug for ConnectOptions {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("kubeconfig", &self.kubeconfig)
            .field("context", &self.context)
            .field("cluster", &self.cluster)
            .field("user", &self.user)
            .field("namespace", &self.namespace)
            .field("server", &self.server)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("impersonate", &self.impersonate)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// `--as` and its companions.
#[derive(Clone, Debug, Default)]
pub struct Impersonation {
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub uid: Option<String>,
    /// Key and value, in the order given; a key may come several times.
    pub extras: Vec<(String, String)>,
}

/// Who calls: what the audit log shows, and where the side answers of calls go.
#[derive(Clone, Default)]
pub struct Invocation {
    /// Value of the header `Kubectl-Command`, such as `kubectl kapr rollout`.
    pub command: String,
    /// Value of the header `Kubectl-Session`: the run, or a session of its own for commands without a run.
    pub session: String,
    pub hooks: Hooks,
}

/// Why there is no connection. Each is one sentence that names the object and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("kubeconfig {} does not exist", path.display())]
    KubeconfigMissing { path: PathBuf },
    #[error("kubeconfig {} is a directory, not a file", path.display())]
    KubeconfigIsDirectory { path: PathBuf },
    #[error("cannot read kubeconfig {}", path.display())]
    KubeconfigUnreadable { path: PathBuf, source: io::Error },
    #[error("kubeconfig {} is not valid: {reason}", path.display())]
    KubeconfigInvalid { path: PathBuf, reason: String },
    #[error("kubeconfig {} has another kind or apiVersion than the files before it in KUBECONFIG", path.display())]
    KubeconfigNotMergeable { path: PathBuf },
    #[error("there is no kubeconfig: set KUBECONFIG, or name a file with --kubeconfig or a server with --server")]
    NoKubeconfig,
    #[error("no context is chosen in {files}; name one with --context (known contexts: {known})")]
    NoCurrentContext { files: String, known: String },
    #[error("context \"{name}\" does not exist; known contexts: {known}")]
    UnknownContext { name: String, known: String },
    #[error("cluster \"{name}\" does not exist; known clusters: {known}")]
    UnknownCluster { name: String, known: String },
    #[error("user \"{name}\" does not exist; known users: {known}")]
    UnknownUser { name: String, known: String },
    #[error("cluster \"{cluster}\" has no server address")]
    NoServer { cluster: String },
    #[error("server address \"{server}\" is not a URL of the form https://HOST:PORT")]
    BadServer { server: String },
    #[error("{origin} is \"{proxy}\", which is not an http, https or socks5 address")]
    Proxy { origin: &'static str, proxy: String },
    #[error("cannot read the {what} {}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the {what} of {owner} {reason}")]
    BadData { what: &'static str, owner: String, reason: String },
    #[error("cannot get the credentials of {user}: {reason}")]
    Credentials { user: String, reason: String },
    #[error("cannot use the service account of this pod: {reason}")]
    InCluster { reason: String },
    #[error("the client for {server} cannot be made: {reason}")]
    Client { server: String, reason: String },
    #[error("the kubeconfig now leads to {now} instead of {was}; start the command again if that is meant")]
    ServerChanged { was: String, now: String },
    #[error("this connection was given a client and cannot make a new one")]
    NotRebuildable,
}

/// A cluster, as whom, in which namespace, and the clients to it.
#[derive(Clone)]
pub struct Connection {
    /// For reading: each call has a deadline; 429, 503 and 504 are retried within it.
    pub read: kube::Client,
    /// For writing: each call has a deadline and is sent once, so that a refusal is an answer.
    pub write: kube::Client,
    /// For watches and other streams: no deadline, no retry.
    pub watch: kube::Client,
    /// The kubeconfig context, if one was used.
    pub context: Option<String>,
    pub cluster_name: Option<String>,
    /// The API server, without credentials.
    pub server_url: String,
    /// `--namespace`, else the context's, else `default`.
    pub namespace: String,
    /// Who the server will take us for, as far as the kubeconfig says: its user name, with `as NAME` if impersonating.
    pub user: String,
    link: Arc<Link>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("context", &self.context)
            .field("cluster_name", &self.cluster_name)
            .field("server_url", &self.server_url)
            .field("namespace", &self.namespace)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads the kubeconfig, gets the credentials (this may run a credential plugin, which may ask on the terminal) and
    /// makes the clients. Sends nothing to the server.
    pub async fn open(
        options: ConnectOptions,
        environment: Environment,
        invocation: Invocation,
    ) -> Result<Self, ConnectError> {
        let first = target::resolve(&options, &environment)?;
        let client = make_client(&first, &environment).await?;
        let rebuild = rebuild(&options, &environment, &first);
        let link = Link::new(
            (first.server_url.clone(), first.proxy.clone()),
            client,
            options.request_timeout,
            invocation,
            Some(rebuild),
        );
        let namespace = first.config.default_namespace.clone();
        Ok(Self {
            context: first.context,
            cluster_name: first.cluster_name,
            user: first.user,
            ..Self::over(link, first.server_url, namespace)
        })
    }

    /// A connection over a client that already exists, for tests and the embedded sandbox. It has the same deadlines
    /// and hooks but cannot be rebuilt.
    pub fn from_client(client: kube::Client, namespace: impl Into<String>) -> Self {
        let server = "the embedded cluster".to_owned();
        let timeout = Some(ConnectOptions::DEFAULT_REQUEST_TIMEOUT);
        let link = Link::new((server.clone(), None), client, timeout, Invocation::default(), None);
        Self::over(link, server, namespace.into())
    }

    fn over(link: Arc<Link>, server_url: String, namespace: String) -> Self {
        Self {
            read: Link::client(&link, Mode::Read, &namespace),
            write: Link::client(&link, Mode::Write, &namespace),
            watch: Link::client(&link, Mode::Watch, &namespace),
            context: None,
            cluster_name: None,
            server_url,
            namespace,
            user: "unknown".to_owned(),
            link,
        }
    }

    /// Reads the kubeconfig again and replaces the credentials behind all clients of this connection, also behind
    /// clones that were handed out. It happens by itself on a 401 and before [`Self::valid_until`].
    pub async fn reconnect(&self) -> Result<(), ConnectError> {
        self.link.rebuild().await
    }

    /// When the credentials end, if they say so.
    pub fn valid_until(&self) -> Option<Timestamp> {
        self.link.valid_until()
    }

    /// How far the server's clock is ahead of ours, from the `Date` of the last answer (to about a second); `None`
    /// before the first answer.
    pub fn clock_skew(&self) -> Option<SignedDuration> {
        self.link.clock_skew()
    }

    /// From now on calls carry this session: the run's identity, once it is known.
    pub fn set_session(&self, session: &str) {
        self.link.set_session(session);
    }
}

async fn make_client(target: &Target, environment: &Environment) -> Result<kube::Client, ConnectError> {
    let mut config = target.config.clone();
    let end = plugin::log_in(&mut config.auth_info, environment.stdin_is_terminal).await;
    let end = end.map_err(|reason| ConnectError::Credentials { user: target.login.clone(), reason })?;
    // kube reads files and may run a legacy auth-provider's command: not on a thread that others wait for.
    let made = tokio::task::spawn_blocking(move || kube::Client::try_from(config)).await;
    match made {
        Ok(Ok(client)) => {
            let end = end.or(*client.valid_until());
            Ok(client.with_valid_until(end))
        }
        Ok(Err(error)) => Err(target::translate(&error, target)),
        Err(stopped) => Err(ConnectError::Client { server: target.server_url.clone(), reason: stopped.to_string() }),
    }
}

/// Resolves again with the context that was chosen first: a `kubectl config use-context` in another terminal must not
/// move a run to another cluster.
fn rebuild(options: &ConnectOptions, environment: &Environment, first: &Target) -> Rebuild {
    let mut options = options.clone();
    options.context.clone_from(&first.context);
    let environment = environment.clone();
    let was = first.server_url.clone();
    Box::new(move || {
        let (options, environment, was) = (options.clone(), environment.clone(), was.clone());
        Box::pin(async move {
            let target = target::resolve(&options, &environment)?;
            if target.server_url != was {
                return Err(ConnectError::ServerChanged { was, now: target.server_url });
            }
            make_client(&target, &environment).await
        })
    })
}
