//! What the machine wants done, as data. The engine performs effects in order; `Record` always comes first, and nothing
//! after it is done before it was written.

use crate::core::journal::Entry;
use crate::core::pod::{ContainerRole, PodUid, PodView};
use crate::core::resources::ContainerResources;

#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Append these entries to the record, in one write.
    Record(Vec<Entry>),
    /// Patch the pod's `resize` subresource with these keys and its UID.
    Resize(Resize),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Resize {
    pub uid: PodUid,
    pub name: Box<str>,
    /// Only the keys that differ from what the pod asks for now.
    pub changes: ContainerResources,
    /// The containers among them that stand under `initContainers`.
    pub sidecars: Vec<String>,
}

impl Resize {
    pub fn new(view: &PodView, changes: ContainerResources) -> Self {
        let is_sidecar = |name: &&String| {
            view.containers.get(name.as_str()).is_some_and(|container| container.role != ContainerRole::Regular)
        };
        let sidecars = changes.keys().filter(is_sidecar).cloned().collect();
        Self { uid: view.uid.clone(), name: view.name.clone(), changes, sidecars }
    }
}
