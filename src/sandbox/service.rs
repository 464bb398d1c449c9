//! From an HTTP request to its answer: log, interceptor, route, access, the verb, the form. And the task in which the
//! cluster's machinery runs. May not: know sockets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::access::{self, Denied};
use super::answer::Failure;
use super::encode::Form;
use super::interceptor::{ConnectionLost, Fault, Interceptor, Phase, Seen};
use super::reads::{self, Reply};
use super::request::{self, Ask};
use super::route::{Route, Target, route};
use super::world::World;
use super::{SandboxConfig, controllers, deletes, discovery, eviction, kubelet, writes};

/// The body of an answer: bytes, or the stream of a watch.
pub type SandboxBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// What all handles of a sandbox share.
pub(super) struct Shared {
    world: Mutex<World>,
    wake: Arc<Notify>,
    versions: watch::Receiver<u64>,
    pub(super) denied: Mutex<Vec<Denied>>,
    pub(super) interceptor: Mutex<Option<Interceptor>>,
    pub(super) log: Mutex<Vec<Seen>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl Shared {
    /// A new cluster and the task in which it lives; the task ends when the last handle is gone.
    pub(super) fn start(config: SandboxConfig) -> Arc<Self> {
        let wake = Arc::new(Notify::new());
        let (sender, versions) = watch::channel(0);
        let denied = Mutex::new(config.denied.clone());
        let world = Mutex::new(World::new(config, wake.clone(), sender));
        let (interceptor, log) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Self { world, wake: wake.clone(), versions, denied, interceptor, log });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(next) = weak.upgrade().map(|shared| shared.turn()) {
                match next {
                    Next::Now => tokio::task::yield_now().await,
                    Next::At(at) => {
                        tokio::select! { () = wake.notified() => {}, () = tokio::time::sleep_until(at) => {} }
                    }
                    Next::WhenWoken => wake.notified().await,
                }
            }
        });
        shared
    }

    /// Runs with the state of the cluster.
    pub(super) fn world<T>(&self, with: impl FnOnce(&mut World) -> T) -> T {
        with(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.clone()
    }

    fn turn(&self) -> Next {
        /// Pieces of work before requests get a turn.
        const PIECES: usize = 256;
        self.world(|world| {
            for _ in 0..PIECES {
                if let Some(work) = world.next_work() {
                    controllers::run(world, work);
                } else if let Some(timer) = world.due() {
                    kubelet::fire(world, timer);
                } else {
                    return world.next_due().map_or(Next::WhenWoken, Next::At);
                }
            }
            Next::Now
        })
    }

    fn fault(&self, phase: Phase, seen: &Seen) -> Fault {
        let hook = self.interceptor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        hook.map_or(Fault::None, |hook| hook(phase, seen))
    }

    /// Answers a request.
    pub(super) async fn handle(
        self: Arc<Self>,
        request: Request<Bytes>,
    ) -> Result<Response<SandboxBody>, ConnectionLost> {
        let mut seen = self.note(&request);
        if let Some(answer) = perform(self.fault(Phase::Before, &seen)).await? {
            return Ok(answer);
        }
        let response = self.clone().answer(request);
        seen.status = response.status().as_u16();
        {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = log.iter_mut().rev().find(|e| e.number == seen.number) {
                entry.status = seen.status;
            }
        }
        match perform(self.fault(Phase::After(seen.status), &seen)).await? {
            Some(answer) => Ok(answer),
            None => Ok(response),
        }
    }

    fn note(&self, request: &Request<Bytes>) -> Seen {
        let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Seen {
            number: log.last().map_or(0, |s| s.number) + 1,
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            user_agent: header(header::USER_AGENT),
            body: request.body().clone(),
            status: 0,
        };
        log.push(seen.clone());
        seen
    }

    fn answer(self: Arc<Self>, request: Request<Bytes>) -> Response<SandboxBody> {
        let (parts, body) = request.into_parts();
        match route(parts.uri.path()) {
            Route::Objects(target) => self.objects(&parts, target, body).unwrap_or_else(|f| failed(&f)),
            other => self.fixed(other),
        }
    }

    fn fixed(&self, route: Route) -> Response<SandboxBody> {
        let version = self.world(|world| world.config.version);
        let found = match route {
            Route::CoreVersions => Some(discovery::core_versions()),
            Route::Groups => Some(discovery::groups()),
            Route::Group(group) => discovery::group(&group),
            Route::Resources(group, version) => discovery::resources(&group, &version),
            Route::Version => Some(discovery::version(version)),
            Route::Health => return plain(200, "ok"),
            Route::NoResource => return failed(&Failure::no_such_resource()),
            Route::Nothing | Route::Objects(_) => None,
        };
        found.map_or_else(|| plain(404, "404 page not found\n"), |value| json_response(200, value.to_string().into()))
    }

    fn objects(
        self: Arc<Self>,
        parts: &http::request::Parts,
        target: Target,
        body: Bytes,
    ) -> Result<Response<SandboxBody>, Failure> {
        let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let ask = Ask {
            method: parts.method.clone(),
            target,
            query: request::query(parts.uri.query().unwrap_or_default()),
            content_type: header(header::CONTENT_TYPE),
            accept: header(header::ACCEPT),
            agent: header(header::USER_AGENT),
            body,
        };
        let denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kind = ask.target.kind;
        if kind.plural == "selfsubjectaccessreviews" {
            let review = access::review(&denied, ask.object()?);
            return Ok(json_response(201, review.to_string().into()));
        }
        access::check(&denied, &ask)?;
        let form = Form::of(&ask.accept, ask.param("includeObject"));
        let (reply, now) = self.world(|world| (perform_verb(world, &ask), world.clock.wall().as_second()));
        Ok(match reply? {
            Reply::Object { code, object } => {
                let mut bytes = Vec::new();
                let form = if ask.target.sub.is_some() { Form::Whole } else { form };
                form.write_one(kind, &object, now, &mut bytes);
                json_response(code, bytes.into())
            }
            Reply::List { items, metadata } => {
                let mut bytes = Vec::new();
                form.write_list(kind, &items, &metadata, now, &mut bytes);
                json_response(200, bytes.into())
            }
            Reply::Watch(from) => {
                let lines = super::watch::lines(self, kind, form, from).map(|b| Ok(hyper::body::Frame::data(b)));
                let body = StreamBody::new(lines).boxed_unsync();
                response(200, "application/json", body)
            }
        })
    }
}

enum Next {
    Now,
    At(tokio::time::Instant),
    WhenWoken,
}

fn perform_verb(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let (named, sub) = (ask.target.name.is_some(), ask.target.sub.as_deref());
    match (ask.method.as_str(), named, sub) {
        ("GET", _, None) if ask.is_watch() => reads::watch(world, ask),
        ("GET", true, _) => reads::get(world, ask),
        ("GET", false, None) => reads::list(world, ask),
        ("POST", true, Some("eviction")) => eviction::evict(world, ask),
        ("POST", true, Some("binding")) => bind(world, ask),
        ("POST", false, None) => writes::create(world, ask),
        ("PUT", true, _) => writes::update(world, ask),
        ("PATCH", true, _) => writes::patch(world, ask),
        ("DELETE", true, None) => deletes::delete(world, ask),
        ("DELETE", false, None) => deletes::delete_collection(world, ask),
        _ => Err(Failure::method_not_allowed()),
    }
}

fn bind(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let binding = ask.object()?;
    let key = (ask.target.space().to_owned(), ask.target.name().to_owned());
    if world.get(ask.target.kind, &key).is_none() {
        return Err(Failure::not_found(ask.target.kind, &key.1));
    }
    super::scheduler::bind(world, &key, binding["target"]["name"].as_str().unwrap_or_default());
    let done =
        serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::Object { code: 201, object: Arc::new(done) })
}

async fn perform(fault: Fault) -> Result<Option<Response<SandboxBody>>, ConnectionLost> {
    match fault {
        Fault::None => Ok(None),
        Fault::Delay(wait) => {
            tokio::time::sleep(wait).await;
            Ok(None)
        }
        Fault::Answer(failure) => Ok(Some(failed(&failure))),
        Fault::Drop => Err(ConnectionLost),
        Fault::Hang => {
            // For ever: the caller gives up, or is gone.
            loop {
                tokio::time::sleep(Duration::from_hours(1)).await;
            }
        }
    }
}

fn response(code: u16, content_type: &str, body: SandboxBody) -> Response<SandboxBody> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = header::HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

fn json_response(code: u16, bytes: Bytes) -> Response<SandboxBody> {
    response(code, "application/json", Full::new(bytes).boxed_unsync())
}

fn plain(code: u16, text: &'static str) -> Response<SandboxBody> {
    response(code, "text/plain; charset=utf-8", Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync())
}

fn failed(failure: &Failure) -> Response<SandboxBody> {
    json_response(failure.code, Value::to_string(&failure.body()).into())
}
