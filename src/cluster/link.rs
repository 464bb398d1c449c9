//! What happens around each call: headers, deadline, retry of reads, new credentials on a 401, warnings, trace, clock.
//! One [`Link`] stands behind all clients of a connection. May not: read a kubeconfig, print.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT, WARNING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use super::connect::{ConnectError, Invocation};
use super::explain::{self, CallError};
use super::warnings;

/// Makes a new client from the kubeconfig as it is now.
pub type Rebuild = Box<dyn Fn() -> BoxFuture<'static, Result<kube::Client, ConnectError>> + Send + Sync>;

/// Takes one thing that a call brought along.
pub type Hook<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// Where the side answers of calls go. Called from any task; must not block.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Each distinct `Warning` of the server, once.
    pub warning: Option<Hook<str>>,
    /// Each request, for `-v=6`.
    pub request: Option<Hook<RequestTrace>>,
}

/// One request as `-v=6` shows it: no headers, no bodies.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    pub method: String,
    pub url: String,
    /// `None` if there was no answer.
    pub status: Option<StatusCode>,
    pub latency: Duration,
}

impl fmt::Display for RequestTrace {
    /// kubectl's form: `GET https://host/path 200 OK in 12 milliseconds`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        write!(f, "{} {} {status} in {} milliseconds", self.method, self.url, self.latency.as_millis())
    }
}

/// Which promises a client keeps; see the fields of [`super::connect::Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    Watch,
}

/// The client in use and how often it was replaced.
#[derive(Clone)]
struct Base {
    client: kube::Client,
    generation: u64,
}

/// What all clients of a connection share.
pub struct Link {
    server: String,
    /// The proxy in front of the server, which may be what cannot be reached.
    proxy: Option<String>,
    base: RwLock<Base>,
    rebuild: Option<Rebuild>,
    /// Held while credentials are renewed; the time of the last renewal that did not help.
    renewal: tokio::sync::Mutex<Option<Instant>>,
    request_timeout: Option<Duration>,
    headers: RwLock<HeaderMap>,
    hooks: Hooks,
    seen_warnings: Mutex<BTreeSet<String>>,
    clock_skew: Mutex<Option<SignedDuration>>,
}

/// A renewal that did not help is not tried again for this long: a thousand refused calls must not start a thousand
/// credential plugins.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// Credentials are renewed this long before their end, so that no call is on its way when they end.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// Reads are sent at most this often.
const READ_ATTEMPTS: u32 = 6;
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// No wait between two reads is longer, whatever `Retry-After` says: it may say a day.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

const KUBECTL_COMMAND: HeaderName = HeaderName::from_static("kubectl-command");
const KUBECTL_SESSION: HeaderName = HeaderName::from_static("kubectl-session");

impl Link {
    pub(super) fn new(
        (server, proxy): (String, Option<String>),
        client: kube::Client,
        request_timeout: Option<Duration>,
        invocation: Invocation,
        rebuild: Option<Rebuild>,
    ) -> Arc<Self> {
        let mut headers = HeaderMap::new();
        let agent = concat!("kubectl-kapr/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        set_header(&mut headers, KUBECTL_COMMAND, &invocation.command);
        set_header(&mut headers, KUBECTL_SESSION, &invocation.session);
        Arc::new(Self {
            server,
            proxy,
            base: RwLock::new(Base { client, generation: 0 }),
            rebuild,
            renewal: tokio::sync::Mutex::new(None),
            request_timeout,
            headers: RwLock::new(headers),
            hooks: invocation.hooks,
            seen_warnings: Mutex::default(),
            clock_skew: Mutex::default(),
        })
    }

    /// A client whose calls go through this link.
    pub(super) fn client(self: &Arc<Self>, mode: Mode, namespace: &str) -> kube::Client {
        let link = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let link = Arc::clone(&link);
            async move { link.call(mode, request).await }
        });
        kube::Client::new(service, namespace)
    }

    pub(super) fn valid_until(&self) -> Option<Timestamp> {
        *self.current().client.valid_until()
    }

    pub(super) fn clock_skew(&self) -> Option<SignedDuration> {
        *self.clock_skew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_session(&self, session: &str) {
        let mut headers = self.headers.write().unwrap_or_else(PoisonError::into_inner);
        set_header(&mut headers, KUBECTL_SESSION, session);
    }

    /// Replaces the client behind all clients of this link.
    pub(super) async fn rebuild(&self) -> Result<(), ConnectError> {
        let _one_at_a_time = self.renewal.lock().await;
        self.replace().await
    }

    async fn replace(&self) -> Result<(), ConnectError> {
        let rebuild = self.rebuild.as_ref().ok_or(ConnectError::NotRebuildable)?;
        let client = rebuild().await?;
        let mut base = self.base.write().unwrap_or_else(PoisonError::into_inner);
        *base = Base { client, generation: base.generation + 1 };
        Ok(())
    }

    fn current(&self) -> Base {
        self.base.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One call of a client, with everything around it.
    async fn call(&self, mode: Mode, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        {
            let headers = self.headers.read().unwrap_or_else(PoisonError::into_inner);
            request.headers_mut().extend(headers.clone());
        }
        self.renew_before_end().await;
        let generation = self.current().generation;
        let again = copy(&request);
        let answer = self.bounded(mode, request).await?;
        if answer.status() == StatusCode::UNAUTHORIZED
            && let Some(again) = again
            && self.renew_after_refusal(generation).await?
        {
            // The server did not act on a request that it did not let in: sending it again is safe for every verb.
            let answer = self.bounded(mode, again).await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                *self.renewal.lock().await = Some(Instant::now());
            }
            return Ok(answer);
        }
        Ok(answer)
    }

    async fn renew_before_end(&self) {
        let ends_soon = |link: &Self| link.valid_until().is_some_and(|end| Timestamp::now() + RENEWAL_MARGIN >= end);
        if self.rebuild.is_none() || !ends_soon(self) {
            return;
        }
        let mut failed = self.renewal.lock().await;
        if !ends_soon(self) || failed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return;
        }
        // The old credentials may still do; if not, the 401 says why.
        let renewed = self.replace().await.is_ok() && !ends_soon(self);
        *failed = (!renewed).then(Instant::now);
    }

    /// Whether the call should be sent again: the credentials are newer than those it was refused with.
    async fn renew_after_refusal(&self, refused: u64) -> Result<bool, BoxError> {
        if self.rebuild.is_none() {
            return Ok(false);
        }
        let mut failed = self.renewal.lock().await;
        if failed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return Ok(false);
        }
        if self.current().generation > refused {
            return Ok(true);
        }
        match self.replace().await {
            Ok(()) => Ok(true),
            Err(error) => {
                *failed = Some(Instant::now());
                Err(CallError::Credentials { reason: explain::chain(&error) }.into())
            }
        }
    }

    /// The call within its deadline: for unary calls until the last byte of the answer.
    async fn bounded(&self, mode: Mode, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if mode == Mode::Watch || is_stream(&request) {
            let answer = self.send(request).await?;
            return self.refuse_web_page(answer, &method, &path);
        }
        let Some(limit) = self.request_timeout else {
            return self.whole(mode, request, None).await;
        };
        let whole = self.whole(mode, request, Some(Instant::now() + limit));
        tokio::time::timeout(limit, whole).await.unwrap_or_else(|_| {
            let (server, method) = (self.server.clone(), method.to_string());
            Err(CallError::Timeout { server, method, path, after: limit }.into())
        })
    }

    async fn whole(
        &self,
        mode: Mode,
        mut request: Request<Body>,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, BoxError> {
        let repeats = mode == Mode::Read && request.method() == Method::GET;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let again = copy(&request).filter(|_| repeats && attempt < READ_ATTEMPTS);
            let outcome = self.once(request).await;
            let pause = match &outcome {
                Ok(answer) if is_passing(answer.status()) => retry_pause(answer.headers(), attempt),
                // A server that cannot be reached is told at once; a connection that broke is worth another try.
                Err(error) if matches!(error.downcast_ref(), Some(CallError::Lost { .. })) => {
                    retry_pause(&HeaderMap::new(), attempt)
                }
                Ok(_) | Err(_) => return outcome,
            };
            match again {
                // Better the server's answer than a timeout that hides it.
                Some(next) if deadline.is_none_or(|deadline| Instant::now() + pause < deadline) => {
                    tokio::time::sleep(pause).await;
                    request = next;
                }
                _ => return outcome,
            }
        }
    }

    /// One try, until the last byte of the answer.
    async fn once(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = self.send(request).await?;
        let answer = self.refuse_web_page(answer, &method, &path)?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.map_err(|error| CallError::Lost {
            server: self.server.clone(),
            method: method.to_string(),
            path,
            reason: explain::root(&error),
        })?;
        Ok(Response::from_parts(parts, Body::from(bytes.to_bytes())))
    }

    /// Sends once and notes what the answer's head says.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let client = self.current().client;
        let (started, sent_at) = (Instant::now(), Timestamp::now());
        let result = client.send(request).await;
        let latency = started.elapsed();
        if let Some(hook) = &self.hooks.request {
            let target = uri.path_and_query().map_or("/", |target| target.as_str().trim_end_matches('?'));
            hook(&RequestTrace {
                method: method.to_string(),
                url: format!("{}{target}", self.server),
                status: result.as_ref().ok().map(Response::status),
                latency,
            });
        }
        let answer = result.map_err(|error| self.call_error(error, &method, uri.path()))?;
        self.note_date(answer.headers(), sent_at, latency);
        self.note_warnings(answer.headers());
        Ok(answer)
    }

    fn call_error(&self, error: kube::Error, method: &Method, path: &str) -> BoxError {
        let kube::Error::Service(inner) = error else { return error.into() };
        if let Some(auth) = inner.downcast_ref::<kube::client::AuthError>() {
            return CallError::Credentials { reason: explain::credentials(auth) }.into();
        }
        let Some(transport) = inner.downcast_ref::<hyper_util::client::legacy::Error>() else {
            // Not the network's: an error that is ours already, or that of another transport.
            if inner.is::<CallError>() {
                return inner;
            }
            let (server, reason) = (self.server.clone(), explain::root(inner.as_ref()));
            return CallError::Lost { server, method: method.to_string(), path: path.to_owned(), reason }.into();
        };
        let (server, reason) = (self.server.clone(), explain::root(transport));
        if transport.is_connect() {
            let through = self.proxy.as_ref().map(|proxy| format!(" through the proxy {proxy}"));
            return CallError::Unreachable { server: server + &through.unwrap_or_default(), reason }.into();
        }
        let (method, path) = (method.to_string(), path.to_owned());
        CallError::Lost { server, method, path, reason }.into()
    }

    fn refuse_web_page(&self, answer: Response<Body>, method: &Method, path: &str) -> Result<Response<Body>, BoxError> {
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/html") {
            return Ok(answer);
        }
        let status = answer.status();
        let title = status.canonical_reason().map_or_else(String::new, |reason| format!(" {reason}"));
        let (method, path) = (method.to_string(), path.to_owned());
        Err(CallError::WebPage { server: self.server.clone(), method, path, status: status.as_u16(), title }.into())
    }

    fn note_warnings(&self, headers: &HeaderMap) {
        let Some(hook) = &self.hooks.warning else { return };
        let values = headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
        for text in values.flat_map(warnings::texts) {
            let text = explain::one_line(&text);
            let new = self.seen_warnings.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
            if new {
                hook(&text);
            }
        }
    }

    /// The `Date` header has whole seconds: half a second is the best guess for the part that it leaves out.
    fn note_date(&self, headers: &HeaderMap, sent_at: Timestamp, latency: Duration) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let server = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let half = SignedDuration::try_from(latency / 2);
        if let (Some(server), Ok(half)) = (server, half) {
            let skew = (server.timestamp() + SignedDuration::from_millis(500)).duration_since(sent_at + half);
            *self.clock_skew.lock().unwrap_or_else(PoisonError::into_inner) = Some(skew);
        }
    }
}

/// A header value from text that may hold anything; what cannot be a header is left out.
fn set_header(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    match HeaderValue::from_str(text) {
        Ok(value) if !text.is_empty() => headers.insert(name, value),
        _ => headers.remove(name),
    };
}

/// The same request again, unless its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Calls whose answer does not end by itself get no deadline, whichever client sends them.
fn is_stream(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let asks = |name: &str| {
        query.split('&').any(|pair| {
            pair.split_once('=').is_some_and(|(key, value)| key == name && (value == "true" || value == "1"))
        })
    };
    asks("watch") || asks("follow") || request.headers().contains_key(http::header::UPGRADE)
}

/// What passes by itself: too much at once, a restart, a lost leader of etcd behind the server.
const fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

/// What the server asks for, else doubling from [`FIRST_RETRY`]; never more than [`LONGEST_RETRY`].
fn retry_pause(headers: &HeaderMap, attempt: u32) -> Duration {
    let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
    let own = FIRST_RETRY * 2_u32.saturating_pow(attempt - 1);
    asked.map_or(own, Duration::from_secs).max(own).min(LONGEST_RETRY)
}
