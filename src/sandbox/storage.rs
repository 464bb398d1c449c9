//! Objects, versions and the watch log. Knows no rules: whoever writes has already decided.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::answer::Failure;

/// Namespace (empty for cluster-wide objects) and name.
pub(super) type Key = (String, String);

/// One entry of the watch log.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub version: u64,
    pub namespace: String,
    /// The object after the change; for a deletion as it was last, with the version of the deletion.
    pub object: Arc<Value>,
    /// The object before the change; `None` for a creation.
    pub before: Option<Arc<Value>>,
    pub deleted: bool,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<Key, Arc<Value>>,
    log: VecDeque<Change>,
    /// Version of the newest entry that the window has dropped.
    dropped: u64,
}

/// Everything stored, by resource.
#[derive(Debug)]
pub(super) struct Storage {
    tables: BTreeMap<&'static str, Table>,
    version: u64,
    window: usize,
}

impl Storage {
    pub(super) fn new(window: usize) -> Self {
        Self { tables: BTreeMap::new(), version: 1, window }
    }

    /// The version of the newest write.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, id: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.tables.get(id)?.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Objects in order of namespace and name; `None` means every namespace.
    pub(super) fn list<'a>(
        &'a self,
        id: &str,
        namespace: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Value>)> + 'a> {
        let Some(table) = self.tables.get(id) else { return Box::new(std::iter::empty()) };
        match namespace {
            None => Box::new(table.objects.iter()),
            Some(ns) => {
                let from = (ns.to_owned(), String::new());
                Box::new(table.objects.range(from..).take_while(move |((other, _), _)| other == ns))
            }
        }
    }

    /// Objects after a key, for the pages of a list.
    pub(super) fn after<'a>(&'a self, id: &str, key: &Key) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Value>)> + 'a> {
        use std::ops::Bound::{Excluded, Unbounded};
        match self.tables.get(id) {
            None => Box::new(std::iter::empty()),
            Some(table) => Box::new(table.objects.range((Excluded(key.clone()), Unbounded))),
        }
    }

    /// Stores an object under a new version and answers both it and the one before.
    pub(super) fn put(
        &mut self,
        id: &'static str,
        namespace: &str,
        name: &str,
        mut object: Value,
    ) -> (Arc<Value>, Option<Arc<Value>>) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        let key = (namespace.to_owned(), name.to_owned());
        let before = self.tables.entry(id).or_default().objects.insert(key, object.clone());
        self.log(id, namespace, object.clone(), before.clone(), false);
        (object, before)
    }

    /// Removes an object and answers it as the watchers see it for the last time.
    pub(super) fn remove(&mut self, id: &'static str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let table = self.tables.get_mut(id)?;
        let before = table.objects.remove(&(namespace.to_owned(), name.to_owned()))?;
        self.version += 1;
        let mut last = (*before).clone();
        last["metadata"]["resourceVersion"] = self.version.to_string().into();
        let last = Arc::new(last);
        self.log(id, namespace, last.clone(), Some(before), true);
        Some(last)
    }

    fn log(
        &mut self,
        id: &'static str,
        namespace: &str,
        object: Arc<Value>,
        before: Option<Arc<Value>>,
        deleted: bool,
    ) {
        let (version, window) = (self.version, self.window);
        let table = self.tables.entry(id).or_default();
        table.log.push_back(Change { version, namespace: namespace.to_owned(), object, before, deleted });
        if table.log.len() > window
            && let Some(old) = table.log.pop_front()
        {
            table.dropped = old.version;
        }
    }

    /// Forgets the watch log, as compaction does: watches and list pages from before answer 410.
    pub(super) fn compact(&mut self) {
        let version = self.version;
        for table in self.tables.values_mut() {
            table.log.clear();
            table.dropped = version;
        }
    }

    /// Whether a reader at this version has lost changes.
    pub(super) fn check_version(&self, id: &str, version: u64) -> Result<(), Failure> {
        match self.tables.get(id) {
            Some(table) if version < table.dropped => Err(Failure::expired(version, table.dropped)),
            _ => Ok(()),
        }
    }

    /// The changes of a resource after a version.
    pub(super) fn since(&self, id: &str, version: u64) -> Result<Vec<Change>, Failure> {
        self.check_version(id, version)?;
        let Some(table) = self.tables.get(id) else { return Ok(Vec::new()) };
        let from = table.log.partition_point(|c| c.version <= version);
        Ok(table.log.range(from..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store(window: usize, names: &[&str]) -> Storage {
        let mut storage = Storage::new(window);
        for name in names {
            storage.put("pods", "a", name, json!({"metadata": {"name": name}}));
        }
        storage
    }

    #[test]
    fn versions_grow_over_all_resources() {
        let mut storage = store(10, &["x"]);
        let (object, before) = storage.put("nodes", "", "n", json!({"metadata": {}}));
        assert_eq!((object["metadata"]["resourceVersion"].as_str(), before), (Some("3"), None));
        assert_eq!(
            storage.remove("pods", "a", "x").map(|o| o["metadata"]["resourceVersion"].clone()),
            Some("4".into())
        );
    }

    #[test]
    fn a_reader_older_than_the_window_is_told_so() {
        let storage = store(2, &["x", "y", "z"]);
        assert_eq!(storage.since("pods", 1).map_err(|f| f.code).err(), Some(410));
        assert_eq!(storage.since("pods", 2).map(|c| c.len()), Ok(2));
        assert_eq!(storage.since("pods", 4).map(|c| c.len()), Ok(0));
    }

    #[test]
    fn a_namespace_is_a_range() {
        let mut storage = store(10, &["x", "y"]);
        storage.put("pods", "b", "x", json!({"metadata": {}}));
        assert_eq!(storage.list("pods", Some("a")).count(), 2);
        assert_eq!(storage.list("pods", None).count(), 3);
        assert_eq!(storage.after("pods", &("a".into(), "x".into())).count(), 2);
    }
}
