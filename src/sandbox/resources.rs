//! Arithmetic over `resources` blocks of pods: amounts, sums, `QoS` class, canonical text. Pure. May not: decide.

use serde_json::{Map, Value, json};

use super::quantity;

/// CPU in millicores and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub cpu: i64,
    pub memory: i64,
}

impl Amounts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { cpu: self.cpu - other.cpu, memory: self.memory - other.memory }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }

    pub(super) fn fits(self, room: Self) -> bool {
        self.cpu <= room.cpu && self.memory <= room.memory
    }
}

/// One amount of a `resources` block, in millicores or whole units; `None` when absent.
pub(super) fn amount(resources: &Value, section: &str, resource: &str) -> Option<i64> {
    quantity::amount(resource, &quantity::text_of(&resources[section][resource])?)
}

/// Requests of one `resources` block.
pub(super) fn requests(resources: &Value) -> Amounts {
    let of = |resource| amount(resources, "requests", resource).unwrap_or(0);
    Amounts { cpu: of("cpu"), memory: of("memory") }
}

/// Whether two `resources` blocks ask for the same, by number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    ["requests", "limits"].iter().all(|section| {
        let keys = |v: &Value| v[section].as_object().map_or(0, Map::len);
        let all = a[section].as_object().into_iter().flatten().map(|(key, _)| key);
        keys(a) == keys(b) && all.into_iter().all(|key| amount(a, section, key) == amount(b, section, key))
    })
}

/// Containers that run for the pod's whole life: sidecars first, then the containers.
pub(super) fn long_running(spec: &Value) -> impl Iterator<Item = (&Value, bool)> {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let sidecars = list("initContainers").filter(|c| c["restartPolicy"] == "Always").map(|c| (c, true));
    sidecars.chain(list("containers").map(|c| (c, false)))
}

/// What a pod asks of a node: the sum of its long-running containers, or an ordinary init container if larger.
pub(super) fn pod_requests(spec: &Value) -> Amounts {
    let sum = long_running(spec).map(|(c, _)| requests(&c["resources"])).fold(Amounts::default(), Amounts::plus);
    let init = spec["initContainers"].as_array().into_iter().flatten().filter(|c| c["restartPolicy"] != "Always");
    init.map(|c| requests(&c["resources"])).fold(sum, Amounts::max)
}

/// The `QoS` class, over all containers and init containers.
pub(super) fn qos(spec: &Value) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for field in ["containers", "initContainers"] {
        for container in spec[field].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            for resource in ["cpu", "memory"] {
                let request = amount(resources, "requests", resource).filter(|a| *a > 0);
                let limit = amount(resources, "limits", resource).filter(|a| *a > 0);
                any |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && request == limit;
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Rewrites every quantity of a pod spec into its canonical text and fills in requests from limits, as decoding does.
/// The error names the text that is no quantity.
pub(super) fn normalise(spec: &mut Value) -> Result<(), String> {
    for field in ["containers", "initContainers"] {
        for container in spec[field].as_array_mut().into_iter().flatten() {
            if container.get("resources").is_none_or(Value::is_null) {
                container["resources"] = json!({});
            }
            normalise_block(&mut container["resources"])?;
        }
    }
    Ok(())
}

fn normalise_block(resources: &mut Value) -> Result<(), String> {
    for section in ["requests", "limits"] {
        let Some(map) = resources.get_mut(section).and_then(Value::as_object_mut) else { continue };
        for value in map.values_mut() {
            let text = quantity::text_of(value).ok_or_else(|| value.to_string())?;
            *value = quantity::canonical(&text).ok_or(text)?.into();
        }
    }
    let limits = resources["limits"].as_object().cloned().unwrap_or_default();
    for (key, value) in limits {
        if resources["requests"].get(&key).is_none() {
            resources["requests"][key] = value;
        }
    }
    if let Some(map) = resources.as_object_mut() {
        map.retain(|_, v| !v.is_null() && v.as_object().is_none_or(|m| !m.is_empty()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(resources: impl Into<Value>) -> Value {
        let resources: Value = resources.into();
        json!({"containers": [{"name": "a", "resources": resources}]})
    }

    #[test]
    fn qos_classes() {
        let all = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(qos(&spec(json!({}))), "BestEffort");
        assert_eq!(qos(&spec(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(qos(&spec(json!({"requests": all, "limits": {"cpu": "1000m", "memory": "1024Mi"}}))), "Guaranteed");
    }

    #[test]
    fn decoding_writes_canonical_text_and_requests_from_limits() {
        let mut pod = spec(json!({"limits": {"cpu": "1000m"}, "requests": {"memory": 1024}}));
        assert_eq!(normalise(&mut pod), Ok(()));
        assert_eq!(
            pod["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"memory": "1024", "cpu": "1"}})
        );
        assert_eq!(normalise(&mut spec(json!({"requests": {"cpu": "abc"}}))), Err("abc".to_owned()));
    }

    #[test]
    fn an_init_container_counts_only_when_larger_and_a_sidecar_always() {
        let cpu = |n: &str| json!({"requests": {"cpu": n}});
        let pod = json!({"containers": [{"resources": cpu("1")}], "initContainers": [
            {"resources": cpu("1500m")}, {"restartPolicy": "Always", "resources": cpu("100m")}]});
        assert_eq!(pod_requests(&pod).cpu, 1500);
    }
}
