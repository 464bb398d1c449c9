//! The recommendation file, `kapr.dev/v1alpha1` (docs/recommendation.md): strict, and every complaint has a place.

use std::collections::BTreeMap;

use super::complaint::{Complaint, Fault, Place, quote};
use super::fields::{Fields, list, text};
use super::yaml::{self, Node, Value};
use super::{Origin, Wanted, amount, policy_part};
use crate::core::nearest::nearest;
use crate::core::policy::PolicyPatch;
use crate::core::recommendation::{MAX_CONTAINERS, Recommendation, RecommendationError};
use crate::core::resources::{ContainerResources, Key, Resources};
use crate::core::workload::{WorkloadKind, WorkloadRef};

pub const API_VERSION: &str = "kapr.dev/v1alpha1";
pub const KIND: &str = "Recommendation";

/// What `metadata` may hold. Only the namespace is used; the others are what tools put there.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Reads every recommendation of a text. `source` is the name that complaints give it.
pub fn read(source: &str, content: &str, default_namespace: &str) -> Result<Vec<Wanted>, Complaint> {
    read_all(source, content, default_namespace).map_err(|fault| fault.in_source(source, content))
}

fn read_all(source: &str, content: &str, default_namespace: &str) -> Result<Vec<Wanted>, Fault> {
    if let Some(position) = content.find('\0') {
        let line = content[..position].matches('\n').count() + 1;
        return Err(Fault { place: None, text: format!("not a text file: there is a NUL byte on line {line}") });
    }
    let mut wanted = Vec::new();
    for (document, node) in yaml::parse(content)? {
        let mut take = |node: &Node| {
            let (recommendation, policy) = recommendation(node, default_namespace)?;
            let origin = Origin { source: source.to_owned(), document: Some(document), line: Some(node.place.line) };
            wanted.push(Wanted { recommendation, policy, origin });
            Ok(())
        };
        let what = format!("document {document}");
        match kind(&node, &what)? {
            Kind::Recommendation => take(&node)?,
            Kind::List => {
                let fields = Fields::of(&node, &what, &["apiVersion", "kind", "metadata", "items"])?;
                for (index, item) in list(fields.required("items")?, "items")?.iter().enumerate() {
                    let what = format!("item {} of {what}", index + 1);
                    match kind(item, &what)? {
                        Kind::Recommendation => take(item)?,
                        Kind::List => return Err(Fault::at(item.place, format!("{what} is a List in a List"))),
                    }
                }
            }
        }
    }
    Ok(wanted)
}

enum Kind {
    Recommendation,
    List,
}

/// Decides what an object is; everything else is told what is expected here.
fn kind(node: &Node, what: &str) -> Result<Kind, Fault> {
    let expected = format!("expected kind {KIND} of {API_VERSION}");
    if !matches!(node.value, Value::Map(_)) {
        return Err(Fault::at(node.place, format!("{what} is {}; {expected}", node.kind())));
    }
    let fields = Fields::unchecked(node, what)?;
    let Some(kind) = fields.get("kind") else {
        return Err(Fault::at(node.place, format!("{what} has no kind; {expected}")));
    };
    let Some(version) = fields.get("apiVersion") else {
        return Err(Fault::at(node.place, format!("{what} has no apiVersion; {expected}")));
    };
    match (text(version, "apiVersion")?, text(kind, "kind")?) {
        (API_VERSION, KIND) => Ok(Kind::Recommendation),
        ("v1", "List") => Ok(Kind::List),
        (API_VERSION, other) => {
            let hint = nearest(other, [KIND]).map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            Err(Fault::at(kind.place, format!("{what} has kind {}, {expected}{hint}", quote(other))))
        }
        (other, KIND) => Err(Fault::at(version.place, format!("{what} has apiVersion {}, {expected}", quote(other)))),
        (version, other) => {
            Err(Fault::at(kind.place, format!("{what} is a {} of {}; {expected}", quote(other), quote(version))))
        }
    }
}

/// Where the parts of a recommendation stand, for complaints of the core.
struct Places {
    workload_name: Place,
    namespace: Option<Place>,
    containers: Place,
    by_container: BTreeMap<String, Place>,
}

fn recommendation(node: &Node, default_namespace: &str) -> Result<(Recommendation, PolicyPatch), Fault> {
    let top = Fields::of(node, KIND, &["apiVersion", "kind", "metadata", "spec"])?;
    let namespace = match top.get("metadata") {
        None => None,
        Some(metadata) => Fields::of(metadata, "metadata", &METADATA)?.get("namespace"),
    };
    let namespace_text = namespace.map_or(Ok(default_namespace), |node| text(node, "metadata.namespace"))?;
    let spec = Fields::of(top.required("spec")?, "spec", &["workload", "containers", "policy"])?;
    let (kind, name) = workload(spec.required("workload")?)?;
    let workload =
        WorkloadRef { kind, namespace: namespace_text.to_owned(), name: text(name, "spec.workload.name")?.to_owned() };
    let containers_node = spec.required("containers")?;
    let (containers, by_container) = containers(containers_node)?;
    let policy = spec.get("policy").map_or_else(|| Ok(PolicyPatch::default()), policy_part::read)?;
    let places = Places {
        workload_name: name.place,
        namespace: namespace.map(|node| node.place),
        containers: containers_node.place,
        by_container,
    };
    let made = Recommendation::new(workload, containers).map_err(|error| place_of(&error, &places))?;
    Ok((made, policy))
}

fn workload(node: &Node) -> Result<(WorkloadKind, &Node), Fault> {
    if let Value::Map(entries) = &node.value
        && let Some(entry) = entries.iter().find(|entry| entry.key == "namespace")
    {
        return Err(Fault::at(entry.key_place, "the namespace of a recommendation is written as metadata.namespace"));
    }
    let fields = Fields::of(node, "spec.workload", &["apiVersion", "kind", "name"])?;
    if let Some(version) = fields.get("apiVersion") {
        let given = text(version, "spec.workload.apiVersion")?;
        if given != WorkloadKind::API_VERSION {
            let want = WorkloadKind::API_VERSION;
            return Err(Fault::at(
                version.place,
                format!("spec.workload.apiVersion is {}; workloads here are of {want}", quote(given)),
            ));
        }
    }
    let kind = fields.required("kind")?;
    let given = text(kind, "spec.workload.kind")?;
    let names = WorkloadKind::ALL.map(WorkloadKind::name);
    let known = WorkloadKind::ALL.into_iter().find(|kind| kind.name() == given).ok_or_else(|| {
        let hint = nearest(given, names)
            .map_or_else(|| format!("kinds here are {}", names.join(", ")), |near| format!("did you mean \"{near}\"?"));
        Fault::at(kind.place, format!("spec.workload.kind {} cannot be resized; {hint}", quote(given)))
    })?;
    Ok((known, fields.required("name")?))
}

/// The containers, and where each name stands.
fn containers(node: &Node) -> Result<(ContainerResources, BTreeMap<String, Place>), Fault> {
    let items = list(node, "spec.containers")?;
    if items.len() > MAX_CONTAINERS {
        let count = items.len();
        return Err(Fault::at(
            node.place,
            format!("spec.containers names {count} containers: at most {MAX_CONTAINERS} are allowed"),
        ));
    }
    let (mut all, mut places) = (ContainerResources::new(), BTreeMap::new());
    for item in items {
        let what = "spec.containers";
        // The block of a pod's manifest, pasted: the same words, one level deeper.
        if let Some(entry) = Fields::unchecked(item, what)?.entries().iter().find(|entry| entry.key == "resources") {
            return Err(Fault::at(
                entry.key_place,
                "requests and limits stand beside the name here, not under resources",
            ));
        }
        let fields = Fields::of(item, what, &["name", "requests", "limits"])?;
        let name = fields.required("name")?;
        let container = text(name, "name")?.to_owned();
        let mut resources = Resources::default();
        for (part, keys) in
            [("requests", [Key::RequestsCpu, Key::RequestsMemory]), ("limits", [Key::LimitsCpu, Key::LimitsMemory])]
        {
            if let Some(node) = fields.get(part) {
                amounts(node, part, keys, &mut resources)?;
            }
        }
        if let Some(first) = places.insert(container.clone(), name.place) {
            let container = quote(&container);
            return Err(Fault::at(
                name.place,
                format!("container {container} is there twice, first on line {}", first.line),
            ));
        }
        all.insert(container, resources);
    }
    Ok((all, places))
}

fn amounts(node: &Node, part: &str, keys: [Key; 2], resources: &mut Resources) -> Result<(), Fault> {
    let fields = Fields::of(node, part, &["cpu", "memory"])?;
    for (name, key) in ["cpu", "memory"].into_iter().zip(keys) {
        let Some(node) = fields.get(name) else { continue };
        let given = text(node, key.path())?;
        let value = amount::parse(key, given).map_err(|why| Fault::at(node.place, format!("{key}: {why}")))?;
        resources.set(key, Some(value));
    }
    Ok(())
}

/// Finds the place that a complaint of the core is about.
fn place_of(error: &RecommendationError, places: &Places) -> Fault {
    let container = |name: &String| places.by_container.get(name).copied().unwrap_or(places.containers);
    let place = match error {
        RecommendationError::NoContainers(_) | RecommendationError::TooManyContainers { .. } => Some(places.containers),
        RecommendationError::BadName { what: "workload name", .. } => Some(places.workload_name),
        RecommendationError::BadName { what: "namespace", .. } => places.namespace,
        RecommendationError::Nothing { container: name }
        | RecommendationError::RequestAboveLimit { container: name, .. }
        | RecommendationError::BadName { name, .. } => Some(container(name)),
    };
    Fault { place, text: error.to_string() }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
