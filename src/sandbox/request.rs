//! One request, taken apart: method, target, query, headers. May not: answer it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::answer::Failure;
use super::route::Target;

/// What a request to a resource asks for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub method: http::Method,
    pub target: Target,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub accept: String,
    pub agent: String,
    pub body: Bytes,
}

impl Ask {
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.query.get(name).map(String::as_str), Some("true" | "1"))
    }

    pub(super) fn is_watch(&self) -> bool {
        self.flag("watch")
    }

    /// The verb that access rules are written in.
    pub(super) fn verb(&self) -> &'static str {
        let named = self.target.name.is_some();
        match (self.method.as_str(), named) {
            ("GET", _) if self.is_watch() => "watch",
            ("GET", true) => "get",
            ("GET", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => "",
        }
    }

    /// Whether nothing may be stored. Any other value than `All` is refused.
    pub(super) fn dry_run(&self, options: &str) -> Result<bool, Failure> {
        match self.param("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let message = format!("Unsupported value: [{other:?}]: supported values: \"All\"");
                let cause =
                    super::answer::Cause { reason: "FieldValueNotSupported", message, field: "dryRun".to_owned() };
                Err(Failure::invalid("meta.k8s.io", options, "", &[cause]))
            }
        }
    }

    /// Who writes, as `managedFields` will say.
    pub(super) fn manager(&self) -> String {
        let agent = || self.agent.split('/').next().unwrap_or_default().to_owned();
        self.param("fieldManager").map_or_else(agent, str::to_owned)
    }

    /// The body as JSON; YAML is read too.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        parse(&self.content_type, &self.body)
    }
}

/// A body as JSON; YAML is read too.
pub(super) fn parse(content_type: &str, body: &[u8]) -> Result<Value, Failure> {
    let wrong = |why: String| {
        let message = format!("the object provided is unrecognized (must be of type Object): {why}");
        Failure::bad_request(message)
    };
    if content_type.contains("protobuf") {
        return Err(Failure::new(415, "UnsupportedMediaType", "the sandbox speaks JSON and YAML only"));
    }
    if content_type.contains("yaml") {
        let text = std::str::from_utf8(body).map_err(|e| wrong(e.to_string()))?;
        return serde_saphyr::from_str(text).map_err(|e| wrong(e.to_string()));
    }
    serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))
}

/// The pairs of a query string, percent-decoded.
pub(super) fn query(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
        .collect()
}

/// Percent-decoding, with `+` as a space.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let pair = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let hex = std::str::from_utf8(&pair).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
                bytes.push(hex.unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = query("labelSelector=app%3Dweb%2Ctier+in+%28a%29&watch=1&x");
        assert_eq!(query["labelSelector"], "app=web,tier in (a)");
        assert_eq!((query["watch"].as_str(), query["x"].as_str()), ("1", ""));
    }
}
