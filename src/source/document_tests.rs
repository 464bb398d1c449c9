//! The error texts of the recommendation file, and the law that any text is answered.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const GOOD: &str = "\
apiVersion: kapr.dev/v1alpha1
kind: Recommendation
metadata: {name: web, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  containers:
  - name: app
    requests: {cpu: 250m, memory: 256Mi}
    limits: {memory: 512Mi}
  policy:
    steps: [10%, 3, '100%']
    pause: 1m
    maxInFlight: 8
    allowOneWay: true
    onDeferred: skip
";

fn show(content: &str) -> String {
    match read("web.yaml", content, "default") {
        Err(complaint) => complaint.to_string(),
        Ok(all) => all.iter().map(show_one).collect::<Vec<_>>().join("\n"),
    }
}

fn show_one(wanted: &Wanted) -> String {
    let made = &wanted.recommendation;
    let containers = made.containers().iter().map(|(name, block)| format!("{name}={block}")).collect::<Vec<_>>();
    format!("{} {}/{} {}", wanted.origin, made.workload.namespace, made.workload, containers.join(" "))
}

/// The good file with one text replaced by another.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old:?} is not in the file");
    show(&GOOD.replacen(old, new, 1))
}

#[test]
fn a_good_file_is_read() {
    assert_eq!(show(GOOD), "web.yaml:1 shop/deployment/web app=requests.cpu=250m,requests.memory=256Mi,limits.memory=512Mi");
    let policy = read("web.yaml", GOOD, "default").unwrap().remove(0).policy;
    assert_eq!(policy.steps.unwrap().to_string(), "10%,3,100%");
    assert_eq!(policy.pause, Some(std::time::Duration::from_mins(1)));
    assert_eq!((policy.max_in_flight, policy.allow_one_way), (Some(8), Some(true)));
}

#[test]
fn the_same_as_json_is_read() {
    let json = r#"{"apiVersion":"kapr.dev/v1alpha1","kind":"Recommendation",
	"spec":{"workload":{"kind":"StatefulSet","name":"db"},"containers":[{"name":"app","requests":{"cpu":0.5}}],
	"policy":{"minReady":"10s","onlyCurrent":false}}}"#;
    assert_eq!(show(json), "web.yaml:1 default/statefulset/db app=requests.cpu=500m");
}

#[test]
fn quantities_are_exact_whether_text_or_number() {
    for (text, want) in [("0.1", "100m"), ("1", "1"), ("1e3", "1000"), ("\"2\"", "2"), ("0.0001", "1m"), ("+.5", "500m")] {
        assert!(with("cpu: 250m", &format!("cpu: {text}")).contains(&format!("app=requests.cpu={want},")), "{text}");
    }
    // A float would make 9007199254740992 of it.
    assert!(with("limits: {memory: 512Mi}", "limits: {memory: 9007199254740993}").contains("limits.memory=9007199254740993"));
}

#[test]
fn several_documents_and_lists_are_read() {
    let second = GOOD.replace("name: web}\n  cont", "name: api}\n  cont");
    assert_snapshot!(show(&format!("---\n---\n{GOOD}---\n{second}")), @"");
    let items = GOOD.lines().map(|line| format!("  {line}\n")).collect::<String>().replacen("  api", "- api", 1);
    assert_snapshot!(show(&format!("apiVersion: v1\nkind: List\nmetadata: {{}}\nitems:\n{items}")), @"");
    assert_eq!(show(""), "");
}

#[test]
fn unknown_fields_name_the_nearest() {
    assert_snapshot!(with("cpu:", "cpuu:"), @"");
    assert_snapshot!(with("limits: {memory", "limits: {ephemeral-storage"), @"");
    assert_snapshot!(with("limits: {", "resources: {"), @"");
    assert_snapshot!(with("pause:", "pauses:"), @"");
    assert_snapshot!(with("spec:", "spce:"), @"");
    assert_snapshot!(with("kind: Deployment, name", "namespace: shop, kind: Deployment, name"), @"");
}

#[test]
fn wrong_values_are_shown_in_their_line() {
    assert_snapshot!(with("250m", "250x"), @"");
    assert_snapshot!(with("memory: 256Mi", "memory: 256m"), @"");
    assert_snapshot!(with("cpu: 250m", "cpu: [1]"), @"");
    assert_snapshot!(with("cpu: 250m", "cpu: -1"), @"");
    assert_snapshot!(with("memory: 256Mi", "memory: 1Gi"), @"");
    assert_snapshot!(with("    requests: {cpu: 250m, memory: 256Mi}\n    limits: {memory: 512Mi}\n", ""), @"");
    assert_snapshot!(with("name: app", "name: App"), @"");
    assert_snapshot!(with("name: web}\n  cont", "name: We b}\n  cont"), @"");
    assert_snapshot!(with("namespace: shop", "namespace: Shop"), @"");
    assert_snapshot!(with("  - name: app", "  - name: app\n    limits: {cpu: 1}\n  - name: app"), @"");
    assert_snapshot!(with("cpu: 250m", "cpu: 250m, cpu: 1"), @"");
}

#[test]
fn wrong_policies_are_shown_in_their_line() {
    assert_snapshot!(with("pause: 1m", "pause: 60"), @"");
    assert_snapshot!(with("[10%, 3, '100%']", "[50%, 25%]"), @"");
    assert_snapshot!(with("[10%, 3, '100%']", "10%,100%"), @"");
    assert_snapshot!(with("maxInFlight: 8", "maxInFlight: many"), @"");
    assert_snapshot!(with("maxInFlight: 8", "maxInFlight: 0"), @"");
    assert_snapshot!(with("allowOneWay: true", "allowOneWay: 'true'"), @"");
    assert_snapshot!(with("onDeferred: skip", "onDeferred: skp"), @"");
    assert_snapshot!(with("onDeferred: skip", "onDeferred: [skip]"), @"");
}

#[test]
fn other_objects_are_told_what_is_expected() {
    assert_snapshot!(show("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"), @"");
    assert_snapshot!(with("kind: Recommendation", "kind: Recomendation"), @"");
    assert_snapshot!(with("v1alpha1", "v1"), @"");
    assert_snapshot!(with("kind: Recommendation\n", ""), @"");
    assert_snapshot!(show(&format!("{GOOD}---\njust text\n")), @"");
    assert_snapshot!(show("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]"), @"");
    assert_snapshot!(with("kind: Deployment", "kind: deployment"), @"");
    assert_snapshot!(with("kind: Deployment", "kind: CronJob"), @"");
    assert_snapshot!(with("apps/v1", "apps/v1beta1"), @"");
    assert_snapshot!(with("  workload: {apiVersion: apps/v1, kind: Deployment, name: web}\n", ""), @"");
    assert_snapshot!(with("containers:\n  - name: app", "containers:\n  - nam: app"), @"");
}

#[test]
fn text_that_is_not_yaml_is_shown_where_it_breaks() {
    assert_snapshot!(with("{memory: 512Mi}", "{memory: 512Mi"), @"");
    assert_snapshot!(show("a: b: c\n"), @"");
    assert_snapshot!(show("a: 1\n\tb: 2\n"), @"");
    assert_snapshot!(show("kind: x\0y\n"), @"");
    assert_snapshot!(with("cpu: 250m", "cpu: \"\\e[31m\\u202e\""), @"");
}

#[test]
fn a_hundred_thousand_containers_are_refused() {
    let many = (0..100_000).map(|i| format!("{{name: c{i}, limits: {{cpu: 1}}}}, ")).collect::<String>();
    let complaint = with("\n  - name: app\n    requests: {cpu: 250m, memory: 256Mi}\n    limits: {memory: 512Mi}\n", &format!(" [{many}]\n"));
    let first = complaint.lines().next().unwrap();
    assert_eq!(first, "web.yaml:6:15: spec.containers names 100000 containers: at most 256 are allowed");
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "(.|\n){0,200}") {
        let _ = show(&text);
    }

    /// Cutting, doubling and replacing pieces of a good file reaches the readers behind the parser.
    #[test]
    fn any_damage_is_answered_without_control_characters(
        start in 0usize..400, length in 0usize..60, put in "(.|[\\x00-\\x1f]|: |- |\\{|\\[|&a |\\*a){0,12}",
    ) {
        let start = start.min(GOOD.len());
        let end = (start + length).min(GOOD.len());
        let text = show(&format!("{}{put}{}", &GOOD[..start], &GOOD[end..]));
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{:?}", text);
    }
}
