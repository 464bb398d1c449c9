//! From a URL to what is asked. May not: look anything up in storage.

use super::registry::{self, Kind};

/// What a path means.
#[derive(Debug)]
pub(super) enum Route {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    Resources(String, String),
    Version,
    Health,
    /// Objects of a resource.
    Objects(Target),
    /// A served group and version without such a resource: 404 as a `Status`.
    NoResource,
    /// 404 as plain text.
    Nothing,
}

/// A resource, and as much of an address in it as the path gives.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub kind: &'static Kind,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub sub: Option<String>,
}

impl Target {
    /// Namespace for storage: empty for cluster-wide objects.
    pub(super) fn space(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

pub(super) fn route(path: &str) -> Route {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    match parts.as_slice() {
        ["version"] => Route::Version,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Resources(String::new(), (*version).to_owned()),
        ["apis", group, version] => Route::Resources((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        _ => Route::Nothing,
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Route {
    let served = registry::KINDS.iter().any(|k| k.group == group && k.version == version);
    if !served {
        return Route::Nothing;
    }
    let owned = |text: &&str| (**text).to_owned();
    let (namespace, plural, name, sub) = match rest {
        ["namespaces", name, sub @ ("status" | "finalize")] => (None, "namespaces", Some(*name), Some(*sub)),
        ["namespaces"] => (None, "namespaces", None, None),
        ["namespaces", name] => (None, "namespaces", Some(*name), None),
        ["namespaces", ns, plural] => (Some(*ns), *plural, None, None),
        ["namespaces", ns, plural, name] => (Some(*ns), *plural, Some(*name), None),
        ["namespaces", ns, plural, name, sub] => (Some(*ns), *plural, Some(*name), Some(*sub)),
        [plural] => (None, *plural, None, None),
        [plural, name] => (None, *plural, Some(*name), None),
        [plural, name, sub] => (None, *plural, Some(*name), Some(*sub)),
        _ => return Route::NoResource,
    };
    let Some(kind) = registry::find(group, version, plural) else { return Route::NoResource };
    let fits = if kind.namespaced { namespace.is_some() || name.is_none() } else { namespace.is_none() };
    if !fits || sub.is_some_and(|s| !kind.sub.contains(&s)) {
        return Route::NoResource;
    }
    Route::Objects(Target {
        kind,
        namespace: namespace.as_ref().map(owned),
        name: name.as_ref().map(owned),
        sub: sub.as_ref().map(owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        match route(path) {
            Route::Objects(t) => format!("{} {:?} {:?} {:?}", t.kind.id, t.namespace, t.name, t.sub),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_of_every_form() {
        for (path, meaning) in [
            ("/api/v1/pods", "pods None None None"),
            ("/api/v1/namespaces/a/pods", r#"pods Some("a") None None"#),
            ("/api/v1/namespaces/a/pods/b/resize", r#"pods Some("a") Some("b") Some("resize")"#),
            ("/api/v1/namespaces/a", r#"namespaces None Some("a") None"#),
            ("/api/v1/namespaces/a/status", r#"namespaces None Some("a") Some("status")"#),
            ("/apis/apps/v1/namespaces/a/deployments/b", r#"deployments.apps Some("a") Some("b") None"#),
            ("/api/v1/namespaces/a/nope", "NoResource"),
            ("/api/v1/namespaces/a/pods/b/nope", "NoResource"),
            ("/apis/nope/v1", r#"Resources("nope", "v1")"#),
            ("/apis/nope/v1/x", "Nothing"),
            ("/openapi/v2", "Nothing"),
            ("/version", "Version"),
        ] {
            assert_eq!(text(path), meaning, "{path}");
        }
    }
}
