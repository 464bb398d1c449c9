//! Files, directories, standard input and addresses: what is read, and the sentence for what is not.

use std::fs;

use insta::assert_snapshot;
use rstest::rstest;
use tempfile::TempDir;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

fn file(name: &str) -> String {
    format!(
        "apiVersion: kapr.dev/v1alpha1\nkind: Recommendation\nspec:\n  workload: {{kind: Deployment, name: {name}}}\n  containers: [{{name: app, limits: {{cpu: 1}}}}]\n"
    )
}

async fn load_with(arguments: &[&str], recursive: bool, mut stdin: &[u8]) -> Result<Vec<Wanted>, SourceError> {
    let files = arguments.iter().map(ToString::to_string).collect::<Vec<_>>();
    load(&Sources { files: &files, recursive, default_namespace: "shop" }, &mut stdin).await
}

fn show(result: Result<Vec<Wanted>, SourceError>) -> String {
    match result {
        Ok(all) => all.iter().map(|one| one.recommendation.workload.name.clone()).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

/// A directory with files that are read, files that are not, and a folder.
fn folder() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    for (name, text) in [("b.yaml", file("b")), ("a.yml", file("a")), ("c.json", file("c")), ("d.txt", "{".into())] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::create_dir(folder.path().join("more")).unwrap();
    fs::write(folder.path().join("more/z.yaml"), file("z")).unwrap();
    let name = folder.path().to_str().unwrap().to_owned();
    (folder, name)
}

async fn in_folder(argument: &str) -> String {
    let (_kept, name) = folder();
    show(load_with(&[&format!("{name}/{argument}")], false, b"").await).replace(&name, "DIR")
}

#[tokio::test]
async fn files_come_sorted_and_folders_only_when_asked() {
    let (_kept, name) = folder();
    assert_eq!(show(load_with(&[&name], false, b"").await), "a b c");
    assert_eq!(show(load_with(&[&name], true, b"").await), "a b c z");
    let both = [format!("{name}/b.yaml"), format!("{name}/d.txt")];
    fs::write(&both[1], file("d")).unwrap();
    assert_eq!(show(load_with(&[&both[1], "-", &both[0]], false, file("s").as_bytes()).await), "d s b");
}

#[tokio::test]
async fn the_namespace_is_the_default() {
    let wanted = load_with(&["-"], false, file("web").as_bytes()).await.unwrap().remove(0);
    assert_eq!(wanted.recommendation.workload.namespace, "shop");
    assert_eq!(wanted.origin.to_string(), "standard input:1");
}

#[tokio::test]
async fn what_cannot_be_read_is_one_sentence() {
    assert_snapshot!(in_folder("missing.yaml").await, @"DIR/missing.yaml does not exist");
    assert_snapshot!(in_folder("b.yaml/x").await, @"cannot read DIR/b.yaml/x");
    let (_kept, name) = folder();
    fs::create_dir(format!("{name}/empty")).unwrap();
    assert_snapshot!(show(load_with(&[&format!("{name}/empty")], false, b"").await).replace(&name, "DIR"), @"directory DIR/empty has no .yaml, .yml or .json file");
    assert_snapshot!(show(load_with(&["-"], false, b"# nothing\n").await), @"standard input holds no recommendation: write one of kind Recommendation, apiVersion kapr.dev/v1alpha1");
    assert_snapshot!(show(load_with(&["-"], false, b"a: 1\nb: \xff\xfe\n").await), @"standard input is not a text file: line 2 is not valid UTF-8");
    assert_snapshot!(show(load_with(&["-", "-"], false, file("a").as_bytes()).await), @"-f - is given twice: standard input can be read once");
    let twice = format!("{}---\n{}", file("web"), file("web"));
    assert_snapshot!(show(load_with(&["-"], false, twice.as_bytes()).await), @"deployment/web in namespace shop is recommended for twice: standard input:1 and standard input:7");
}

#[tokio::test]
async fn what_is_too_large_is_not_read() {
    let (_kept, name) = folder();
    let large = fs::File::create(format!("{name}/large.yaml")).unwrap();
    large.set_len(5 << 20).unwrap();
    assert_snapshot!(show(load_with(&[&format!("{name}/large.yaml")], false, b"").await).replace(&name, "DIR"), @"DIR/large.yaml is 5.0 MiB: a recommendation file may be at most 4 MiB");
    let files = ["-".to_owned()];
    let sources = Sources { files: &files, recursive: false, default_namespace: "shop" };
    assert_snapshot!(load(&sources, &mut io::repeat(b'#')).await.unwrap_err(), @"standard input is more than 4.0 MiB: a recommendation file may be at most 4 MiB");
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_that_never_ends_is_left() {
    assert_snapshot!(show(load_with(&["/dev/zero"], false, b"").await), @"/dev/zero is more than 4.0 MiB: a recommendation file may be at most 4 MiB");
}

#[test]
fn set_makes_a_recommendation() {
    let workload = || WorkloadRef {
        kind: crate::core::workload::WorkloadKind::Deployment,
        namespace: "shop".into(),
        name: "web".into(),
    };
    let make = |text: &str| from_set(&[text.to_owned()], workload());
    assert_eq!(make("app=limits.cpu=1").unwrap().origin.to_string(), "--set");
    assert_snapshot!(make("app=requests.cpu=2,limits.cpu=1").unwrap_err(), @r#"--set: container "app": requests.cpu 2 is above limits.cpu 1"#);
    assert_snapshot!(make("a b=requests.cpu=2").unwrap_err(), @r#"--set: container name "a b" is not a valid name: lower-case letters, digits, '-' and '.' only, at most 63 characters"#);
    assert_snapshot!(from_set(&[], workload()).unwrap_err(), @"--set: recommendation for deployment/web names no container: write at least one under spec.containers, or use --set");
}

/// A server whose `/file` answers with `response`; the message with the server's address replaced.
async fn from_server(response: ResponseTemplate) -> String {
    let server = MockServer::start().await;
    Mock::given(path("/file")).respond_with(response).mount(&server).await;
    Mock::given(path("/moved"))
        .respond_with(ResponseTemplate::new(200).set_body_string(file("moved")))
        .mount(&server)
        .await;
    let argument = format!("{}/file?token=secret", server.uri());
    show(load_with(&[&argument], false, b"").await).replace(&server.uri(), "SERVER")
}

#[tokio::test]
async fn an_address_is_read() {
    assert_eq!(from_server(ResponseTemplate::new(200).set_body_string(file("web"))).await, "web");
    assert_eq!(from_server(ResponseTemplate::new(302).insert_header("location", "/moved")).await, "moved");
}

#[tokio::test]
async fn an_address_that_gives_none_is_one_sentence() {
    let ok = || ResponseTemplate::new(200);
    assert_snapshot!(from_server(ResponseTemplate::new(404)).await, @"SERVER/file?... answered 404 Not Found: check the address, and whether it needs a login");
    assert_snapshot!(from_server(ok().set_body_raw("hello", "text/html; charset=utf-8")).await, @"SERVER/file?... answered with a web page, not a recommendation: use the address of the file itself");
    assert_snapshot!(from_server(ok().set_body_string("\n<!DOCTYPE html>")).await, @"SERVER/file?... answered with a web page, not a recommendation: use the address of the file itself");
    assert_snapshot!(from_server(ok().set_body_bytes(vec![b'#'; 5 << 20])).await, @"SERVER/file?... is more than 4.0 MiB: a recommendation file may be at most 4 MiB");
    assert_snapshot!(from_server(ok().set_body_string("spec: {")).await, @r"
    SERVER/file?...:1:7: not valid YAML: unclosed bracket '{'
      |
    1 | spec: {
      |       ^
    ");
    assert_snapshot!(from_server(ResponseTemplate::new(302).insert_header("location", "http://example.com/x")).await, @"cannot get SERVER/file?... (it redirects too often, or to an address that is not https)");
    assert_snapshot!(from_server(ResponseTemplate::new(302).insert_header("location", "/file")).await, @"cannot get SERVER/file?... (it redirects too often, or to an address that is not https)");
}

#[rstest]
#[case(
    "http://example.com/web.yaml",
    "http://example.com/web.yaml is not read: use https, or http on this machine only"
)]
#[case("ftp://example.com/web.yaml", "ftp://example.com/web.yaml is not read: use https, or http on this machine only")]
#[case(
    "http://127.0.0.1.example.com/x",
    "http://127.0.0.1.example.com/x is not read: use https, or http on this machine only"
)]
#[case("https://", "https:// is not an address that can be read: empty host")]
#[case("http://user:secret@127.0.0.1:1/x", "cannot get http://127.0.0.1:1/x (no connection)")]
#[tokio::test]
async fn addresses_that_are_not_read(#[case] argument: &str, #[case] want: &str) {
    assert_eq!(show(load_with(&[argument], false, b"").await), want);
}
