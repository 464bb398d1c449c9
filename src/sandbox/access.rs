//! Who may do what: everything is allowed except what the sandbox was told to deny. May not: look at objects.

use serde_json::{Value, json};

use super::answer::Failure;
use super::request::Ask;

/// A right that nobody has. `*` stands for any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Verb, such as `patch`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the resource.
    pub resource: String,
    /// Subresource; empty for the resource itself.
    pub subresource: String,
}

impl Denied {
    /// A denied right.
    pub fn new(verb: &str, group: &str, resource: &str, subresource: &str) -> Self {
        let [verb, group, resource, subresource] = [verb, group, resource, subresource].map(str::to_owned);
        Self { verb, group, resource, subresource }
    }

    fn covers(&self, asked: [&str; 4]) -> bool {
        let mine = [&self.verb, &self.group, &self.resource, &self.subresource];
        mine.into_iter().zip(asked).all(|(rule, asked)| rule == "*" || rule == asked)
    }
}

/// The user every request comes from.
const USER: &str = "sandbox";

/// Refuses a request for a denied right, in the words of RBAC.
pub(super) fn check(denied: &[Denied], ask: &Ask) -> Result<(), Failure> {
    let (target, verb) = (&ask.target, ask.verb());
    let (kind, sub) = (target.kind, target.sub.as_deref().unwrap_or(""));
    if !denied.iter().any(|d| d.covers([verb, kind.group, kind.plural, sub])) {
        return Ok(());
    }
    let resource = if sub.is_empty() { kind.plural.to_owned() } else { format!("{}/{sub}", kind.plural) };
    let place = match &target.namespace {
        Some(ns) => format!("in the namespace {ns:?}"),
        None => "at the cluster scope".to_owned(),
    };
    let group = kind.group;
    let why = format!("User {USER:?} cannot {verb} resource {resource:?} in API group {group:?} {place}");
    Err(Failure::forbidden(kind, target.name(), &why))
}

/// Answers a `SelfSubjectAccessReview`.
pub(super) fn review(denied: &[Denied], mut review: Value) -> Value {
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    let asked = [text("verb"), text("group"), text("resource"), text("subresource")];
    let refused = denied.iter().any(|d| d.covers([&asked[0], &asked[1], &asked[2], &asked[3]]));
    review["status"] = json!({"allowed": !refused});
    review["kind"] = "SelfSubjectAccessReview".into();
    review["apiVersion"] = "authorization.k8s.io/v1".into();
    review
}
