//! The `policy` part of a recommendation file. Its fields are those of [`PolicyPatch`]: none is listed here.

use serde_json::{Map, Value as Json, json};

use super::complaint::{Fault, clean, quote};
use super::fields::Fields;
use super::yaml::{Entry, Node, Value};
use crate::core::nearest::nearest;
use crate::core::policy::PolicyPatch;

const WHAT: &str = "spec.policy";

/// Longer texts are no setting; their echo would hide the sentence.
const MAX_TEXT: usize = 200;

pub fn read(node: &Node) -> Result<PolicyPatch, Fault> {
    let known = known_fields();
    let known = known.iter().map(String::as_str).collect::<Vec<_>>();
    let mut object = Map::new();
    for entry in Fields::of(node, WHAT, &known)?.entries() {
        if entry.value.value != Value::Null {
            object.insert(entry.key.clone(), setting(entry)?);
        }
    }
    decode(object).map_err(|error| Fault::at(node.place, format!("{WHAT}: {}", clean(&error))))
}

/// Every field that [`PolicyPatch`] has, from what it writes.
pub fn known_fields() -> Vec<String> {
    match json!(PolicyPatch::default()) {
        Json::Object(fields) => fields.into_iter().map(|(name, _)| name).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Vec::new(),
    }
}

fn decode(object: Map<String, Json>) -> Result<PolicyPatch, String> {
    serde_json::from_value(Json::Object(object)).map_err(|error| error.to_string())
}

/// The form of a setting that its field takes: first as text (`5m`, `25%`), then as the number or boolean it looks like.
fn setting(entry: &Entry) -> Result<Json, Fault> {
    let fault = |text: String| Fault::at(entry.value.place, format!("{WHAT}.{}: {text}", entry.key));
    if longest(&entry.value) > MAX_TEXT {
        return Err(fault("the value is too long".to_owned()));
    }
    let attempt = |form: Json| decode(Map::from_iter([(entry.key.clone(), form.clone())])).map(|_| form);
    let as_text = match attempt(to_json(&entry.value, false)) {
        Ok(form) => return zero_checked(entry, form).map_err(fault),
        Err(error) => error,
    };
    match attempt(to_json(&entry.value, true)) {
        Ok(form) => zero_checked(entry, form).map_err(fault),
        Err(_) if !as_text.starts_with("invalid type") => Err(fault(explain(&entry.value, &as_text))),
        Err(as_literal) => Err(fault(explain(&entry.value, &as_literal))),
    }
}

/// A run that may have no pod on its way would never end.
fn zero_checked(entry: &Entry, form: Json) -> Result<Json, String> {
    if entry.key.starts_with("max") && form == json!(0) {
        return Err("0 would never let the run go on: write 1 or more".to_owned());
    }
    Ok(form)
}

fn longest(node: &Node) -> usize {
    match &node.value {
        Value::Null => 0,
        Value::Scalar { text, .. } => text.len(),
        Value::List(items) => items.iter().map(longest).max().unwrap_or(0),
        Value::Map(entries) => {
            entries.iter().map(|entry| entry.key.len().max(longest(&entry.value))).max().unwrap_or(0)
        }
    }
}

/// The value as JSON. With `literal`, unquoted numbers and booleans are what they look like; otherwise text.
fn to_json(node: &Node, literal: bool) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar { text, plain } if *plain && literal => match serde_json::from_str::<Json>(text) {
            Ok(value @ (Json::Bool(_) | Json::Number(_))) => value,
            Ok(_) | Err(_) => Json::String(text.clone()),
        },
        Value::Scalar { text, .. } => Json::String(text.clone()),
        Value::List(items) => items.iter().map(|item| to_json(item, literal)).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), to_json(&entry.value, literal)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// Serde's sentence in the words of a person who writes a file.
fn explain(node: &Node, error: &str) -> String {
    let shown = match &node.value {
        Value::Scalar { text, .. } => quote(text),
        Value::Null | Value::List(_) | Value::Map(_) => node.kind().to_owned(),
    };
    if error.starts_with("unknown variant") {
        let known = error.rsplit_once("expected ").map_or("", |(_, known)| known);
        let words = known.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        let Value::Scalar { text, .. } = &node.value else { return clean(error) };
        return match nearest(text, words.iter().copied()) {
            Some(near) => format!("{shown} is not known here; did you mean \"{near}\"?"),
            None => format!("{shown} is not known here; write one of {}", words.join(", ")),
        };
    }
    match error.rsplit_once("expected ") {
        Some((head, expected)) if head.starts_with("invalid ") => {
            let expected = match expected {
                "a boolean" => "true or false",
                "a string" => "a single value such as 5m",
                "string or map" => "a single word",
                "a sequence" => "a list",
                "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number",
                other => other,
            };
            format!("{shown} is not {}", clean(expected))
        }
        _ => clean(error),
    }
}
