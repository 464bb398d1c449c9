//! What the machine wants done, as data. The engine performs effects in order; `Record` always comes first, and nothing
//! after it is done before it was written.

use crate::core::journal::Entry;
use crate::core::pod::PodUid;
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
}
