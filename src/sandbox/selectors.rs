//! Label and field selectors. May not: read storage.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::Failure;
use super::registry::Kind;

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
}

/// A label selector: every rule must hold. Without rules it selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelSelector(Vec<Rule>);

impl LabelSelector {
    /// The text form of a query: `a=b,c!=d,e in (f,g),h,!i`.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        split_outside(text).into_iter().map(|part| rule(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// The object form: `matchLabels` and `matchExpressions`.
    pub(super) fn of_object(selector: &Value) -> Self {
        let mut rules = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            rules.push(Rule::In(key.clone(), one(value.as_str().unwrap_or_default())));
        }
        for e in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = e["key"].as_str().unwrap_or_default().to_owned();
            let values = e["values"].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned));
            let values = values.collect();
            rules.push(match e["operator"].as_str() {
                Some("In") => Rule::In(key, values),
                Some("NotIn") => Rule::NotIn(key, values),
                Some("Exists") => Rule::Exists(key),
                _ => Rule::Absent(key),
            });
        }
        Self(rules)
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|rule| match rule {
            Rule::In(key, values) => labels[key].as_str().is_some_and(|v| values.contains(v)),
            Rule::NotIn(key, values) => labels[key].as_str().is_none_or(|v| !values.contains(v)),
            Rule::Exists(key) => labels.get(key).is_some(),
            Rule::Absent(key) => labels.get(key).is_none(),
        })
    }

    pub(super) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}

fn one(value: &str) -> BTreeSet<String> {
    BTreeSet::from([value.to_owned()])
}

fn split_outside(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.retain(|p| !p.trim().is_empty());
    parts
}

fn rule(part: &str) -> Result<Rule, Failure> {
    let set = |key: &str, values: &str| {
        let inner = values.trim().trim_start_matches('(').trim_end_matches(')');
        (key.trim().to_owned(), inner.split(',').map(|v| v.trim().to_owned()).collect::<BTreeSet<_>>())
    };
    let rule = if let Some((key, value)) = part.split_once("!=") {
        Rule::NotIn(key.trim().to_owned(), one(value.trim()))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        Rule::In(key.trim().to_owned(), one(value.trim()))
    } else if let Some((key, values)) = part.split_once(" notin ") {
        let (key, values) = set(key, values);
        Rule::NotIn(key, values)
    } else if let Some((key, values)) = part.split_once(" in ") {
        let (key, values) = set(key, values);
        Rule::In(key, values)
    } else if let Some(key) = part.strip_prefix('!') {
        Rule::Absent(key.trim().to_owned())
    } else {
        Rule::Exists(part.to_owned())
    };
    let (Rule::In(key, _) | Rule::NotIn(key, _) | Rule::Exists(key) | Rule::Absent(key)) = &rule;
    if key.is_empty() || key.contains([' ', '(', ')', '=']) {
        return Err(Failure::bad_request("found '==', expected: !, identifier, or 'end of string'"));
    }
    Ok(rule)
}

/// A field selector: every `path=value` must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSelector(Vec<(String, String, bool)>);

impl FieldSelector {
    pub(super) fn parse(text: &str, kind: &Kind) -> Result<Self, Failure> {
        let mut rules = Vec::new();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let unequal = part.split_once("!=");
            let found = unequal.or_else(|| part.split_once("==")).or_else(|| part.split_once('='));
            let (path, value) = found.ok_or_else(|| Failure::bad_request(format!("invalid selector: {part:?}")))?;
            let equal = unequal.is_none();
            if !supported(kind, path) {
                return Err(Failure::bad_request(format!("field label not supported: {path}")));
            }
            rules.push((path.to_owned(), value.to_owned(), equal));
        }
        Ok(Self(rules))
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, value, equal)| (at(object, path) == *value) == *equal)
    }

    pub(super) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}

fn supported(kind: &Kind, path: &str) -> bool {
    match (kind.plural, path) {
        (_, "metadata.name" | "metadata.namespace")
        | (
            "pods",
            "spec.nodeName"
            | "spec.restartPolicy"
            | "spec.schedulerName"
            | "spec.serviceAccountName"
            | "status.phase"
            | "status.podIP"
            | "status.nominatedNodeName",
        )
        | ("nodes", "spec.unschedulable")
        | ("events", "reason" | "type" | "source" | "reportingComponent")
        | ("namespaces", "status.phase")
        | ("replicasets", "status.replicas") => true,
        ("events", path) => path.starts_with("involvedObject."),
        _ => false,
    }
}

fn at(object: &Value, path: &str) -> String {
    let path = if path == "reportingComponent" || path == "source" { "source.component" } else { path };
    let mut value = object;
    for step in path.split('.') {
        value = &value[step];
    }
    match value {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::registry::PODS;

    #[test]
    fn label_selectors_of_every_form() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (api, web)", true),
            ("app notin (web)", false),
            ("tier", true),
            ("!tier", false),
            ("other!=x", true),
            ("app=api", false),
        ] {
            assert_eq!(LabelSelector::parse(text).map(|s| s.matches(&pod)), Ok(expected), "{text}");
        }
        assert!(LabelSelector::parse("==").is_err());
    }

    #[test]
    fn field_selectors_reach_into_the_object_and_refuse_other_fields() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {}});
        let ask = |text: &str| FieldSelector::parse(text, &PODS).map(|s| s.matches(&pod));
        assert_eq!(ask("metadata.name=a,spec.nodeName=n"), Ok(true));
        assert_eq!(ask("status.phase!=Failed"), Ok(true));
        assert_eq!(ask("foo=bar").map_err(|f| f.message), Err("field label not supported: foo".to_owned()));
    }
}
