//! `pods/NAME/eviction`: deletes a pod if its budgets allow it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Failure;
use super::controllers::budget;
use super::deletes::{self, Options};
use super::reads::Reply;
use super::registry::{BUDGETS, PODS};
use super::request::Ask;
use super::storage::Key;
use super::world::{World, health, is_deleting};

pub(super) fn evict(world: &mut World, ask: &Ask) -> Result<Reply, Failure> {
    let body = ask.object()?;
    let mut options = Options::of_object(&body["deleteOptions"]);
    options.dry_run |= ask.dry_run("CreateOptions")?;
    let key = (ask.target.space().to_owned(), ask.target.name().to_owned());
    let pod = world.get(&PODS, &key).ok_or_else(|| Failure::not_found(&PODS, &key.1))?;
    options.check(&PODS, &pod)?;
    let counts = health(&pod).alive && pod["status"]["phase"] == "Running" && !is_deleting(&pod);
    if counts {
        spend(world, &key, &pod, options.dry_run)?;
    }
    if !options.dry_run {
        deletes::start(world, &PODS, &key, options.grace);
    }
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::Object { code: 201, object: Arc::new(done) })
}

/// Takes one disruption from each budget of the pod, or says which one has none left.
fn spend(world: &mut World, key: &Key, pod: &Value, dry_run: bool) -> Result<(), Failure> {
    let budgets: Vec<Key> = world
        .store
        .list(BUDGETS.id, Some(&key.0))
        .filter(|(_, b)| budget::selects(b, pod))
        .map(|(key, _)| key.clone())
        .collect();
    if budgets.len() > 1 {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Failure::new(500, "InternalError", message));
    }
    let Some(name) = budgets.first() else { return Ok(()) };
    // The controller may not have looked since the last change.
    budget::sync(world, name);
    let Some(stored) = world.get(&BUDGETS, name) else { return Ok(()) };
    let status = &stored["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let ready = health(pod).ready;
    let policy = stored["spec"]["unhealthyPodEvictionPolicy"].as_str();
    let unhealthy_may_go = policy == Some("AlwaysAllow") || number("currentHealthy") >= number("desiredHealthy");
    if !ready && unhealthy_may_go {
        return Ok(());
    }
    if number("disruptionsAllowed") > 0 {
        if !dry_run {
            let left = number("disruptionsAllowed") - 1;
            world.update(&BUDGETS, name, |b| b["status"]["disruptionsAllowed"] = left.into());
        }
        return Ok(());
    }
    let why = format!(
        "The disruption budget {} needs {} healthy pods and has {} currently",
        name.1,
        number("desiredHealthy"),
        number("currentHealthy")
    );
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let failure = Failure { details: json!({}), ..Failure::new(429, "TooManyRequests", message) };
    Err(failure.with_cause("DisruptionBudget", Some(&why)))
}
