//! What a server says when it says no: `Status` bodies with the codes, reasons and sentences of a real one.
//! May not: decide anything.

use serde_json::{Value, json};

use super::registry::Kind;

/// A refusal, as the `Status` object that carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// `reason` of the `Status`, such as `Conflict`.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// `details`, or null.
    pub details: Value,
}

/// One entry of `details.causes` of a 422.
pub(super) struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub(super) fn forbidden(field: impl Into<String>, sentence: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {sentence}"), field: field.into() }
    }

    pub(super) fn invalid(field: impl Into<String>, value: &str, sentence: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value:?}: {sentence}"),
            field: field.into(),
        }
    }

    pub(super) fn required(field: impl Into<String>, sentence: &str) -> Self {
        let message =
            if sentence.is_empty() { "Required value".to_owned() } else { format!("Required value: {sentence}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }
}

impl Failure {
    /// A refusal with a code, a reason and a sentence, without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: Value::Null }
    }

    fn on(kind: &Kind, name: &str, code: u16, reason: &str, message: String) -> Self {
        let mut details = json!({"name": name, "kind": kind.plural});
        if !kind.group.is_empty() {
            details["group"] = kind.group.into();
        }
        Self { details, ..Self::new(code, reason, message) }
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::on(kind, name, 404, "NotFound", format!("{} {name:?} not found", kind.id))
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::on(kind, name, 409, "AlreadyExists", format!("{} {name:?} already exists", kind.id))
    }

    pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.id);
        Self::on(kind, name, 409, "Conflict", message)
    }

    pub(super) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(super) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", kind.id)
        } else {
            format!("{} {name:?} is forbidden: {why}", kind.id)
        };
        Self::on(kind, name, 403, "Forbidden", message)
    }

    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut lines: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let what = if lines.len() == 1 { lines.remove(0) } else { format!("[{}]", lines.join(", ")) };
        let typed = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes: Vec<Value> =
            causes.iter().map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field})).collect();
        let mut details = json!({"name": name, "kind": kind, "causes": causes});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self { details, ..Self::new(422, "Invalid", format!("{typed} {name:?} is invalid: {what}")) }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn no_such_resource() -> Self {
        Self { details: json!({}), ..Self::new(404, "NotFound", "the server could not find the requested resource") }
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::new(405, "MethodNotAllowed", message) }
    }

    pub(super) fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// Adds a cause without a field, as admission plugins and the eviction API do.
    pub(super) fn with_cause(mut self, reason: &str, message: Option<&str>) -> Self {
        let mut cause = json!({"reason": reason});
        if let Some(text) = message {
            cause["message"] = text.into();
        }
        if !self.details.is_object() {
            self.details = json!({});
        }
        self.details["causes"] = json!([cause]);
        self
    }

    /// The body.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.details.is_object() {
            body["details"] = self.details.clone();
        }
        body
    }
}
