//! `kubectl kapr check`: whether everything a rollout needs is there, before anything is changed.
//! May not: change anything in the cluster.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::SignedDuration;
use serde::Serialize;

use super::flags::OutputFormat;
use crate::cluster::connect::Connection;
use crate::cluster::explain::Failure;
use crate::cluster::rights::{Purpose, Right, grant_yaml, missing_rights, rights_for, user_name};
use crate::cluster::version::{ServerVersion, served_versions, server_version, serves_resize};
use crate::core::exit::Exit;

/// Check that the cluster, your rights and this machine are ready for a rollout
///
/// Nothing is changed. A ✖ stops a rollout, a ‼ makes it less safe or takes a feature away. Exit code 0 if there is no
/// ✖, else 7.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckArgs {
    /// Print only the RBAC objects that would grant the missing rights
    #[arg(long)]
    pub grant: bool,
}

/// How one check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pass,
    /// Something is worse or missing, but a rollout works.
    Warn,
    /// A rollout would be refused.
    Fail,
}

impl Status {
    fn mark(self) -> &'static str {
        match self {
            Self::Pass => "✔",
            Self::Warn => "‼",
            Self::Fail => "✖",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable: scripts and documentation refer to it.
    pub id: String,
    pub status: Status,
    pub text: String,
    /// What to do; always there for a check that did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Check {
    pub fn pass(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), status: Status::Pass, text: text.into(), hint: None }
    }

    pub fn warn(id: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { id: id.into(), status: Status::Warn, text: text.into(), hint: Some(hint.into()) }
    }

    pub fn fail(id: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { id: id.into(), status: Status::Fail, text: text.into(), hint: Some(hint.into()) }
    }
}

/// Checks of one subject.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub name: &'static str,
    pub checks: Vec<Check>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub kind: &'static str,
    pub success: bool,
    /// The exit code of the command.
    pub exit_code: u8,
    pub groups: Vec<Group>,
    /// The RBAC objects that would grant every right that is missing, as YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

impl Report {
    fn new(groups: Vec<Group>, grant: Option<String>) -> Self {
        let success = !groups.iter().flat_map(|group| &group.checks).any(|check| check.status == Status::Fail);
        Self { kind: "Check", success, exit_code: exit(success).code(), groups, grant }
    }
}

fn exit(success: bool) -> Exit {
    if success { Exit::Done } else { Exit::RefusedBefore }
}

/// Looks and writes the report. Ends as done, or as refused if a rollout would be.
///
/// `more` are groups of other parts, such as metrics, shown last. Fails if the output cannot be written.
pub async fn run(
    args: &CheckArgs,
    output: &OutputFormat,
    connection: &Connection,
    more: Vec<Group>,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let report = report(connection, more).await;
    if args.grant {
        out.write_all(report.grant.as_deref().unwrap_or_default().as_bytes())?;
    } else if *output == OutputFormat::Json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write_table(&report, out)?;
    }
    Ok(exit(report.success))
}

/// Asks the cluster and this machine.
pub async fn report(connection: &Connection, more: Vec<Group>) -> Report {
    let (server, version) = server_group(connection).await;
    let mut groups = vec![server];
    let mut grant = None;
    if let Some(version) = version {
        let (rights, missing) = rights_group(connection, version.supports_persistence()).await;
        groups.push(rights);
        if !missing.is_empty() {
            let user = user_name(&connection.read).await.unwrap_or_else(|_| "NAME".to_owned());
            grant = Some(grant_yaml(&missing, &connection.namespace, &user));
        }
        groups.extend(more);
    }
    groups.push(machine_group(connection));
    Report::new(groups, grant)
}

/// The checks of the server, and its version if it answered.
async fn server_group(connection: &Connection) -> (Group, Option<ServerVersion>) {
    let mut checks = Vec::new();
    let version = match server_version(&connection.read).await {
        Err(failure) => {
            let hint = "check the context and the network, and that you are logged in: kubectl cluster-info";
            checks.push(Check::fail("server-reachable", failure.to_string(), hint));
            None
        }
        Ok(version) => {
            checks.push(Check::pass("server-reachable", reached(connection)));
            let text = format!("server version {version}");
            checks.push(if version.supports_resize() {
                Check::pass("server-version", text)
            } else {
                Check::fail("server-version", text, "resizing running pods needs Kubernetes 1.33 or newer")
            });
            checks.push(resize_check(serves_resize(&connection.read).await));
            if !version.supports_persistence() {
                checks.push(Check::warn(
                    "server-persistence",
                    "--persist is not possible on this version",
                    "it needs Kubernetes 1.36; until then use the output of kubectl kapr export",
                ));
            }
            Some(version)
        }
    };
    (Group { name: "cluster", checks }, version)
}

fn reached(connection: &Connection) -> String {
    let context = connection.context.as_ref().map(|name| format!("context {name}, ")).unwrap_or_default();
    format!("{context}server {}, namespace {}, user {}", connection.server_url, connection.namespace, connection.user)
}

fn resize_check(served: Result<bool, Failure>) -> Check {
    const ID: &str = "resize-served";
    match served {
        Ok(true) => Check::pass(ID, "the server offers pods/resize"),
        Ok(false) => Check::fail(
            ID,
            "the server does not offer pods/resize",
            "the feature gate InPlacePodVerticalScaling must be on in the API server and on the nodes",
        ),
        Err(failure) => Check::warn(ID, failure.to_string(), "without discovery the first resize will tell"),
    }
}

/// The checks of all rights, and those that are missing.
async fn rights_group(connection: &Connection, persistence: bool) -> (Group, Vec<Right>) {
    let mut purposes = vec![Purpose::Rollout, Purpose::Evict];
    if persistence {
        purposes.push(Purpose::Persist);
    }
    let mut checks = Vec::new();
    let mut missing = Vec::new();
    let graceful = served_versions(&connection.read, "lifecycle.k8s.io").await.is_ok_and(|found| !found.is_empty());
    for purpose in purposes {
        let mut rights = rights_for(purpose);
        // A server without the API refuses nobody in particular.
        rights.retain(|right| graceful || right.group != "lifecycle.k8s.io");
        match missing_rights(&connection.read, &connection.namespace, &rights).await {
            Ok(lacking) => {
                checks.extend(purpose_checks(purpose, &rights, &lacking, &connection.namespace));
                if purpose == Purpose::Rollout {
                    missing.extend(lacking);
                }
            }
            Err(failure) => {
                let id = format!("rights-{}", purpose_name(purpose));
                let hint = "the first call that needs the right will tell";
                checks.push(Check::warn(id, failure.to_string(), hint));
            }
        }
    }
    (Group { name: "rights", checks }, missing)
}

fn purpose_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rollout => "rollout",
        Purpose::Evict => "evict",
        Purpose::Persist => "persist",
    }
}

/// For a rollout each resource with a missing right has its own line; the other purposes are offers, one line each.
fn purpose_checks(purpose: Purpose, asked: &[Right], lacking: &[Right], namespace: &str) -> Vec<Check> {
    let name = purpose_name(purpose);
    let id = format!("rights-{name}");
    let required: Vec<Right> = lacking.iter().copied().filter(|right| right.required).collect();
    if purpose == Purpose::Rollout {
        let all = format!("every right that a rollout in namespace {namespace} needs");
        let mut checks: Vec<Check> = required.is_empty().then(|| Check::pass(id, all)).into_iter().collect();
        checks.extend(by_resource(lacking).into_iter().map(|(text, right)| missing_check(&text, right)));
        return checks;
    }
    let hint = format!("ask for the ClusterRole kapr-{name} of docs/rbac.yaml if you want to {name}");
    if !required.is_empty() {
        let texts: Vec<String> = by_resource(&required).into_iter().map(|(text, _)| text).collect();
        let text = format!("you may not {name} in namespace {namespace}: no right to {}", texts.join("; "));
        vec![Check::warn(id, text, hint)]
    } else if !lacking.is_empty() {
        let text = format!("{} of {} rights to {name} gracefully are missing", lacking.len(), asked.len());
        vec![Check::warn(id, text, hint)]
    } else {
        vec![Check::pass(id, format!("you may {name} in namespace {namespace}"))]
    }
}

fn missing_check(text: &str, right: Right) -> Check {
    let resource = right.resource_path().replace('/', "-");
    let text = format!("no right to {text}");
    let hint = format!("needed to {}", right.why);
    if right.required {
        Check::fail(format!("right-{resource}"), text, hint)
    } else {
        Check::warn(format!("right-{resource}-optional"), text, hint)
    }
}

/// The rights in RBAC's words, one text for all verbs on a resource, with the first right it stands for.
fn by_resource(rights: &[Right]) -> Vec<(String, Right)> {
    let mut lines: Vec<(Vec<&str>, Right)> = Vec::new();
    for right in rights {
        let same = |other: &Right| {
            (other.group, other.resource_path(), other.required) == (right.group, right.resource_path(), right.required)
        };
        match lines.iter_mut().find(|(_, first)| same(first)) {
            Some((verbs, _)) => verbs.push(right.verb),
            None => lines.push((vec![right.verb], *right)),
        }
    }
    lines.into_iter().map(|(verbs, first)| (format!("{} {}", verbs.join(", "), first.target()), first)).collect()
}

/// Lookback windows and settle gates are in tens of seconds: a clock that is this far off shifts them visibly.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_secs(5);

fn machine_group(connection: &Connection) -> Group {
    let mut checks = Vec::new();
    if let Some(skew) = connection.clock_skew() {
        checks.push(skew_check(skew));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    checks.push(shadow_check(&shadowing_plugins(std::env::split_paths(&path))));
    Group { name: "this machine", checks }
}

fn skew_check(skew: SignedDuration) -> Check {
    const ID: &str = "clock-skew";
    let seconds = skew.abs().as_secs();
    if skew.abs() <= TOLERATED_SKEW {
        return Check::pass(ID, "the clocks of this machine and the server agree");
    }
    let side = if skew.is_negative() { "ahead of" } else { "behind" };
    Check::warn(
        ID,
        format!("the clock of this machine is {seconds} s {side} the server's"),
        "set it (NTP); until then kapr adds the difference to every settle gate",
    )
}

/// The files that kubectl would run instead of a subcommand of ours: `kubectl kapr rollout` looks for
/// `kubectl-kapr-rollout` first.
fn shadowing_plugins(path: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for directory in path {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("kubectl-kapr-") && is_executable(&entry.path()) {
                found.insert(entry.path());
            }
        }
    }
    found
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

fn shadow_check(found: &BTreeSet<PathBuf>) -> Check {
    const ID: &str = "plugin-shadowed";
    if found.is_empty() {
        return Check::pass(ID, "no other plugin takes our subcommands");
    }
    let files: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    Check::warn(
        ID,
        format!("kubectl runs {} instead of our subcommand of that name", files.join(", ")),
        "remove it from PATH, or put a flag first: kubectl kapr -n NAMESPACE ...",
    )
}

fn write_table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for group in &report.groups {
        writeln!(out, "{}\n{}", group.name, "-".repeat(group.name.len()))?;
        for check in &group.checks {
            writeln!(out, "{} {}", check.status.mark(), check.text)?;
            if let Some(hint) = &check.hint {
                writeln!(out, "    {hint} [{}]", check.id)?;
            }
        }
        writeln!(out)?;
    }
    if report.grant.is_some() {
        writeln!(
            out,
            "To grant what a rollout lacks, an administrator applies the output of: kubectl kapr check --grant"
        )?;
    }
    let verdict = if report.success { "A rollout would be let through." } else { "A rollout would be refused." };
    writeln!(out, "{verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(purpose: Purpose, wanted: &[&str]) -> Vec<Right> {
        rights_for(purpose).into_iter().filter(|right| wanted.contains(&right.to_string().as_str())).collect()
    }

    #[test]
    fn a_missing_required_right_fails_and_an_optional_one_warns() {
        let asked = rights_for(Purpose::Rollout);
        let lacking = some(Purpose::Rollout, &["get pods", "watch pods", "patch pods/resize", "get nodes"]);
        let checks = purpose_checks(Purpose::Rollout, &asked, &lacking, "shop");
        let seen: Vec<(&str, Status)> = checks.iter().map(|check| (check.id.as_str(), check.status)).collect();
        assert_eq!(
            seen,
            [("right-pods", Status::Fail), ("right-pods-resize", Status::Fail), ("right-nodes-optional", Status::Warn),]
        );
        assert_eq!(checks[0].text, "no right to get, watch pods");
        assert!(checks.iter().all(|check| check.hint.is_some()));
        assert!(!Report::new(vec![Group { name: "rights", checks }], None).success);
    }

    #[test]
    fn evicting_and_persisting_are_offers() {
        for (purpose, right) in [(Purpose::Evict, "create pods/eviction"), (Purpose::Persist, "patch deployments.apps")]
        {
            let checks = purpose_checks(purpose, &rights_for(purpose), &some(purpose, &[right]), "shop");
            assert_eq!(checks.len(), 1);
            assert_eq!(checks[0].status, Status::Warn);
            assert!(checks[0].text.contains(right), "{}", checks[0].text);
        }
    }

    #[test]
    fn only_executables_with_our_prefix_shadow() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            use std::os::unix::fs::PermissionsExt as _;
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        put("kubectl-kapr", 0o755);
        put("kubectl-kapr-notes", 0o644);
        put("kubectl-other", 0o755);
        let shadow = put("kubectl-kapr-rollout", 0o755);
        let path = [dir.path().to_owned(), "/no/such/folder".into()];
        let found = shadowing_plugins(path.into_iter());
        assert_eq!(found, BTreeSet::from([shadow.clone()]));
        let check = shadow_check(&found);
        assert_eq!(check.status, Status::Warn);
        assert!(check.text.contains(&shadow.display().to_string()));
    }

    #[test]
    fn skew_is_told_from_this_machine() {
        assert_eq!(skew_check(SignedDuration::from_secs(-2)).status, Status::Pass);
        let behind = skew_check(SignedDuration::from_secs(90));
        assert_eq!(behind.status, Status::Warn);
        assert_eq!(behind.text, "the clock of this machine is 90 s behind the server's");
        let ahead = skew_check(SignedDuration::from_secs(-90));
        assert_eq!(ahead.text, "the clock of this machine is 90 s ahead of the server's");
    }

    #[test]
    fn the_table_names_hint_and_id() {
        let checks =
            vec![Check::pass("a", "fine"), Check::warn("b", "odd", "do this"), Check::fail("c", "bad", "do that")];
        let report = Report::new(vec![Group { name: "cluster", checks }], None);
        let mut out = Vec::new();
        write_table(&report, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        cluster
        -------
        ✔ fine
        ‼ odd
            do this [b]
        ✖ bad
            do that [c]

        A rollout would be refused.
        ");
    }
}
