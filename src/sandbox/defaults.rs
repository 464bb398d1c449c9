//! What a server fills in and refuses when it decodes an object: defaults, canonical quantities, required fields.
//! Admission and resize rules are elsewhere.

use serde_json::{Value, json};

use super::answer::{Cause, Failure};
use super::quantity;
use super::registry::Kind;
use super::resources;

fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object.get(field).is_none_or(Value::is_null) {
        object[field] = value.into();
    }
}

/// Defaults of a new object, canonical quantities in any object.
pub(super) fn apply(kind: &Kind, object: &mut Value) -> Result<(), Failure> {
    match kind.plural {
        "pods" => {
            quantities(&mut object["spec"])?;
            pod_spec(&mut object["spec"]);
        }
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" => {
            quantities(&mut object["spec"]["template"]["spec"])?;
            pod_spec(&mut object["spec"]["template"]["spec"]);
            workload(kind.plural, &mut object["spec"]);
        }
        "secrets" => set(object, "type", "Opaque"),
        "namespaces" => set(&mut object["spec"], "finalizers", json!(["kubernetes"])),
        _ => {}
    }
    Ok(())
}

fn quantities(spec: &mut Value) -> Result<(), Failure> {
    resources::normalise(spec).map_err(|text| {
        let message = "quantities must match the regular expression \
                       '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        Failure::invalid("", "", "", &[Cause::invalid("patch", &text, message)])
    })
}

fn workload(plural: &str, spec: &mut Value) {
    set(spec, "revisionHistoryLimit", 10);
    match plural {
        "deployments" => {
            set(spec, "replicas", 1);
            set(spec, "progressDeadlineSeconds", 600);
            set(spec, "strategy", json!({}));
            set(&mut spec["strategy"], "type", "RollingUpdate");
            if spec["strategy"]["type"] == "RollingUpdate" {
                set(&mut spec["strategy"], "rollingUpdate", json!({}));
                set(&mut spec["strategy"]["rollingUpdate"], "maxSurge", "25%");
                set(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", "25%");
            }
        }
        "replicasets" => set(spec, "replicas", 1),
        "statefulsets" => {
            set(spec, "replicas", 1);
            set(spec, "podManagementPolicy", "OrderedReady");
            set(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
        }
        _ => set(
            spec,
            "updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
        ),
    }
}

fn pod_spec(spec: &mut Value) {
    set(spec, "restartPolicy", "Always");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "securityContext", json!({}));
    for field in ["containers", "initContainers"] {
        for container in spec[field].as_array_mut().into_iter().flatten() {
            set(container, "terminationMessagePath", "/dev/termination-log");
            set(container, "terminationMessagePolicy", "File");
            set(container, "imagePullPolicy", "IfNotPresent");
        }
    }
    if spec.get("initContainers").is_some_and(Value::is_null) {
        spec.as_object_mut().map(|s| s.remove("initContainers"));
    }
}

/// A new pod, ready to be stored: defaults, `QoS` class, phase Pending.
pub(super) fn pod(pod: &mut Value) {
    pod_spec(&mut pod["spec"]);
    set(&mut pod["spec"], "priority", 0);
    set(&mut pod["spec"], "enableServiceLinks", true);
    set(&mut pod["spec"], "serviceAccountName", "default");
    pod["status"] = json!({"phase": "Pending", "qosClass": resources::qos(&pod["spec"])});
}

/// What a server finds wrong with the containers of a pod or template.
pub(super) fn check_containers(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for field in ["initContainers", "containers"] {
        for (index, container) in spec[field].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{field}[{index}]");
            for required in ["name", "image"] {
                if container[required].as_str().is_none_or(str::is_empty) {
                    causes.push(Cause::required(format!("{at}.{required}"), ""));
                }
            }
            check_resources(&container["resources"], &at, &mut causes);
        }
    }
    causes
}

fn check_resources(resources: &Value, at: &str, causes: &mut Vec<Cause>) {
    for section in ["limits", "requests"] {
        for (key, value) in resources[section].as_object().into_iter().flatten() {
            let text = quantity::text_of(value).unwrap_or_default();
            if quantity::nanos(&text).is_some_and(|n| n < 0) {
                let field = format!("{at}.resources.{section}[{key}]");
                causes.push(Cause::invalid(field, &text, "must be greater than or equal to 0"));
            }
        }
    }
    for (key, value) in resources["requests"].as_object().into_iter().flatten() {
        let limit = resources["limits"].get(key).and_then(quantity::text_of);
        let (Some(request), Some(limit)) = (quantity::text_of(value), limit) else { continue };
        if quantity::nanos(&request) > quantity::nanos(&limit) {
            let sentence = format!("must be less than or equal to {key} limit of {limit}");
            causes.push(Cause::invalid(format!("{at}.resources.requests"), &request, &sentence));
        }
    }
}

/// What a server finds wrong with an object of a kind.
pub(super) fn check(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let causes = match kind.plural {
        "pods" => check_containers(&object["spec"], "spec"),
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" => {
            let mut causes = check_containers(&object["spec"]["template"]["spec"], "spec.template.spec");
            let selector = super::selectors::LabelSelector::of_object(&object["spec"]["selector"]);
            if selector.is_everything() {
                causes.insert(0, Cause::required("spec.selector", ""));
            } else if !selector.matches(&object["spec"]["template"]) {
                let labels = object["spec"]["template"]["metadata"]["labels"].to_string();
                let sentence = "`selector` does not match template `labels`";
                causes.push(Cause::invalid("spec.template.metadata.labels", &labels, sentence));
            }
            causes
        }
        _ => Vec::new(),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid(kind.group, kind.kind, name, &causes)) }
}
