//! Plans at 11 and 500 pods.

use rstest::rstest;

use super::*;
use crate::core::plan::plan;
use crate::core::pod::PodPhase;
use crate::core::workload::Rival;
use crate::render::pictures;

fn view(
    count: usize,
    target: &[(&str, &str)],
    refused: &[ServerRefusal],
    show: impl Fn(&PlanView<'_>) -> String,
) -> String {
    let mut pods = pictures::pods(count);
    pods[1].phase = PodPhase::Pending;
    pods[2].ready_since = None;
    pictures::bring_to_target(&mut pods[3], target);
    pods[4].containers.get_mut("app").unwrap().restarts_on.cpu = true;
    let mut workload = pictures::workload();
    workload.rivals = vec![Rival::Hpa { name: "payments".into(), cpu: true, memory: false }];
    let (target, policy) = (pictures::containers(target), Policy::default());
    let plan = plan(&workload, &pods, &target, &policy, 37);
    show(&PlanView {
        context: Some("kind-shop"),
        workload: &workload.reference,
        revision: &pictures::revision('3'),
        target: &target,
        plan: &plan,
        policy: &policy,
        refused,
        too_large: &["pod payments-7d4b9c6f5-zbqdb: node didn't have enough allocatable resources: cpu".to_owned()],
    })
}

const ADDS: &[(&str, &str)] = &[("app", "requests.cpu=25m,limits.cpu=50m,limits.memory=128Mi")];

#[rstest]
#[case("one_11x80", 11, pictures::ONE, 80)]
#[case("one_500x80", 500, pictures::ONE, 80)]
#[case("adds_11x80", 11, ADDS, 80)]
#[case("adds_11x140", 11, ADDS, 140)]
fn tables(#[case] name: &str, #[case] pods: usize, #[case] target: &[(&str, &str)], #[case] columns: usize) {
    let text = view(pods, target, &[], |view| table(view, false, columns));
    pictures::assert_fits(&text, columns);
    insta::assert_snapshot!(format!("plan_{name}"), text);
}

#[test]
fn wide_has_every_pod_and_its_sentences() {
    let text = view(500, pictures::ONE, &[], |view| table(view, true, 80));
    assert_eq!(text.lines().filter(|line| line.starts_with("payments-")).count(), 500);
    assert!(text.contains("HorizontalPodAutoscaler \"payments\" scales on a share of requests.cpu"), "{text}");
}

#[test]
fn what_the_server_refuses_is_told_and_made_safe() {
    let refused = ServerRefusal {
        pod: "payments-0".into(),
        pods: 9,
        code: "resource-quota",
        message: "a ResourceQuota forbids it: \x1b[2Jexceeded quota".into(),
    };
    let text = view(11, pictures::ONE, std::slice::from_ref(&refused), |view| table(view, false, usize::MAX));
    assert!(text.contains("server     pod payments-0 (and 8 like it): a ResourceQuota forbids it: \\x1b[2J"), "{text}");
    assert!(text.ends_with("8 to change, 1 at target, 2 refused; the API server would refuse 9 of those to change\n"));
    let json = view(11, pictures::ONE, &[refused], |view| json(view).to_string());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["serverRefused"][0]["code"], "resource-quota");
    assert_eq!(json["counts"]["toChange"], 8);
    let verdicts = json["pods"].as_array().unwrap().iter().filter(|pod| pod["verdict"] == "refused");
    let codes = verdicts.map(|pod| pod["refusal"]["code"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(codes, BTreeSet::from(["not-ready".to_owned(), "not-running".to_owned()]));
}
