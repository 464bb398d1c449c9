//! What goes when its owner or its namespace goes.

use crate::sandbox::registry::{KINDS, NAMESPACES};
use crate::sandbox::storage::Key;
use crate::sandbox::world::{World, kind_of};

/// Deletes the dependents of an owner that is gone.
pub(super) fn collect(world: &mut World, owner: &str) {
    for place in world.all_dependents(owner) {
        let Some(kind) = kind_of(place.id) else { continue };
        let Some(object) = world.get(kind, &place.key) else { continue };
        let references = object["metadata"]["ownerReferences"].as_array();
        let others = references.into_iter().flatten().any(|r| r["uid"] != owner);
        if others {
            world.update(kind, &place.key, |object| {
                if let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() {
                    list.retain(|r| r["uid"] != owner);
                }
            });
        } else {
            crate::sandbox::deletes::start(world, kind, &place.key, None);
        }
    }
}

/// Deletes everything in a namespace, then the namespace.
pub(super) fn empty_namespace(world: &mut World, name: &str) {
    let mut left = false;
    for kind in KINDS.iter().filter(|k| k.namespaced) {
        let keys: Vec<Key> = world.store.list(kind.id, Some(name)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            crate::sandbox::deletes::start(world, kind, &key, Some(0));
            left |= world.get(kind, &key).is_some();
        }
    }
    let key = (String::new(), name.to_owned());
    if left {
        let again = crate::sandbox::kubelet::Timer::Queue(crate::sandbox::world::Work::Namespace(name.to_owned()));
        world.after(std::time::Duration::from_secs(1), again);
    } else {
        world.remove(&NAMESPACES, &key);
    }
}
