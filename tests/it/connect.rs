//! What goes over the wire around a call, against a real HTTP server: mocks below HTTP would show neither retries nor
//! headers nor deadlines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kapr::cluster::connect::{ConnectError, ConnectOptions, Connection, Impersonation, Invocation};
use kapr::cluster::environment::Environment;
use kapr::cluster::explain::{call_error, explain};
use kapr::cluster::link::Hooks;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn options(server: &str) -> ConnectOptions {
    ConnectOptions { server: Some(server.to_owned()), ..ConnectOptions::default() }
}

async fn open(options: ConnectOptions, invocation: Invocation) -> Connection {
    Connection::open(options, Environment::default(), invocation).await.unwrap()
}

async fn answering(template: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::any()).respond_with(template).mount(&server).await;
    server
}

fn pods(client: &kube::Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "shop")
}

fn pod() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}})
}

fn busy() -> ResponseTemplate {
    ResponseTemplate::new(429).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
        "reason": "TooManyRequests", "message": "too busy"
    }))
}

#[tokio::test]
async fn calls_say_who_they_are() {
    let server = answering(ResponseTemplate::new(200).set_body_json(pod())).await;
    let invocation =
        Invocation { command: "kubectl kapr rollout".to_owned(), session: "first".to_owned(), hooks: Hooks::default() };
    let mut options = options(&server.uri());
    options.token = Some("s3cret".to_owned());
    options.impersonate = Impersonation {
        user: Some("bob".to_owned()),
        groups: vec!["a".to_owned(), "b".to_owned()],
        uid: Some("7".to_owned()),
        extras: vec![("scope".to_owned(), "x".to_owned())],
    };
    let connection = open(options, invocation).await;
    pods(&connection.read).get("web-0").await.unwrap();
    connection.set_session("run-4");
    pods(&connection.write).get("web-0").await.unwrap();

    let seen = server.received_requests().await.unwrap();
    let values = |at: usize, name: &str| -> Vec<String> {
        seen[at].headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(values(0, "user-agent"), [concat!("kubectl-kapr/", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(values(0, "kubectl-command"), ["kubectl kapr rollout"]);
    assert_eq!(values(0, "kubectl-session"), ["first"]);
    assert_eq!(values(1, "kubectl-session"), ["run-4"]);
    assert_eq!(values(0, "authorization"), ["Bearer s3cret"]);
    assert_eq!(values(0, "impersonate-user"), ["bob"]);
    assert_eq!(values(0, "impersonate-group"), ["a", "b"]);
    assert_eq!(values(0, "impersonate-uid"), ["7"]);
    assert_eq!(values(0, "impersonate-extra-scope"), ["x"]);
    assert_eq!(connection.user, "the bearer of --token as bob");
}

#[tokio::test]
async fn a_write_is_sent_once_and_its_refusal_is_the_answer() {
    let server = answering(busy().insert_header("Retry-After", "86400")).await;
    let connection = open(options(&server.uri()), Invocation::default()).await;
    let maps: Api<ConfigMap> = Api::namespaced(connection.write, "shop");
    let error = maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
    assert_eq!(explain(&error), "too busy");
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_read_is_retried_while_the_server_is_busy() {
    let server = MockServer::start().await;
    Mock::given(method("GET")).respond_with(busy()).up_to_n_times(2).mount(&server).await;
    Mock::given(method("GET")).respond_with(ResponseTemplate::new(200).set_body_json(pod())).mount(&server).await;
    let connection = open(options(&server.uri()), Invocation::default()).await;
    pods(&connection.read).get("web-0").await.unwrap();
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_retry_that_would_miss_the_deadline_gives_the_servers_answer() {
    let server = answering(busy().insert_header("Retry-After", "86400")).await;
    let mut options = options(&server.uri());
    options.request_timeout = Some(Duration::from_secs(2));
    let connection = open(options, Invocation::default()).await;
    let error = pods(&connection.read).get("web-0").await.unwrap_err();
    assert_eq!(explain(&error), "too busy");
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_silent_server_ends_in_a_sentence() {
    let server = answering(ResponseTemplate::new(200).set_delay(Duration::from_mins(1))).await;
    let mut options = options(&server.uri());
    options.request_timeout = Some(Duration::from_millis(100));
    let connection = open(options, Invocation::default()).await;
    for client in [&connection.read, &connection.write] {
        let error = pods(client).get("web-0").await.unwrap_err();
        let expected = format!(
            "the API server {} did not answer GET /api/v1/namespaces/shop/pods/web-0 within 100ms",
            server.uri()
        );
        assert_eq!(explain(&error), expected);
        assert!(call_error(&error).unwrap().may_have_acted());
    }
}

#[tokio::test]
async fn a_body_that_stalls_meets_the_deadline_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 1]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
        std::future::pending::<()>().await;
    });
    let mut options = options(&format!("http://{address}"));
    options.request_timeout = Some(Duration::from_millis(100));
    let connection = open(options, Invocation::default()).await;
    let error = pods(&connection.read).get("web-0").await.unwrap_err();
    assert!(explain(&error).ends_with("within 100ms"), "{}", explain(&error));
    serving.abort();
}

#[tokio::test]
async fn a_broken_answer_is_told_from_an_unreachable_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = open(options(&format!("http://{address}")), Invocation::default()).await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 1]).await.unwrap();
    });
    let error = pods(&connection.write).get("web-0").await.unwrap_err();
    assert!(call_error(&error).unwrap().may_have_acted(), "{}", explain(&error));
    serving.await.unwrap();

    // The listener is gone now.
    let error = pods(&connection.write).get("web-0").await.unwrap_err();
    assert_eq!(explain(&error), format!("cannot reach the API server http://{address}: connection refused"));
    assert!(!call_error(&error).unwrap().may_have_acted());
}

#[tokio::test]
async fn a_watch_outlives_the_deadline() {
    let events = format!("{}\n", json!({"type": "ADDED", "object": pod()}));
    let template =
        ResponseTemplate::new(200).set_body_raw(events, "application/json").set_delay(Duration::from_millis(300));
    let server = answering(template).await;
    let mut options = options(&server.uri());
    options.request_timeout = Some(Duration::from_millis(50));
    let connection = open(options, Invocation::default()).await;
    // By the client made for it, and by its query.
    for client in [&connection.watch, &connection.read] {
        let stream = pods(client).watch(&kube::api::WatchParams::default(), "0").await.unwrap();
        let events: Vec<_> = stream.try_collect().await.unwrap();
        assert_eq!(events.len(), 1);
    }
}

#[tokio::test]
async fn warnings_are_handed_over_once() {
    let template = ResponseTemplate::new(200)
        .set_body_json(pod())
        .append_header("Warning", r#"299 - "unknown field \"x\"""#)
        .append_header("Warning", r#"299 - "v1 Old is deprecated", 299 - "and another""#);
    let server = answering(template).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let traced = Arc::new(Mutex::new(Vec::new()));
    let (hear, trace) = (Arc::clone(&heard), Arc::clone(&traced));
    let hooks = Hooks {
        warning: Some(Arc::new(move |text: &str| hear.lock().unwrap().push(text.to_owned()))),
        request: Some(Arc::new(move |request: &kapr::cluster::link::RequestTrace| {
            trace.lock().unwrap().push(request.to_string());
        })),
    };
    let mut options = options(&server.uri());
    options.token = Some("s3cret".to_owned());
    let connection = open(options, Invocation { hooks, ..Invocation::default() }).await;
    pods(&connection.read).get("web-0").await.unwrap();
    pods(&connection.write).get("web-0").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["unknown field \"x\"", "v1 Old is deprecated", "and another"]);
    let traced = traced.lock().unwrap();
    assert_eq!(traced.len(), 2);
    let start = format!("GET {}/api/v1/namespaces/shop/pods/web-0 200 OK in ", server.uri());
    assert!(traced[0].starts_with(&start) && traced[0].ends_with(" milliseconds"), "{}", traced[0]);
    assert!(!traced.join(" ").contains("s3cret"));
}

#[tokio::test]
async fn a_web_page_is_called_one() {
    let page = "<html><title>Please log in</title></html>".repeat(1000);
    for status in [200, 502] {
        let server =
            answering(ResponseTemplate::new(status).set_body_raw(page.clone(), "text/html; charset=utf-8")).await;
        let connection = open(options(&server.uri()), Invocation::default()).await;
        let error = pods(&connection.read).list(&ListParams::default()).await.unwrap_err();
        let text = explain(&error);
        assert!(text.contains("answered GET /api/v1/namespaces/shop/pods with a web page (HTTP"), "{text}");
        assert!(text.len() < 250, "{text}");
    }
}

#[tokio::test]
async fn the_servers_clock_is_compared_with_ours() {
    let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(5);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&ahead).unwrap();
    let server = answering(ResponseTemplate::new(200).set_body_json(pod()).insert_header("Date", date)).await;
    let connection = open(options(&server.uri()), Invocation::default()).await;
    assert_eq!(connection.clock_skew(), None);
    pods(&connection.read).get("web-0").await.unwrap();
    let skew = connection.clock_skew().unwrap();
    assert!((skew - jiff::SignedDuration::from_mins(5)).abs() < jiff::SignedDuration::from_secs(3), "{skew}");
}

fn kubeconfig(dir: &std::path::Path, server: &str, token: &str) -> std::path::PathBuf {
    let file = dir.join("config");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "one", "user": "ann"}}],
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "users": [{"name": "ann", "user": {"token": token}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    file
}

async fn only_token(token: &str) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(header("authorization", format!("Bearer {token}").as_str()))
        .respond_with(ResponseTemplate::new(200).set_body_json(pod()))
        .with_priority(1)
        .mount(&server)
        .await;
    let unauthorized = json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"});
    Mock::given(path("/api/v1/namespaces/shop/pods/web-0"))
        .respond_with(ResponseTemplate::new(401).set_body_json(unauthorized))
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn a_401_is_answered_with_new_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let server = only_token("new").await;
    let file = kubeconfig(dir.path(), &server.uri(), "old");
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let connection = open(options, Invocation::default()).await;
    // Somebody logs in again in another terminal.
    kubeconfig(dir.path(), &server.uri(), "new");
    pods(&connection.write).get("web-0").await.unwrap();
    pods(&connection.read).get("web-0").await.unwrap();
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
}

#[tokio::test]
async fn credentials_that_stay_wrong_are_renewed_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = only_token("never").await;
    let file = kubeconfig(dir.path(), &server.uri(), "old");
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let connection = open(options, Invocation::default()).await;
    for _ in 0..3 {
        let error = pods(&connection.write).get("web-0").await.unwrap_err();
        assert_eq!(explain(&error), "the API server does not accept the credentials (Unauthorized)");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_kubeconfig_that_leads_elsewhere_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let server = only_token("new").await;
    let file = kubeconfig(dir.path(), &server.uri(), "old");
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let connection = open(options, Invocation::default()).await;
    kubeconfig(dir.path(), "https://other:6443", "new");
    let error = connection.reconnect().await.unwrap_err();
    assert!(matches!(error, ConnectError::ServerChanged { .. }));
    let error = pods(&connection.write).get("web-0").await.unwrap_err();
    assert!(explain(&error).contains("now leads to https://other:6443"), "{}", explain(&error));
}

#[tokio::test]
async fn a_failing_credential_plugin_is_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "one", "user": "ann"}}],
        "clusters": [{"name": "one", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "ann", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
            "args": ["-c", "echo 'session expired, log in again' >&2; exit 3"],
        }}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let error = Connection::open(options, Environment::default(), Invocation::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot get the credentials of user \"ann\": "), "{text}");
    assert!(text.ends_with("session expired, log in again"), "{text}");
}

#[tokio::test]
async fn a_credential_plugin_runs_once_and_again_after_a_401_or_before_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = only_token("t3").await;
    let count = dir.path().join("count");
    // The first token is about to end, the second is refused, the third is right.
    let script = format!(
        r#"echo run >> {count}
        n=$(wc -l < {count} | tr -d ' ')
        case $n in 1) end='"{soon}"' ;; *) end='"2999-01-01T00:00:00Z"' ;; esac
        echo "{{\"status\": {{\"token\": \"t$n\", \"expirationTimestamp\": $end}}}}""#,
        count = count.display(),
        soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(30),
    );
    let file = dir.path().join("config");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "one", "user": "ann"}}],
        "clusters": [{"name": "one", "cluster": {"server": server.uri()}}],
        "users": [{"name": "ann", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        }}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(file), ..ConnectOptions::default() };
    let connection = open(options, Invocation::default()).await;
    let runs = || std::fs::read_to_string(&count).unwrap().lines().count();
    assert_eq!(runs(), 1);
    for _ in 0..3 {
        pods(&connection.write).get("web-0").await.unwrap();
    }
    assert_eq!(runs(), 3);
    assert_eq!(connection.valid_until(), Some("2999-01-01T00:00:00Z".parse().unwrap()));
}

#[tokio::test]
async fn a_given_client_is_wrapped_but_not_rebuilt() {
    let server = answering(ResponseTemplate::new(200).set_body_json(pod())).await;
    let client = kube::Client::try_from(kube::Config::new(server.uri().parse().unwrap())).unwrap();
    let connection = Connection::from_client(client, "shop");
    pods(&connection.read).get("web-0").await.unwrap();
    let seen = server.received_requests().await.unwrap();
    assert!(seen[0].headers.contains_key("user-agent"));
    assert!(matches!(connection.reconnect().await, Err(ConnectError::NotRebuildable)));
}
