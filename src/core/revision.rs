//! The revision: the identity of a recommendation, the same on every machine.

use std::fmt;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::recommendation::Recommendation;
use super::resources::Key;
use super::workload::WorkloadKind;

/// SHA-256 over the canonical text of a recommendation, as 64 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(String);

/// The first line of the canonical text; a change of the form changes it, and with it every revision.
const VERSION_TAG: &str = "kapr.dev/revision/v1";

/// How many hex digits are shown and may be typed.
pub const SHORT: usize = 10;

impl Revision {
    pub fn of(recommendation: &Recommendation) -> Self {
        let digest = Sha256::digest(canonical(recommendation).as_bytes());
        Self(digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        }))
    }

    /// The first ten hex digits: what is shown.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }

    pub fn full(&self) -> &str {
        &self.0
    }

    /// Whether a person who typed `prefix` meant this revision.
    pub fn starts_with(&self, prefix: &str) -> bool {
        prefix.len() >= 4 && self.0.starts_with(&prefix.to_ascii_lowercase())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

impl TryFrom<String> for Revision {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is not a revision: 64 lower-case hex digits"))
        }
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

/// The text a revision is the hash of: a version tag, group/kind, namespace, name, then for each container, sorted by
/// name, its name and its present values as integers in millicores and bytes. One line each, no UID.
pub fn canonical(recommendation: &Recommendation) -> String {
    let workload = &recommendation.workload;
    let mut text = format!(
        "{VERSION_TAG}\n{}/{}\n{}\n{}\n",
        WorkloadKind::GROUP,
        workload.kind,
        workload.namespace,
        workload.name
    );
    for (name, resources) in recommendation.containers() {
        let _ = writeln!(text, "container {name}");
        for key in Key::ALL {
            if let Some(value) = resources.get(key) {
                let _ = writeln!(text, "{key}={value}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::quantity::{Bytes, Millicores};
    use crate::core::resources::{Amounts, ContainerResources, Resources};
    use crate::core::workload::WorkloadRef;

    fn recommendation(cpu: &str) -> Recommendation {
        let workload = WorkloadRef { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let app = Resources {
            requests: Amounts { cpu: Some(Millicores::parse(cpu).unwrap()), memory: None },
            limits: Amounts { cpu: None, memory: Some(Bytes::parse("256Mi").unwrap()) },
        };
        Recommendation::new(workload, ContainerResources::from([("app".to_owned(), app)])).unwrap()
    }

    #[test]
    fn the_canonical_text_is_fixed() {
        assert_eq!(
            canonical(&recommendation("250m")),
            "kapr.dev/revision/v1\napps/Deployment\nshop\nweb\ncontainer app\nrequests.cpu=250\nlimits.memory=268435456\n"
        );
    }

    #[test]
    fn the_spelling_of_a_quantity_does_not_matter() {
        assert_eq!(Revision::of(&recommendation("0.25")), Revision::of(&recommendation("250m")));
        assert_ne!(Revision::of(&recommendation("251m")), Revision::of(&recommendation("250m")));
    }

    #[test]
    fn a_prefix_of_four_digits_names_it() {
        let revision = Revision::of(&recommendation("250m"));
        assert!(revision.starts_with(&revision.full()[..4]));
        assert!(!revision.starts_with(&revision.full()[..3]));
    }
}
