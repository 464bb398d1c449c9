//! The form of an answer: whole objects, only their metadata, or a table for kubectl. May not: choose what is answered.

use std::sync::Arc;

use serde_json::{Value, json};

use super::registry::Kind;
use super::table;

/// What the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
    Table { with_object: bool },
}

impl Form {
    /// From the `Accept` header, whose first entry wins, and the `includeObject` parameter.
    pub(super) fn of(accept: &str, include_object: Option<&str>) -> Self {
        let first = accept.split(',').next().unwrap_or_default();
        if first.contains("as=Table") {
            Self::Table { with_object: include_object == Some("Object") }
        } else if first.contains("as=PartialObjectMetadata") {
            Self::Metadata
        } else {
            Self::Whole
        }
    }

    /// Writes one object, as an answer or as the object of a watch line.
    pub(super) fn write_one(self, kind: &Kind, object: &Value, now: i64, out: &mut Vec<u8>) {
        let is_status = object["kind"] == "Status";
        let form = if is_status { Self::Whole } else { self };
        let result = match form {
            Self::Whole => serde_json::to_writer(&mut *out, object),
            Self::Metadata => serde_json::to_writer(&mut *out, &metadata_of(object)),
            Self::Table { with_object } => {
                let version = object["metadata"]["resourceVersion"].clone();
                let meta = json!({"resourceVersion": version});
                serde_json::to_writer(&mut *out, &table::of(kind, std::iter::once(object), &meta, with_object, now))
            }
        };
        result.expect("a JSON value goes into a vector");
    }

    /// Writes a list.
    pub(super) fn write_list(self, kind: &Kind, items: &[Arc<Value>], metadata: &Value, now: i64, out: &mut Vec<u8>) {
        if let Self::Table { with_object } = self {
            let table = table::of(kind, items.iter().map(AsRef::as_ref), metadata, with_object, now);
            serde_json::to_writer(out, &table).expect("a JSON value goes into a vector");
            return;
        }
        let (list_kind, version) = match self {
            Self::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Self::Whole | Self::Table { .. } => (format!("{}List", kind.kind), kind.api_version()),
        };
        out.extend_from_slice(
            format!("{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":[")
                .as_bytes(),
        );
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.write_one(kind, item, now, out);
        }
        out.extend_from_slice(b"]}");
    }
}

fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
