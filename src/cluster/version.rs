//! What the API server is: its version and what it serves. May not: decide what a missing feature means.

use std::fmt;

use super::explain::Failure;

/// The version of the API server, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    pub major: u32,
    pub minor: u32,
    /// The full text, such as `v1.37.2` or `v1.33.4-eks-aae39f`.
    pub git: String,
}

impl ServerVersion {
    /// From the fields of `/version`; some vendors write the minor as `33+`.
    pub fn parse(major: &str, minor: &str, git: &str) -> Option<Self> {
        let number = |text: &str| -> Option<u32> {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some(Self { major: number(major)?, minor: number(minor)?, git: git.to_owned() })
    }

    /// Whether the version is at least `1.minor`.
    pub fn is_at_least(&self, minor: u32) -> bool {
        (self.major, self.minor) >= (1, minor)
    }

    /// Resizing running pods is on by default from 1.33 (before: alpha, and without the `resize` subresource until
    /// 1.32). [`serves_resize`] asks the server itself.
    pub fn supports_resize(&self) -> bool {
        self.is_at_least(33)
    }

    /// Whether a memory limit can be lowered in place (1.34); on 1.33 the server refuses it.
    pub fn supports_memory_limit_decrease(&self) -> bool {
        self.is_at_least(34)
    }

    /// Whether a resize that cannot fit its node is refused at once, also by a dry run (1.36); before, the kubelet says
    /// so later.
    pub fn refuses_beyond_node_capacity(&self) -> bool {
        self.is_at_least(36)
    }

    /// Whether `MutatingAdmissionPolicy` is on by default, which `--persist` builds on.
    pub fn supports_persistence(&self) -> bool {
        self.is_at_least(36)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git)
    }
}

/// Asks the server for its version.
pub async fn server_version(client: &kube::Client) -> Result<ServerVersion, Failure> {
    const ASK: &str = "read the server version";
    let info = client.apiserver_version().await.map_err(|error| Failure::new(ASK, &error))?;
    ServerVersion::parse(&info.major, &info.minor, &info.git_version).ok_or_else(|| Failure {
        operation: ASK.to_owned(),
        reason: format!("\"{}.{}\" is not a version", info.major, info.minor),
    })
}

/// Whether the server offers `pods/resize`: a gate can take it away in any version.
pub async fn serves_resize(client: &kube::Client) -> Result<bool, Failure> {
    let list = client.list_core_api_resources("v1").await;
    let list = list.map_err(|error| Failure::new("read which resources the server offers", &error))?;
    Ok(list.resources.iter().any(|resource| resource.name == "pods/resize"))
}

/// The versions in which the server offers an API group, its preferred one first; empty if it does not.
pub async fn served_versions(client: &kube::Client, group: &str) -> Result<Vec<String>, Failure> {
    let list = client.list_api_groups().await;
    let list = list.map_err(|error| Failure::new("read which API groups the server offers", &error))?;
    let Some(found) = list.groups.into_iter().find(|each| each.name == group) else { return Ok(Vec::new()) };
    let preferred = found.preferred_version.map(|version| version.version);
    let others = found.versions.into_iter().map(|version| version.version);
    let others = others.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
    Ok(preferred.into_iter().chain(others).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1", "32", false, false, false)]
    #[case("1", "33+", true, false, false)]
    #[case("1", "34", true, true, false)]
    #[case("1", "36", true, true, true)]
    #[case("2", "0", true, true, true)]
    fn abilities(
        #[case] major: &str,
        #[case] minor: &str,
        #[case] resize: bool,
        #[case] decrease: bool,
        #[case] capacity: bool,
    ) {
        let version = ServerVersion::parse(major, minor, "v").unwrap();
        assert_eq!(version.supports_resize(), resize);
        assert_eq!(version.supports_memory_limit_decrease(), decrease);
        assert_eq!(version.refuses_beyond_node_capacity(), capacity);
        assert_eq!(version.supports_persistence(), capacity);
    }

    #[test]
    fn nonsense_is_no_version() {
        assert_eq!(ServerVersion::parse("", "x", "v"), None);
    }
}
