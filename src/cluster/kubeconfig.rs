//! Which kubeconfig files there are, what they say together, and which cluster, user and context are meant.
//! kube reads and merges single files; finding them and choosing inside them is ours, because kube 5.0 refuses a
//! missing file in `$KUBECONFIG` and takes an unknown user for an anonymous one. May not: open connections.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};

use super::connect::{ConnectError, ConnectOptions};
use super::environment::Environment;

/// The kubeconfig files of one invocation, merged, and where they came from.
#[derive(Debug)]
pub struct Loaded {
    /// The merged content; empty when no file exists.
    pub config: Kubeconfig,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
}

/// What the merged kubeconfig and the flags choose.
#[derive(Debug)]
pub struct Chosen {
    pub context: Option<String>,
    pub cluster_name: Option<String>,
    pub cluster: Cluster,
    pub user_name: Option<String>,
    pub user: AuthInfo,
    /// The namespace of the context, if it names one.
    pub namespace: Option<String>,
}

/// Reads `--kubeconfig`, else the files of `$KUBECONFIG` that exist, else `~/.kube/config` if it exists.
///
/// Fails if the file of `--kubeconfig` is missing, or if any file cannot be read or understood.
pub fn load(options: &ConnectOptions, environment: &Environment) -> Result<Loaded, ConnectError> {
    if let Some(path) = &options.kubeconfig {
        return Ok(Loaded { config: read(path)?, files: vec![path.clone()] });
    }
    let candidates = match &environment.kubeconfig {
        Some(paths) => paths.clone(),
        None => environment.home.iter().map(|home| home.join(".kube").join("config")).collect(),
    };
    let mut config = Kubeconfig::default();
    let mut files = Vec::new();
    for path in candidates.into_iter().filter(|path| exists(path)) {
        config = config.merge(read(&path)?).map_err(|_| ConnectError::KubeconfigNotMergeable { path: path.clone() })?;
        files.push(path);
    }
    Ok(Loaded { config, files })
}

/// A path that cannot be looked at is kept, so that reading it says why.
fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    let path_owned = path.to_owned();
    match Kubeconfig::read_from(path) {
        Ok(config) => Ok(config),
        Err(KubeconfigError::ReadConfig(source, _)) => Err(match source.kind() {
            ErrorKind::NotFound => ConnectError::KubeconfigMissing { path: path_owned },
            // Windows only says that access is denied.
            _ if path.is_dir() => ConnectError::KubeconfigIsDirectory { path: path_owned },
            _ => ConnectError::KubeconfigUnreadable { path: path_owned, source },
        }),
        Err(KubeconfigError::Parse(error)) => {
            // The rest of the text is a drawing of the source, which may hold a token.
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(ConnectError::KubeconfigInvalid { path: path_owned, reason })
        }
        Err(other) => Err(ConnectError::KubeconfigInvalid { path: path_owned, reason: other.to_string() }),
    }
}

/// Chooses context, cluster and user; each name that is given must exist.
pub fn choose(loaded: &Loaded, options: &ConnectOptions) -> Result<Chosen, ConnectError> {
    let config = &loaded.config;
    let current = config.current_context.clone().filter(|name| !name.is_empty());
    let context_name = options.context.clone().or(current);
    let context = context_name.as_ref().map(|name| find_context(config, name)).transpose()?;

    let named_cluster = options.cluster.clone().or_else(|| context.as_ref().map(|context| context.cluster.clone()));
    let cluster_name = named_cluster.filter(|name| !name.is_empty());
    let cluster = match &cluster_name {
        Some(name) => find_cluster(config, name)?,
        None if options.server.is_some() => Cluster::default(),
        None => return Err(no_cluster(loaded)),
    };
    let named_user = options.user.clone().or_else(|| context.as_ref().and_then(|context| context.user.clone()));
    let user_name = named_user.filter(|name| !name.is_empty());
    let user = user_name.as_ref().map(|name| find_user(config, name)).transpose()?.unwrap_or_default();
    let namespace = context.and_then(|context| context.namespace).filter(|namespace| !namespace.is_empty());
    Ok(Chosen { context: context_name, cluster_name, cluster, user_name, user, namespace })
}

fn no_cluster(loaded: &Loaded) -> ConnectError {
    if loaded.files.is_empty() {
        ConnectError::NoKubeconfig
    } else {
        ConnectError::NoCurrentContext { files: list_paths(&loaded.files), known: known_contexts(&loaded.config) }
    }
}

fn find_context(config: &Kubeconfig, name: &str) -> Result<Context, ConnectError> {
    config
        .contexts
        .iter()
        .find(|named| named.name == name)
        .map(|named| named.context.clone().unwrap_or_default())
        .ok_or_else(|| ConnectError::UnknownContext { name: name.to_owned(), known: known_contexts(config) })
}

fn find_cluster(config: &Kubeconfig, name: &str) -> Result<Cluster, ConnectError> {
    let known = || names(config.clusters.iter().map(|named| named.name.as_str()));
    config
        .clusters
        .iter()
        .find(|named| named.name == name)
        .map(|named| named.cluster.clone().unwrap_or_default())
        .ok_or_else(|| ConnectError::UnknownCluster { name: name.to_owned(), known: known() })
}

fn find_user(config: &Kubeconfig, name: &str) -> Result<AuthInfo, ConnectError> {
    let known = || names(config.auth_infos.iter().map(|named| named.name.as_str()));
    config
        .auth_infos
        .iter()
        .find(|named| named.name == name)
        .map(|named| named.auth_info.clone().unwrap_or_default())
        .ok_or_else(|| ConnectError::UnknownUser { name: name.to_owned(), known: known() })
}

/// The names of all contexts, sorted, for messages and completion.
pub fn context_names(config: &Kubeconfig) -> Vec<String> {
    let mut all: Vec<String> = config.contexts.iter().map(|named| named.name.clone()).collect();
    all.sort();
    all
}

fn known_contexts(config: &Kubeconfig) -> String {
    names(config.contexts.iter().map(|named| named.name.as_str()))
}

/// At most this many names are listed in a message; the file itself has the rest.
const LISTED_NAMES: usize = 12;

fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = all.collect();
    all.sort_unstable();
    match all.len() {
        0 => "none".to_owned(),
        count if count > LISTED_NAMES => {
            format!("{} and {} more", all[..LISTED_NAMES].join(", "), count - LISTED_NAMES)
        }
        _ => all.join(", "),
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ONE: &str = "
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: one, user: ann, namespace: shop}}
- {name: broken, context: {cluster: gone, user: nobody}}
clusters:
- {name: one, cluster: {server: 'https://one:6443', certificate-authority: ca.crt}}
users:
- {name: ann, user: {token: one-token}}
";
    const TWO: &str = "
apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: prod, context: {cluster: two, user: bob}}
- {name: dev, context: {cluster: two, user: bob}}
clusters:
- {name: two, cluster: {server: 'https://two:6443'}}
- {name: one, cluster: {server: 'https://other:6443'}}
users:
- {name: bob, user: {token: two-token}}
";

    fn files(dir: &Path) -> Environment {
        std::fs::write(dir.join("one"), ONE).unwrap();
        std::fs::write(dir.join("two"), TWO).unwrap();
        let paths = ["missing", "one", "two", "also-missing"].map(|name| dir.join(name));
        Environment { kubeconfig: Some(paths.to_vec()), ..Environment::default() }
    }

    fn with(change: impl FnOnce(&mut ConnectOptions)) -> ConnectOptions {
        let mut options = ConnectOptions::default();
        change(&mut options);
        options
    }

    #[test]
    fn missing_files_are_skipped_and_the_first_value_wins() {
        let dir = tempfile::tempdir().unwrap();
        let loaded = load(&ConnectOptions::default(), &files(dir.path())).unwrap();
        assert_eq!(loaded.files, ["one", "two"].map(|name| dir.path().join(name)));
        let chosen = choose(&loaded, &ConnectOptions::default()).unwrap();
        assert_eq!(chosen.context.as_deref(), Some("dev"));
        assert_eq!(chosen.cluster.server.as_deref(), Some("https://one:6443"));
        assert_eq!(chosen.namespace.as_deref(), Some("shop"));
        // Relative paths belong to the file that names them.
        let authority = dir.path().join("ca.crt").display().to_string();
        assert_eq!(chosen.cluster.certificate_authority, Some(authority));
        assert_eq!(context_names(&loaded.config), ["broken", "dev", "prod"]);
    }

    #[rstest]
    #[case::context(with(|o| o.context = Some("typo".into())),
        "context \"typo\" does not exist; known contexts: broken, dev, prod")]
    #[case::cluster(with(|o| o.cluster = Some("typo".into())),
        "cluster \"typo\" does not exist; known clusters: one, two")]
    #[case::user(with(|o| o.user = Some("typo".into())), "user \"typo\" does not exist; known users: ann, bob")]
    #[case::dangling(with(|o| o.context = Some("broken".into())),
        "cluster \"gone\" does not exist; known clusters: one, two")]
    fn unknown_names_are_refused_with_the_known_ones(#[case] options: ConnectOptions, #[case] expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let loaded = load(&options, &files(dir.path())).unwrap();
        assert_eq!(choose(&loaded, &options).unwrap_err().to_string(), expected);
    }

    #[test]
    fn cluster_and_user_override_inside_a_context() {
        let dir = tempfile::tempdir().unwrap();
        let options = with(|o| {
            o.cluster = Some("two".into());
            o.user = Some("bob".into());
        });
        let chosen = choose(&load(&options, &files(dir.path())).unwrap(), &options).unwrap();
        assert_eq!(chosen.context.as_deref(), Some("dev"));
        assert_eq!(chosen.cluster_name.as_deref(), Some("two"));
        assert_eq!(chosen.user_name.as_deref(), Some("bob"));
    }

    fn sentence(content: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let options = with(|o| o.kubeconfig = Some(path.clone()));
        let result = load(&options, &Environment::default()).and_then(|loaded| choose(&loaded, &options));
        result.unwrap_err().to_string().replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn each_broken_file_has_one_sentence() {
        assert_eq!(sentence(None), "kubeconfig FILE does not exist");
        assert_eq!(sentence(Some("")), "no context is chosen in FILE; name one with --context (known contexts: none)");
        let invalid = sentence(Some("clusters: [oops"));
        assert!(invalid.starts_with("kubeconfig FILE is not valid: ") && !invalid.contains('\n'), "{invalid}");
        let no_current = ONE.replace("current-context: dev", "");
        assert_eq!(
            sentence(Some(&no_current)),
            "no context is chosen in FILE; name one with --context (known contexts: broken, dev)"
        );
    }

    #[test]
    fn a_directory_is_said_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let options = with(|o| o.kubeconfig = Some(dir.path().to_owned()));
        let error = load(&options, &Environment::default()).unwrap_err().to_string();
        assert_eq!(error, format!("kubeconfig {} is a directory, not a file", dir.path().display()));
    }

    #[test]
    fn a_token_in_a_broken_file_is_not_shown() {
        let shown = sentence(Some("users:\n- name: a\n  user: {token: s3cret, token: s3cret"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_server_alone_needs_no_kubeconfig() {
        let options = with(|o| o.server = Some("http://127.0.0.1:1".into()));
        let loaded = load(&options, &Environment::default()).unwrap();
        assert!(choose(&loaded, &options).unwrap().context.is_none());
        let none = ConnectOptions::default();
        assert!(matches!(choose(&loaded, &none), Err(ConnectError::NoKubeconfig)));
    }
}
