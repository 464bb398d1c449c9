//! The plan as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::core::plan::Plan;
use crate::core::policy::Policy;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::workload::WorkloadRef;

/// Everything that is shown of a plan.
pub struct PlanView<'a> {
    pub context: Option<&'a str>,
    pub workload: &'a WorkloadRef,
    pub revision: &'a Revision,
    pub target: &'a ContainerResources,
    pub plan: &'a Plan,
    pub policy: &'a Policy,
    /// Refused by the API server's dry run: pod, pods of the same shape, sentence.
    pub refused: &'a [(&'a str, usize, String)],
    /// The node is too small: sentences.
    pub too_large: &'a [String],
}

pub fn json(view: &PlanView<'_>) -> Value {
    json!({"kind": "Plan", "workload": view.workload, "revision": view.revision})
}

pub fn table(view: &PlanView<'_>, _wide: bool) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} revision {}", view.workload, view.revision);
    text
}
