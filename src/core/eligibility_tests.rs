//! Tables for each refusal and concern, and the laws of a judgement.

use insta::assert_snapshot;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::core::pod::{ContainerEnd, ResizeCondition, RestartsOn};
use crate::core::quantity::{Bytes, Millicores};
use crate::core::testing::{any_block, block, container, containers, pod};

const WEB: [(&str, &str); 2] =
    [("app", "requests.cpu=100m,requests.memory=64Mi,limits.memory=128Mi"), ("log", "requests.cpu=10m,limits.cpu=20m")];

fn context() -> Context<'static> {
    Context { server_minor: 37, template_hash: Some("abc"), ..Context::default() }
}

fn target(text: &str) -> ContainerResources {
    containers(&[("app", text)])
}

/// `code: sentence` of the refusal, or what an eligible pod comes out with.
fn show(result: Result<Eligible, Refusal>) -> String {
    match result {
        Err(refusal) => format!("{}: {refusal}", refusal.code()),
        Ok(eligible) => {
            let changes = eligible.changes.iter().map(|(name, block)| format!("{name}={block}")).collect::<Vec<_>>();
            let concerns = eligible.concerns.iter().map(|c| format!("{}: {c}", c.code())).collect::<Vec<_>>();
            format!(
                "eligible changes={changes:?} restarts={:?} at_target={} {}",
                eligible.restarts,
                eligible.at_target,
                concerns.join(" | ")
            )
        }
    }
}

fn with_pod(change: impl FnOnce(&mut PodView)) -> String {
    let mut pod = pod(&WEB);
    change(&mut pod);
    show(judge(&pod, &target("requests.cpu=200m"), &context()))
}

fn with_context(text: &str, change: impl FnOnce(&mut Context<'_>)) -> String {
    let mut context = context();
    change(&mut context);
    show(judge(&pod(&WEB), &target(text), &context))
}

#[test]
fn an_ordinary_pod_is_eligible() {
    assert_eq!(with_pod(|_| {}), r#"eligible changes=["app=requests.cpu=200m"] restarts=[] at_target=false "#);
    let at_target = judge(&pod(&WEB), &target("requests.cpu=0.1,limits.memory=128Mi"), &context());
    assert_eq!(show(at_target), "eligible changes=[] restarts=[] at_target=true ");
}

#[test]
fn a_pod_that_cannot_be_resized_says_why() {
    let of = |oddity| with_pod(|pod| pod.oddity = Some(oddity));
    assert_snapshot!(of(PodOddity::Mirror), @"mirror-pod: is a static pod: its node's manifest decides its resources");
    assert_snapshot!(of(PodOddity::Windows), @"windows: runs Windows, where in-place resize does not exist");
    assert_snapshot!(of(PodOddity::PodLevelResources), @"pod-level-resources: has resources of its own (spec.resources), which kapr leaves alone");
    assert_snapshot!(with_pod(|pod| pod.ready_since = None), @"not-ready: is not ready: what the change does to it could not be told");
    assert_snapshot!(with_pod(|pod| pod.terminating = true), @"terminating: is being deleted");
}

#[rstest]
#[case(PodPhase::Pending, "not-running: is Pending, not Running")]
#[case(PodPhase::Succeeded, "not-running: is Succeeded, not Running")]
#[case(PodPhase::Failed, "not-running: is Failed, not Running")]
#[case(PodPhase::Unknown, "not-running: is Unknown, not Running")]
fn phases(#[case] phase: PodPhase, #[case] want: &str) {
    assert_eq!(with_pod(|pod| pod.phase = phase), want);
}

#[rstest]
#[case(ContainerState::Waiting { reason: "CrashLoopBackOff".into() }, "CrashLoopBackOff")]
#[case(ContainerState::Waiting { reason: "".into() }, "waiting")]
#[case(ContainerState::Terminated(ContainerEnd { reason: "OOMKilled".into(), exit_code: 137 }), "terminated: OOMKilled")]
#[case(ContainerState::Terminated(ContainerEnd { reason: "".into(), exit_code: 0 }), "terminated")]
#[case(ContainerState::Unknown, "no status yet")]
fn states(#[case] state: ContainerState, #[case] want: &str) {
    let got = with_pod(|pod| pod.containers.get_mut("app").unwrap().state = state);
    assert_eq!(got, format!("container-not-running: container \"app\" is not running ({want})"));
}

#[test]
fn containers_are_found_or_named() {
    let judge_named = |name: &str| {
        let mut pod = pod(&WEB);
        let mut init = container(block("requests.cpu=1"));
        init.role = ContainerRole::Init;
        pod.containers.insert("migrate".into(), init);
        show(judge(&pod, &containers(&[(name, "requests.cpu=200m")]), &context()))
    };
    assert_snapshot!(judge_named("apq"), @r#"container-missing: has no container "apq"; did you mean "app"?"#);
    assert_snapshot!(judge_named("nginx"), @r#"container-missing: has no container "nginx""#);
    assert_snapshot!(judge_named("migrate"), @r#"init-container: container "migrate" is an init container: only containers and sidecars are resized"#);
}

#[test]
fn a_sidecar_is_a_target() {
    let mut pod = pod(&WEB);
    pod.containers.get_mut("app").unwrap().role = ContainerRole::Sidecar;
    assert!(judge(&pod, &target("requests.cpu=200m"), &context()).is_ok());
}

#[test]
fn who_else_acts_on_it() {
    let vpa = |mode: &str| [Rival::Vpa { name: "web".into(), mode: mode.into() }];
    let hpa = [Rival::Hpa { name: "web".into(), cpu: true, memory: true }];
    let cpu = "requests.cpu=200m";
    let rivals = |rivals: &[Rival]| show(judge(&pod(&WEB), &target(cpu), &Context { rivals, ..context() }));
    assert_snapshot!(rivals(&vpa("Recreate")), @r#"managed-by-vpa: VerticalPodAutoscaler "web" in mode Recreate sets its resources; set its updateMode to Off or Initial first"#);
    assert_snapshot!(rivals(&vpa("Auto")), @r#"managed-by-vpa: VerticalPodAutoscaler "web" in mode Auto sets its resources; set its updateMode to Off or Initial first"#);
    assert_snapshot!(rivals(&vpa("InPlaceOrRecreate")), @r#"managed-by-vpa: VerticalPodAutoscaler "web" in mode InPlaceOrRecreate sets its resources; set its updateMode to Off or Initial first"#);
    assert_snapshot!(rivals(&vpa("Initial")), @r#"eligible changes=["app=requests.cpu=200m"] restarts=[] at_target=false vpa-initial: VerticalPodAutoscaler "web" in mode Initial gives new pods its own values"#);
    assert_snapshot!(rivals(&vpa("Off")), @r#"eligible changes=["app=requests.cpu=200m"] restarts=[] at_target=false"#);
    assert_snapshot!(rivals(&hpa), @r#"eligible changes=["app=requests.cpu=200m"] restarts=[] at_target=false hpa: HorizontalPodAutoscaler "web" scales on a share of requests.cpu: changing it changes the number of pods"#);
    assert_snapshot!(with_context(cpu, |context| context.held_by = Some("deployment/web #3")), @"touched-by-other-run: is held by run deployment/web #3, which is not finished");
}

#[test]
fn older_templates() {
    let old = |only_current| {
        with_context("requests.cpu=200m", |context| {
            context.template_hash = Some("newer");
            context.only_current = only_current;
        })
    };
    assert_snapshot!(old(true), @"older-template: belongs to an older template (--only-current leaves it alone)");
    assert_snapshot!(old(false), @r#"eligible changes=["app=requests.cpu=200m"] restarts=[] at_target=false older-template: belongs to an older template"#);
}

#[test]
fn values_that_do_not_fit_together() {
    let judged = |text: &str| show(judge(&pod(&WEB), &target(text), &context()));
    assert_snapshot!(judged("requests.memory=256Mi"), @r#"request-above-limit: container "app" would have requests.memory 256Mi above limits.memory 128Mi: name both in the recommendation"#);
    assert_snapshot!(judged("limits.memory=32Mi"), @r#"request-above-limit: container "app" would have requests.memory 64Mi above limits.memory 32Mi: name both in the recommendation"#);
    assert_snapshot!(judged("limits.cpu=50m"), @r#"request-above-limit: container "app" would have requests.cpu 100m above limits.cpu 50m: name both in the recommendation"#);
}

#[test]
fn the_qos_class_stays() {
    let judged = |have: &str, want: &str| show(judge(&pod(&[("app", have)]), &target(want), &context()));
    let guaranteed = "requests.cpu=1,limits.cpu=1,requests.memory=1Gi,limits.memory=1Gi";
    assert_snapshot!(judged("", "requests.cpu=200m"), @"qos-would-change: would change QoS class from BestEffort to Burstable, which a resize may not: its containers have no requests and limits at all");
    assert_snapshot!(judged(guaranteed, "requests.cpu=500m"), @"qos-would-change: would change QoS class from Guaranteed to Burstable, which a resize may not: keep every request equal to its limit");
    assert_snapshot!(judged(guaranteed, "requests.cpu=500m,limits.cpu=500m"), @r#"eligible changes=["app=requests.cpu=500m,limits.cpu=500m"] restarts=[] at_target=false"#);
    assert_snapshot!(judged("requests.cpu=1,limits.cpu=2,requests.memory=1Gi,limits.memory=1Gi", "limits.cpu=1"), @"qos-would-change: would change QoS class from Burstable to Guaranteed, which a resize may not: keep one request below its limit, or one limit unset");
}

#[test]
fn an_init_container_counts_for_the_qos_class() {
    let mut pod = pod(&[("app", "requests.cpu=1,limits.cpu=2,requests.memory=1Gi,limits.memory=1Gi")]);
    let mut init = container(block("requests.cpu=1"));
    init.role = ContainerRole::Init;
    pod.containers.insert("migrate".into(), init);
    assert!(judge(&pod, &target("limits.cpu=1"), &context()).is_ok());
}

#[test]
fn kubernetes_133_and_memory_limits() {
    let on_133 = |name: &str, text: &str, restarts: bool| {
        let mut pod = pod(&WEB);
        pod.containers.get_mut(name).unwrap().restarts_on = RestartsOn { cpu: false, memory: restarts };
        show(judge(&pod, &containers(&[(name, text)]), &Context { server_minor: 33, ..context() }))
    };
    assert_snapshot!(on_133("app", "limits.memory=96Mi", false), @r#"memory-limit-decrease: container "app": Kubernetes 1.33 cannot lower limits.memory (128Mi to 96Mi) without resizePolicy RestartContainer"#);
    assert_snapshot!(on_133("log", "limits.memory=96Mi", false), @r#"memory-limit-added: container "log": Kubernetes 1.33 cannot add limits.memory without resizePolicy RestartContainer"#);
    assert_snapshot!(on_133("app", "limits.memory=96Mi", true), @r#"eligible changes=["app=limits.memory=96Mi"] restarts=["app"] at_target=false"#);
    assert_snapshot!(on_133("app", "limits.memory=256Mi", false), @r#"eligible changes=["app=limits.memory=256Mi"] restarts=[] at_target=false"#);
    assert_snapshot!(with_context("limits.memory=96Mi", |_| {}), @r#"eligible changes=["app=limits.memory=96Mi"] restarts=[] at_target=false"#);
}

#[test]
fn memory_that_is_in_use() {
    let in_use = |context: &mut Context<'_>| context.memory_in_use = BTreeMap::from([("app", 100 << 20)]);
    assert_snapshot!(with_context("limits.memory=96Mi", in_use), @r#"memory-in-use: container "app" uses 100Mi of memory now, more than the new limit 96Mi"#);
    assert!(with_context("limits.memory=100Mi", in_use).starts_with("eligible"));
    assert!(with_context("requests.memory=32Mi", in_use).starts_with("eligible"));
}

#[test]
fn what_the_node_can_never_give() {
    let small = |context: &mut Context<'_>| {
        context.allocatable = Some(Amounts { cpu: Some(Millicores::new(2000)), memory: Some(Bytes::new(1 << 30)) });
    };
    assert_snapshot!(with_context("requests.cpu=1991m", small), @"node-allocatable: would need requests.cpu 2001m on node n1, which has 2 in all");
    assert_snapshot!(with_context("limits.memory=4Gi,requests.memory=2Gi", small), @"node-allocatable: would need requests.memory 2Gi on node n1, which has 1Gi in all");
    assert!(with_context("requests.cpu=1990m", small).starts_with("eligible"));
    let guaranteed = pod(&[("app", "limits.cpu=1,limits.memory=1Gi,requests.cpu=1,requests.memory=1Gi")]);
    let context = Context { static_cpu_manager: true, ..context() };
    assert_snapshot!(show(judge(&guaranteed, &target("limits.cpu=2,requests.cpu=2"), &context)), @"static-cpu-manager: is Guaranteed on node n1 with the static CPU manager, which does not resize exclusive CPUs");
}

#[test]
fn restarts_and_concerns() {
    let got = with_pod(|pod| {
        pod.containers.get_mut("app").unwrap().restarts_on.cpu = true;
        pod.resize_pending = Some(ResizeCondition {
            reason: "Deferred".into(),
            message: "".into(),
            observed_generation: None,
            since: None,
        });
    });
    assert_snapshot!(got, @r#"eligible changes=["app=requests.cpu=200m"] restarts=["app"] at_target=false resize-pending: another resize is pending on it (Deferred)"#);
    let log = containers(&[("log", "limits.memory=1Mi")]);
    assert_snapshot!(show(judge(&pod(&WEB), &log, &context())), @r#"eligible changes=["log=limits.memory=1Mi"] restarts=[] at_target=false server-adds-request: container "log" has no requests.memory: with the new limit the API server adds requests.memory=1Mi"#);
}

#[test]
fn the_code_is_what_json_carries() {
    let refusal = Refusal::ContainerMissing { container: "app".into(), nearest: None };
    assert_eq!(serde_json::to_value(&refusal).unwrap()["code"], refusal.code());
    let concern = Concern::OlderTemplate;
    assert_eq!(serde_json::to_value(&concern).unwrap()["code"], concern.code());
}

#[test]
fn the_servers_words_are_kept() {
    let words = || "exceeded quota: q".to_owned();
    assert_snapshot!(Refusal::LimitRange { words: words() }, @"a LimitRange forbids it: exceeded quota: q");
    assert_snapshot!(Refusal::ResourceQuota { words: words() }, @"a ResourceQuota forbids it: exceeded quota: q");
    assert_snapshot!(Refusal::NodeCapacity { words: words() }, @"it does not fit its node: exceeded quota: q");
    assert_snapshot!(Refusal::ServerRefuses { words: words() }, @"the API server refuses the resize: exceeded quota: q");
}

proptest! {
    /// What the API server insists on, for every pod that is judged eligible.
    #[test]
    fn an_accepted_target_is_one_the_server_takes(a in any_block(), b in any_block(), want in any_block(), minor in 33u32..38) {
        let mut pod = pod(&[]);
        for (name, block) in [("app", a), ("log", b)] {
            if block.request_above_limit().is_some() {
                return Ok(());
            }
            pod.containers.insert(name.into(), container(block.with_implied_requests()));
        }
        pod.qos = qos_class(pod.containers.values().map(|container| &container.desired));
        let target = ContainerResources::from([("app".to_owned(), want)]);
        let Ok(eligible) = judge(&pod, &target, &Context { server_minor: minor, ..context() }) else { return Ok(()) };

        prop_assert_eq!(eligible.at_target, eligible.changes.is_empty());
        let mut after = pod.clone();
        for (name, changes) in &eligible.changes {
            prop_assert!(!changes.is_empty());
            let view = after.containers.get_mut(name.as_str()).unwrap();
            view.desired = view.desired.overlaid(changes).with_implied_requests();
            prop_assert!(view.desired.request_above_limit().is_none());
        }
        prop_assert_eq!(qos_class(after.containers.values().map(|container| &container.desired)), pod.qos);
        let again = judge(&after, &target, &Context { server_minor: minor, ..context() }).unwrap();
        prop_assert!(again.at_target, "a second judgement still wants {:?}", again.changes);
    }
}
