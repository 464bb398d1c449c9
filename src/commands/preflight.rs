//! What is refused before anything is changed.

use super::plan::Preview;
use super::session::Session;
use super::wanted_args::Decided;
use crate::cluster::rights::{Purpose, grant_yaml, missing_rights, rights_for, user_name};
use crate::core::plan::Plan;
use crate::core::workload::WorkloadRef;
use crate::error::{CommandError, CommandResult};

/// Names every right that is missing, with the YAML that grants it.
pub async fn rights(session: &Session, namespace: &str) -> CommandResult<()> {
    let wanted = rights_for(Purpose::Rollout);
    let missing = missing_rights(&session.connection.read, namespace, &wanted).await?;
    let missing = missing.into_iter().filter(|right| right.required).collect::<Vec<_>>();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|right| format!("{} {}", right.verb, right.resource_path())).collect::<Vec<_>>();
    // The server's name for us: what the kubeconfig calls its user means nothing to RBAC.
    let user = user_name(&session.connection.read).await?;
    let yaml = grant_yaml(&missing, namespace, &user);
    Err(CommandError::refused(format!("you may not {} in namespace {namespace:?}", names.join(", ")))
        .hint(format!("an administrator can grant it with:\n{yaml}")))
}

/// A plan that cannot be carried out, or not undone.
pub fn refuse_plan(plan: &Plan, decided: &Decided, workload: &WorkloadRef) -> CommandResult<()> {
    if plan.eligible().next().is_none() {
        let mut error = match plan.pods.len() {
            0 => CommandError::refused(format!("{workload} has no pods: nothing to validate the recommendation on")),
            1 => CommandError::refused(format!("the one pod of {workload} is not eligible")),
            n => CommandError::refused(format!("none of the {n} pods of {workload} is eligible")),
        };
        for (pod, refusal) in plan.refused().take(5) {
            error = error.hint(format!("pod {} {refusal}", pod.name));
        }
        return Err(error);
    }
    if !decided.policy.allow_one_way
        && let Some(first) = plan.one_way().first()
    {
        return Err(CommandError::refused(first.to_string())
            .hint("a rollback could not restore the pods; --allow-one-way takes the change all the same"));
    }
    Ok(())
}

/// What the API server's dry run refused. A node that is too small is no refusal here: the run finds it out on a few
/// pods, rolls back, and remembers it.
pub fn refuse_server(preview: &Preview) -> CommandResult<()> {
    match preview.refused.first() {
        None => Ok(()),
        Some(refused) => Err(CommandError::refused(format!("pod {}: {}", refused.pod, refused.refusal))
            .hint("nothing was changed; `kubectl kapr plan` shows the answer for every kind of pod")),
    }
}
