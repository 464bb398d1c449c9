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
    assert_eq!(
        show(GOOD),
        "web.yaml:1 shop/deployment/web app=requests.cpu=250m,requests.memory=256Mi,limits.memory=512Mi"
    );
    let policy = read("web.yaml", GOOD, "default").unwrap().remove(0).policy;
    assert_eq!(policy.steps.unwrap().to_string(), "10%,3,100%");
    assert_eq!(policy.pause, Some(std::time::Duration::from_mins(1)));
    assert_eq!((policy.max_in_flight, policy.allow_one_way), (Some(8), Some(true)));
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let page = include_str!("../../docs/recommendation.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(show(example), show(GOOD));
    for field in policy_part::known_fields() {
        assert!(page.contains(&format!("| `{field}` | `--")), "{field} is not in docs/recommendation.md");
    }
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
    for (text, want) in
        [("0.1", "100m"), ("1", "1"), ("1e3", "1000"), ("\"2\"", "2"), ("0.0001", "1m"), ("+.5", "500m")]
    {
        assert!(with("cpu: 250m", &format!("cpu: {text}")).contains(&format!("app=requests.cpu={want},")), "{text}");
    }
    // A float would make 9007199254740992 of it.
    assert!(
        with("limits: {memory: 512Mi}", "limits: {memory: 9007199254740993}")
            .contains("limits.memory=9007199254740993")
    );
}

#[test]
fn several_documents_and_lists_are_read() {
    let second = GOOD.replace("name: web}\n  cont", "name: api}\n  cont");
    assert_snapshot!(show(&format!("---\n---\n{GOOD}---\n{second}")), @r"
    web.yaml:3 shop/deployment/web app=requests.cpu=250m,requests.memory=256Mi,limits.memory=512Mi
    web.yaml:19 shop/deployment/api app=requests.cpu=250m,requests.memory=256Mi,limits.memory=512Mi
    ");
    let items = format!("- {}", GOOD.trim_end().replace('\n', "\n  "));
    assert_snapshot!(show(&format!("apiVersion: v1\nkind: List\nmetadata: {{}}\nitems:\n{items}")), @"web.yaml:5 shop/deployment/web app=requests.cpu=250m,requests.memory=256Mi,limits.memory=512Mi");
    assert_eq!(show(""), "");
}

#[test]
fn unknown_fields_name_the_nearest() {
    assert_snapshot!(with("cpu:", "cpuu:"), @r#"
    web.yaml:8:16: unknown field "cpuu" in requests; did you mean "cpu"?
      |
    8 |     requests: {cpuu: 250m, memory: 256Mi}
      |                ^^^^
    "#);
    assert_snapshot!(with("limits: {memory", "limits: {ephemeral-storage"), @r#"
    web.yaml:9:14: unknown field "ephemeral-storage" in limits; fields here are cpu, memory
      |
    9 |     limits: {ephemeral-storage: 512Mi}
      |              ^^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(with("limits: {", "resources: {"), @r"
    web.yaml:9:5: requests and limits stand beside the name here, not under resources
      |
    9 |     resources: {memory: 512Mi}
      |     ^^^^^^^^^
    ");
    assert_snapshot!(with("pause:", "pauses:"), @r#"
    web.yaml:12:5: unknown field "pauses" in spec.policy; did you mean "pause"?
       |
    12 |     pauses: 1m
       |     ^^^^^^
    "#);
    assert_snapshot!(with("spec:", "spce:"), @r#"
    web.yaml:4:1: unknown field "spce" in Recommendation; did you mean "spec"?
      |
    4 | spce:
      | ^^^^
    "#);
    assert_snapshot!(with("kind: Deployment, name", "namespace: shop, kind: Deployment, name"), @r"
    web.yaml:5:35: the namespace of a recommendation is written as metadata.namespace
      |
    5 |   workload: {apiVersion: apps/v1, namespace: shop, kind: Deployment, name: web}
      |                                   ^^^^^^^^^
    ");
}

#[test]
fn wrong_values_are_shown_in_their_line() {
    assert_snapshot!(with("250m", "250x"), @r#"
    web.yaml:8:21: requests.cpu: "250x" is not a quantity: unknown unit "x" (units are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)
      |
    8 |     requests: {cpu: 250x, memory: 256Mi}
      |                     ^^^^
    "#);
    assert_snapshot!(with("memory: 256Mi", "memory: 256m"), @r#"
    web.yaml:8:35: requests.memory: "256m" of memory is a fraction of a byte; did you mean 256Mi?
      |
    8 |     requests: {cpu: 250m, memory: 256m}
      |                                   ^^^^
    "#);
    assert_snapshot!(with("cpu: 250m", "cpu: [1]"), @r"
    web.yaml:8:21: requests.cpu must be a single value, not a list
      |
    8 |     requests: {cpu: [1], memory: 256Mi}
      |                     ^
    ");
    assert_snapshot!(with("cpu: 250m", "cpu: -1"), @r#"
    web.yaml:8:21: requests.cpu: "-1" is negative: an amount of CPU or memory is zero or more
      |
    8 |     requests: {cpu: -1, memory: 256Mi}
      |                     ^^
    "#);
    assert_snapshot!(with("memory: 256Mi", "memory: 1Gi"), @r#"
    web.yaml:7:11: container "app": requests.memory 1Gi is above limits.memory 512Mi
      |
    7 |   - name: app
      |           ^^^
    "#);
    assert_snapshot!(with("    requests: {cpu: 250m, memory: 256Mi}\n    limits: {memory: 512Mi}\n", ""), @r#"
    web.yaml:7:11: container "app": no request and no limit is named; write at least one of requests.cpu, requests.memory, limits.cpu, limits.memory
      |
    7 |   - name: app
      |           ^^^
    "#);
}

#[test]
fn wrong_and_repeated_names_are_shown_in_their_line() {
    assert_snapshot!(with("name: app", "name: App"), @r#"
    web.yaml:7:11: container name "App" is not a valid name: lower-case letters, digits, '-' and '.' only, at most 63 characters
      |
    7 |   - name: App
      |           ^^^
    "#);
    assert_snapshot!(with("name: web}\n  cont", "name: We b}\n  cont"), @r#"
    web.yaml:5:59: workload name "We b" is not a valid name: lower-case letters, digits, '-' and '.' only, at most 253 characters
      |
    5 | ad: {apiVersion: apps/v1, kind: Deployment, name: We b}
      |                                                   ^^^^
    "#);
    assert_snapshot!(with("namespace: shop", "namespace: Shop"), @r#"
    web.yaml:3:34: namespace "Shop" is not a valid name: lower-case letters, digits, '-' and '.' only, at most 63 characters
      |
    3 | metadata: {name: web, namespace: Shop}
      |                                  ^^^^
    "#);
    assert_snapshot!(with("  - name: app", "  - name: app\n    limits: {cpu: 1}\n  - name: app"), @r#"
    web.yaml:9:11: container "app" is there twice, first on line 7
      |
    9 |   - name: app
      |           ^^^
    "#);
    assert_snapshot!(with("cpu: 250m", "cpu: 250m, cpu: 1"), @r#"
    web.yaml:8:27: field "cpu" is there twice, first on line 8
      |
    8 |     requests: {cpu: 250m, cpu: 1, memory: 256Mi}
      |                           ^^^
    "#);
}

#[test]
fn wrong_policies_are_shown_in_their_line() {
    assert_snapshot!(with("pause: 1m", "pause: 60"), @r#"
    web.yaml:12:12: spec.policy.pause: "60" is not a duration: write a number with a unit, such as 30s, 5m or 1h30m
       |
    12 |     pause: 60
       |            ^^
    "#);
    assert_snapshot!(with("[10%, 3, '100%']", "[50%, 25%]"), @r"
    web.yaml:11:12: spec.policy.steps: step 25% comes after 50% but is smaller: steps only grow
       |
    11 |     steps: [50%, 25%]
       |            ^
    ");
    assert_snapshot!(with("[10%, 3, '100%']", "10%,100%"), @r#"
    web.yaml:11:12: spec.policy.steps: "10%,100%" is not a list
       |
    11 |     steps: 10%,100%
       |            ^^^^^^^^
    "#);
    assert_snapshot!(with("maxInFlight: 8", "maxInFlight: many"), @r#"
    web.yaml:13:18: spec.policy.maxInFlight: "many" is not a whole number
       |
    13 |     maxInFlight: many
       |                  ^^^^
    "#);
    assert_snapshot!(with("maxInFlight: 8", "maxInFlight: 0"), @r"
    web.yaml:13:18: spec.policy.maxInFlight: 0 would never let the run go on: write 1 or more
       |
    13 |     maxInFlight: 0
       |                  ^
    ");
    assert_snapshot!(with("allowOneWay: true", "allowOneWay: 'true'"), @r#"
    web.yaml:14:18: spec.policy.allowOneWay: "true" is not true or false
       |
    14 |     allowOneWay: 'true'
       |                  ^^^^^^
    "#);
    assert_snapshot!(with("onDeferred: skip", "onDeferred: skp"), @r#"
    web.yaml:15:17: spec.policy.onDeferred: "skp" is not known here; did you mean "skip"?
       |
    15 |     onDeferred: skp
       |                 ^^^
    "#);
    assert_snapshot!(with("onDeferred: skip", "onDeferred: [skip]"), @r"
    web.yaml:15:17: spec.policy.onDeferred: a list is not a single word
       |
    15 |     onDeferred: [skip]
       |                 ^
    ");
}

#[test]
fn other_objects_are_told_what_is_expected() {
    assert_snapshot!(show("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"), @r#"
    web.yaml:2:7: document 1 is a "Deployment" of "apps/v1"; expected kind Recommendation of kapr.dev/v1alpha1
      |
    2 | kind: Deployment
      |       ^^^^^^^^^^
    "#);
    assert_snapshot!(with("kind: Recommendation", "kind: Recomendation"), @r#"
    web.yaml:2:7: document 1 has kind "Recomendation", expected kind Recommendation of kapr.dev/v1alpha1; did you mean "Recommendation"?
      |
    2 | kind: Recomendation
      |       ^^^^^^^^^^^^^
    "#);
    assert_snapshot!(with("v1alpha1", "v1"), @r#"
    web.yaml:1:13: document 1 has apiVersion "kapr.dev/v1", expected kind Recommendation of kapr.dev/v1alpha1
      |
    1 | apiVersion: kapr.dev/v1
      |             ^^^^^^^^^^^
    "#);
    assert_snapshot!(with("kind: Recommendation\n", ""), @r"
    web.yaml:1:1: document 1 has no kind; expected kind Recommendation of kapr.dev/v1alpha1
      |
    1 | apiVersion: kapr.dev/v1alpha1
      | ^
    ");
    assert_snapshot!(show(&format!("{GOOD}---\njust text\n")), @r"
    web.yaml:17:1: document 2 is a single value; expected kind Recommendation of kapr.dev/v1alpha1
       |
    17 | just text
       | ^^^^^^^^^
    ");
    assert_snapshot!(show("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]"), @r"
    web.yaml:3:9: item 1 of document 1 is a List in a List
      |
    3 | items: [{apiVersion: v1, kind: List, items: []}]
      |         ^
    ");
}

#[test]
fn wrong_workloads_are_told_what_is_expected() {
    assert_snapshot!(with("kind: Deployment", "kind: deployment"), @r#"
    web.yaml:5:41: spec.workload.kind "deployment" cannot be resized; did you mean "Deployment"?
      |
    5 |   workload: {apiVersion: apps/v1, kind: deployment, name: web}
      |                                         ^^^^^^^^^^
    "#);
    assert_snapshot!(with("kind: Deployment", "kind: CronJob"), @r#"
    web.yaml:5:41: spec.workload.kind "CronJob" cannot be resized; kinds here are Deployment, StatefulSet, DaemonSet, ReplicaSet
      |
    5 |   workload: {apiVersion: apps/v1, kind: CronJob, name: web}
      |                                         ^^^^^^^
    "#);
    assert_snapshot!(with("apps/v1", "apps/v1beta1"), @r#"
    web.yaml:5:26: spec.workload.apiVersion is "apps/v1beta1"; workloads here are of apps/v1
      |
    5 |   workload: {apiVersion: apps/v1beta1, kind: Deployment, name: web}
      |                          ^^^^^^^^^^^^
    "#);
    assert_snapshot!(with("  workload: {apiVersion: apps/v1, kind: Deployment, name: web}\n", ""), @r"
    web.yaml:5:3: spec has no workload
      |
    5 |   containers:
      |   ^
    ");
    assert_snapshot!(with("containers:\n  - name: app", "containers:\n  - nam: app"), @r#"
    web.yaml:7:5: unknown field "nam" in spec.containers; did you mean "name"?
      |
    7 |   - nam: app
      |     ^^^
    "#);
}

#[test]
fn text_that_is_not_yaml_is_shown_where_it_breaks() {
    assert_snapshot!(with("{memory: 512Mi}", "{memory: 512Mi"), @r"
    web.yaml:10:9: not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'
       |
    10 |   policy:
       |         ^
    ");
    assert_snapshot!(show("a: b: c\n"), @r"
    web.yaml:1:5: not valid YAML: mapping values are not allowed in this context
      |
    1 | a: b: c
      |     ^
    ");
    assert_snapshot!(show("a: 1\n\tb: 2\n"), @r"
    web.yaml:1:4: not valid YAML: while scanning a plain scalar, found a tab
      |
    1 | a: 1
      |    ^
    ");
    assert_snapshot!(show("kind: x\0y\n"), @"web.yaml: not a text file: there is a NUL byte on line 1");
    assert_snapshot!(with("cpu: 250m", "cpu: \"\\e[31m\\u202e\""), @r#"
    web.yaml:8:21: requests.cpu: "\u{1b}[31m\u{202e}" is not a quantity: write a number with an optional unit, such as 250m, 0.5 or 256Mi
      |
    8 |     requests: {cpu: "\e[31m\u202e", memory: 256Mi}
      |                     ^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_hundred_thousand_containers_are_refused() {
    let many = (0..100_000).map(|i| format!("{{name: c{i}, limits: {{cpu: 1}}}}")).collect::<Vec<_>>().join(", ");
    let complaint = with(
        "\n  - name: app\n    requests: {cpu: 250m, memory: 256Mi}\n    limits: {memory: 512Mi}\n",
        &format!(" [{many}]\n"),
    );
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
