//! Reading a mapping strictly: every field is known, and what is missing or of the wrong form is named.

use super::complaint::{Fault, Place, quote};
use super::yaml::{Entry, Node, Value};
use crate::core::nearest::nearest;

/// A mapping all of whose fields are known.
pub struct Fields<'a> {
    /// What the mapping is, for sentences: `spec.workload`.
    what: &'a str,
    place: Place,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    pub fn of(node: &'a Node, what: &'a str, known: &[&str]) -> Result<Self, Fault> {
        let fields = Self::unchecked(node, what)?;
        match fields.entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            None => Ok(fields),
            Some(entry) => Err(unknown_field(entry, what, known)),
        }
    }

    /// Without the check of the names, for the look at `apiVersion` and `kind` that decides which are known.
    pub fn unchecked(node: &'a Node, what: &'a str) -> Result<Self, Fault> {
        match &node.value {
            Value::Map(entries) => Ok(Self { what, place: node.place, entries }),
            Value::Null => Ok(Self { what, place: node.place, entries: &[] }),
            Value::Scalar { .. } | Value::List(_) => {
                Err(Fault::at(node.place, format!("{what} must be a mapping, not {}", node.kind())))
            }
        }
    }

    /// The value of a field that is there and not empty.
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value).filter(|v| v.value != Value::Null)
    }

    pub fn required(&self, name: &str) -> Result<&'a Node, Fault> {
        self.get(name).ok_or_else(|| {
            let place = self.entries.iter().find(|entry| entry.key == name).map_or(self.place, |entry| entry.key_place);
            Fault::at(place, format!("{} has no {name}", self.what))
        })
    }

    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }
}

pub fn unknown_field(entry: &Entry, what: &str, known: &[&str]) -> Fault {
    let field = quote(&entry.key);
    let hint = match nearest(&entry.key, known.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("fields here are {}", known.join(", ")),
    };
    Fault::at(entry.key_place, format!("unknown field {field} in {what}; {hint}"))
}

/// A single value as its text; numbers and booleans too.
pub fn text<'a>(node: &'a Node, what: &str) -> Result<&'a str, Fault> {
    match &node.value {
        Value::Scalar { text, .. } => Ok(text),
        Value::Null | Value::List(_) | Value::Map(_) => {
            Err(Fault::at(node.place, format!("{what} must be a single value, not {}", node.kind())))
        }
    }
}

pub fn list<'a>(node: &'a Node, what: &str) -> Result<&'a [Node], Fault> {
    match &node.value {
        Value::List(items) => Ok(items),
        Value::Null => Ok(&[]),
        Value::Scalar { .. } | Value::Map(_) => {
            Err(Fault::at(node.place, format!("{what} must be a list, not {}", node.kind())))
        }
    }
}
