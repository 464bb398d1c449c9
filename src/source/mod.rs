//! Where recommendations come from: files, directories, standard input, addresses and `--set`.
//!
//! Everything ends as a validated [`Recommendation`] with the policy that was written beside it and where both came
//! from. Nothing here knows a cluster. A later source (a VerticalPodAutoscaler, a report of KRR) is one more module
//! that returns [`Wanted`].

mod amount;
pub mod complaint;
pub mod document;
mod fields;
mod files;
mod policy_part;
pub mod set;
mod url;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use serde::Serialize;

use self::complaint::{Complaint, clean};
pub use self::url::UrlError;
use crate::core::policy::PolicyPatch;
use crate::core::recommendation::{Recommendation, RecommendationError};
use crate::core::workload::WorkloadRef;

/// A recommendation as somebody wants it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub recommendation: Recommendation,
    /// What the source says about how to proceed; flags win over it.
    pub policy: PolicyPatch,
    pub origin: Origin,
}

/// Where a recommendation was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// A file's name as it was given, an address without its secrets, `standard input` or `--set`.
    pub source: String,
    /// The YAML document it is in, from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<usize>,
    /// The line it begins on, from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.source))?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// Which texts to read.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The values of `-f`: files, directories, `-`, addresses.
    pub files: &'a [String],
    /// Look into the folders of a directory too.
    pub recursive: bool,
    /// For recommendations that name no namespace.
    pub default_namespace: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Document(#[from] Box<Complaint>),
    #[error(transparent)]
    Set(#[from] set::SetError),
    #[error("--set: {0}")]
    Invalid(RecommendationError),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{name} does not exist")]
    Missing { name: String },
    #[error("cannot read {name}")]
    Unreadable {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("{name} is {size}: a recommendation file may be at most 4 MiB")]
    TooLarge { name: String, size: String },
    #[error("{name} is not a text file: line {line} is not valid UTF-8")]
    NotText { name: String, line: usize },
    #[error("directory {name} has no .yaml, .yml or .json file")]
    EmptyDirectory { name: String },
    #[error("{name} holds no recommendation: write one of kind Recommendation, apiVersion {}", document::API_VERSION)]
    Nothing { name: String },
    #[error("-f - is given twice: standard input can be read once")]
    StdinTwice,
    #[error("{} in namespace {} is recommended for twice: {} and {}", .0.workload, .0.workload.namespace, .0.first, .0.second)]
    Twice(Box<Twice>),
}

/// One workload with two recommendations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Twice {
    pub workload: WorkloadRef,
    pub first: Origin,
    pub second: Origin,
}

/// Reads every recommendation that the `-f` arguments name, in their order; in each at least one, and no workload twice.
pub async fn load(sources: &Sources<'_>, stdin: &mut (dyn Read + Send)) -> Result<Vec<Wanted>, SourceError> {
    let mut wanted = Vec::new();
    let mut stdin = Some(stdin);
    for argument in sources.files {
        if argument == "-" {
            let stream = stdin.take().ok_or(SourceError::StdinTwice)?;
            let name = "standard input";
            wanted.extend(read_text(name, &files::read_stream(name, stream)?, sources)?);
        } else if url::is_url(argument) {
            let (name, text) = url::read(argument).await?;
            wanted.extend(read_text(&name, &text, sources)?);
        } else {
            for path in files::expand(argument, sources.recursive)? {
                wanted.extend(read_text(&path.to_string_lossy(), &files::read(&path)?, sources)?);
            }
        }
    }
    refuse_twice(&wanted)?;
    Ok(wanted)
}

/// The recommendation that the values of `--set` make for a workload.
pub fn from_set(texts: &[String], workload: WorkloadRef) -> Result<Wanted, SourceError> {
    let recommendation = Recommendation::new(workload, set::parse_all(texts)?).map_err(SourceError::Invalid)?;
    let origin = Origin { source: "--set".to_owned(), document: None, line: None };
    Ok(Wanted { recommendation, policy: PolicyPatch::default(), origin })
}

fn read_text(name: &str, text: &str, sources: &Sources<'_>) -> Result<Vec<Wanted>, SourceError> {
    let wanted = document::read(name, text, sources.default_namespace).map_err(Box::new)?;
    if wanted.is_empty() {
        return Err(SourceError::Nothing { name: clean(name) });
    }
    Ok(wanted)
}

/// Two files that disagree about one workload would make the order of files decide.
fn refuse_twice(wanted: &[Wanted]) -> Result<(), SourceError> {
    let mut seen = BTreeMap::new();
    for one in wanted {
        let workload = &one.recommendation.workload;
        if let Some(first) = seen.insert(workload, &one.origin) {
            return Err(SourceError::Twice(Box::new(Twice {
                workload: workload.clone(),
                first: first.clone(),
                second: one.origin.clone(),
            })));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
