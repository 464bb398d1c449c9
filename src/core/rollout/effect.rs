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
    /// The changed containers under `containers`, in the pod's order: the API server takes the order of a strategic merge
    /// patch for the pod's own and answers 422 `containers may not be renamed or reordered on resize`.
    pub regular: Vec<String>,
    /// Those under `initContainers`, likewise.
    pub sidecars: Vec<String>,
    /// A container restarts because of it: what budgets allow has to be looked at again.
    pub restarts: bool,
}

impl Resize {
    pub fn new(view: &PodView, changes: ContainerResources) -> Self {
        let mut places = changes
            .keys()
            .filter_map(|name| {
                let container = view.containers.get(name.as_str())?;
                Some((container.position, container.role == ContainerRole::Regular, name.clone()))
            })
            .collect::<Vec<_>>();
        places.sort();
        let pick = |regular: bool| {
            places.iter().filter(|(_, is, _)| *is == regular).map(|(_, _, name)| name.clone()).collect()
        };
        let (regular, sidecars) = (pick(true), pick(false));
        Self { uid: view.uid.clone(), name: view.name.clone(), changes, regular, sidecars, restarts: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::{containers, pod};

    #[test]
    fn containers_are_named_in_the_order_of_the_pod() {
        let mut view = pod(&[("app", "requests.cpu=1"), ("zoo", "requests.cpu=1"), ("side", "requests.cpu=1")]);
        for (name, position) in [("zoo", 0), ("app", 1), ("side", 0)] {
            view.containers.get_mut(name).unwrap().position = position;
        }
        view.containers.get_mut("side").unwrap().role = ContainerRole::Sidecar;
        let changes = containers(&[("app", "requests.cpu=2"), ("side", "requests.cpu=2"), ("zoo", "requests.cpu=2")]);
        let resize = Resize::new(&view, changes);
        assert_eq!((resize.regular, resize.sidecars), (vec!["zoo".into(), "app".into()], vec!["side".into()]));
    }
}
