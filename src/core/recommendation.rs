//! A recommendation: for one workload, what its containers shall have. Constructing one is the validation.

use serde::{Deserialize, Serialize};

use super::resources::{ContainerResources, Key, Resources};
use super::workload::WorkloadRef;

/// A validated recommendation. Only the named keys are meant to change; absent is absent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recommendation {
    pub workload: WorkloadRef,
    containers: ContainerResources,
}

/// More containers than a pod can hold in practice; keeps a hostile file from becoming a hostile record.
pub const MAX_CONTAINERS: usize = 256;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecommendationError {
    #[error("recommendation for {0} names no container: write at least one under spec.containers, or use --set")]
    NoContainers(String),
    #[error("recommendation for {workload} names {count} containers: at most {MAX_CONTAINERS} are allowed")]
    TooManyContainers { workload: String, count: usize },
    #[error(
        "container {container:?}: no request and no limit is named; write at least one of requests.cpu, requests.memory, limits.cpu, limits.memory"
    )]
    Nothing { container: String },
    #[error("container {container:?}: {request} {request_value} is above {limit} {limit_value}")]
    RequestAboveLimit { container: String, request: Key, request_value: String, limit: Key, limit_value: String },
    #[error(
        "{what} {name:?} is not a valid name: lower-case letters, digits, '-' and '.' only, at most {max} characters"
    )]
    BadName { what: &'static str, name: String, max: usize },
}

impl Recommendation {
    pub fn new(workload: WorkloadRef, containers: ContainerResources) -> Result<Self, RecommendationError> {
        check_name("workload name", &workload.name, 253)?;
        check_name("namespace", &workload.namespace, 63)?;
        if containers.is_empty() {
            return Err(RecommendationError::NoContainers(workload.to_string()));
        }
        if containers.len() > MAX_CONTAINERS {
            return Err(RecommendationError::TooManyContainers {
                workload: workload.to_string(),
                count: containers.len(),
            });
        }
        for (name, resources) in &containers {
            check_name("container name", name, 63)?;
            check_container(name, resources)?;
        }
        Ok(Self { workload, containers })
    }

    /// Container name to the values that shall change; sorted by name.
    pub fn containers(&self) -> &ContainerResources {
        &self.containers
    }
}

fn check_container(name: &str, resources: &Resources) -> Result<(), RecommendationError> {
    if resources.is_empty() {
        return Err(RecommendationError::Nothing { container: name.to_owned() });
    }
    for (request, limit) in [(Key::RequestsCpu, Key::LimitsCpu), (Key::RequestsMemory, Key::LimitsMemory)] {
        if let (Some(low), Some(high)) = (resources.get(request), resources.get(limit))
            && low > high
        {
            return Err(RecommendationError::RequestAboveLimit {
                container: name.to_owned(),
                request,
                request_value: request.show(low),
                limit,
                limit_value: limit.show(high),
            });
        }
    }
    Ok(())
}

/// DNS-1123 subdomain, as the API server checks object names; a container name is a label, which is stricter only in
/// the dots, and the server says so.
fn check_name(what: &'static str, name: &str, max: usize) -> Result<(), RecommendationError> {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = !name.is_empty()
        && name.len() <= max
        && name.chars().all(|c| edge(c) || c == '-' || c == '.')
        && name.starts_with(edge)
        && name.ends_with(edge);
    if good { Ok(()) } else { Err(RecommendationError::BadName { what, name: name.chars().take(80).collect(), max }) }
}
