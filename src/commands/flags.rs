//! The flags every command shares: kubectl's connection flags and the output flags, as they were typed.
//! May not: do I/O, read the environment, or decide what a value means for one command.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use clap_complete::ArgValueCandidates;

use super::candidates;
use crate::cluster::connect::{ConnectOptions, Impersonation};

/// What kapr writes as the owner of the fields it changes, unless `--field-manager` says otherwise.
pub const FIELD_MANAGER: &str = "kubectl-kapr";

// kubectl's connection flags, accepted before and after the subcommand. Not a doc comment: clap would make it the help
// text of the command that flattens this.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection options")]
pub struct KubeFlags {
    /// Path to the kubeconfig file to use for CLI requests
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCandidates::new(candidates::contexts))]
    pub context: Option<String>,
    /// The name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCandidates::new(candidates::clusters))]
    pub cluster: Option<String>,
    /// The name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCandidates::new(candidates::users))]
    pub user: Option<String>,
    /// If present, the namespace scope for this CLI request
    #[arg(short, long, global = true, value_name = "NAME", add = ArgValueCandidates::new(candidates::namespaces))]
    pub namespace: Option<String>,
    /// The address and port of the Kubernetes API server
    #[arg(short, long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Bearer token for authentication to the API server (other users of this machine can see it in the process list)
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<Token>,
    /// Path to a cert file for the certificate authority
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub certificate_authority: Option<PathBuf>,
    /// Path to a client certificate file for TLS
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub client_certificate: Option<PathBuf>,
    /// Path to a client key file for TLS
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub client_key: Option<PathBuf>,
    /// If true, the server's certificate will not be checked for validity. This will make your HTTPS connections
    /// insecure
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// Server name to use for server certificate validation. If it is not provided, the hostname used to contact the
    /// server is used
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Username to impersonate for the operation. User could be a regular user or a service account in a namespace
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// Group to impersonate for the operation, this flag can be repeated to specify multiple groups
    #[arg(long = "as-group", global = true, value_name = "GROUP", action = ArgAction::Append)]
    pub as_groups: Vec<String>,
    /// UID to impersonate for the operation
    #[arg(long, global = true, value_name = "UID")]
    pub as_uid: Option<String>,
    /// User extras to impersonate for the operation, this flag can be repeated to specify multiple values for the
    /// same key
    #[arg(long = "as-user-extra", global = true, value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub as_user_extras: Vec<UserExtra>,
    /// The length of time to wait before giving up on a single server request. Non-zero values should contain a
    /// corresponding time unit (e.g. 1s, 2m, 3h). A value of zero means don't timeout requests
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s")]
    pub request_timeout: RequestTimeout,
    /// If true, opt-out of response compression for all requests to the server
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_compression: Option<bool>,
    /// Name of the manager used to track field ownership
    #[arg(long, global = true, value_name = "NAME", default_value = FIELD_MANAGER)]
    pub field_manager: String,
}

impl KubeFlags {
    /// The connection these flags ask for. Empty strings count as not given, as in kubectl.
    pub fn connect_options(&self) -> ConnectOptions {
        let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let path = |value: &Option<PathBuf>| value.clone().filter(|path| !path.as_os_str().is_empty());
        ConnectOptions {
            kubeconfig: path(&self.kubeconfig),
            context: text(&self.context),
            cluster: text(&self.cluster),
            user: text(&self.user),
            namespace: text(&self.namespace),
            server: text(&self.server),
            token: self.token.as_ref().map(|token| token.0.clone()).filter(|token| !token.is_empty()),
            certificate_authority: path(&self.certificate_authority),
            client_certificate: path(&self.client_certificate),
            client_key: path(&self.client_key),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            tls_server_name: text(&self.tls_server_name),
            impersonate: Impersonation {
                user: text(&self.as_user),
                groups: self.as_groups.clone(),
                uid: text(&self.as_uid),
                extras: self.as_user_extras.iter().map(|extra| (extra.key.clone(), extra.value.clone())).collect(),
            },
            request_timeout: self.request_timeout.0,
            disable_compression: self.disable_compression,
        }
    }
}

// How a command writes; accepted before and after the subcommand.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output options")]
pub struct OutputFlags {
    /// Output format. One of: (table, wide, json, yaml, name, jsonpath=TEMPLATE)
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
    /// How to show progress on stderr
    #[arg(long, global = true, value_name = "MODE", value_enum, default_value_t)]
    pub progress: ProgressMode,
    /// Number for the log level verbosity: -v, -vv or -v=N; from 6 on each request is logged
    #[arg(
        short = 'v',
        long = "v",
        global = true,
        value_name = "N",
        action = ArgAction::Append,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1"
    )]
    pub verbosity: Vec<u8>,
}

impl OutputFlags {
    /// The verbosity: `-v` counts 1, `-vv` 2, `-v=6` 6.
    pub fn level(&self) -> u8 {
        self.verbosity.iter().fold(0, |sum, each| sum.saturating_add(*each))
    }
}

/// When to use colours. `auto` follows kubectl: a terminal, `TERM` not dumb, no `NO_COLOR`.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// How progress is shown on stderr. `auto` is `tty` on a terminal outside CI, else `plain`.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressMode {
    #[default]
    Auto,
    Tty,
    Plain,
    Json,
    Quiet,
}

/// The value of `-o`. Each command refuses what it does not offer with [`OutputFormat::expect_one_of`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    /// The template behind `jsonpath=`, without that prefix.
    JsonPath(String),
}

impl OutputFormat {
    /// The name used in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Wide => "wide",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Name => "name",
            Self::JsonPath(_) => "jsonpath",
        }
    }

    /// Refuses a format that the command does not offer, with the allowed ones, in kubectl's words.
    pub fn expect_one_of(&self, allowed: &[&str]) -> Result<(), String> {
        if allowed.contains(&self.name()) { Ok(()) } else { Err(unknown_format(self.name(), allowed)) }
    }
}

fn unknown_format(given: &str, allowed: &[&str]) -> String {
    let allowed = allowed.join(",");
    format!("unable to match a printer suitable for the output format \"{given}\", allowed formats are: {allowed}")
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" | "" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            other => match other.strip_prefix("jsonpath=") {
                Some(template) => Ok(Self::JsonPath(template.to_owned())),
                None => Err(unknown_format(other, &["table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE"])),
            },
        }
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JsonPath(template) => write!(f, "jsonpath={template}"),
            other => f.write_str(other.name()),
        }
    }
}

/// A bearer token; `Debug` never shows it.
#[derive(Clone)]
pub struct Token(String);

impl FromStr for Token {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// One `--as-user-extra KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserExtra {
    pub key: String,
    pub value: String,
}

impl FromStr for UserExtra {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            _ => Err("expected KEY=VALUE".to_owned()),
        }
    }
}

/// `--request-timeout`: `None` means no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimeout(pub Option<Duration>);

impl Default for RequestTimeout {
    fn default() -> Self {
        Self(Some(ConnectOptions::DEFAULT_REQUEST_TIMEOUT))
    }
}

impl FromStr for RequestTimeout {
    type Err = String;

    /// A Go duration, or a whole number of seconds as kubectl also takes it; zero means no timeout.
    fn from_str(text: &str) -> Result<Self, String> {
        let duration = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => humantime::parse_duration(text).map_err(|_| {
                "expected a duration with a unit, such as 10s, 2m or 1h (0 means no timeout)".to_owned()
            })?,
        };
        Ok(Self(Some(duration).filter(|duration| !duration.is_zero())))
    }
}

impl fmt::Display for RequestTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(duration) => humantime::format_duration(duration).fmt(f),
            None => f.write_str("0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, Subcommand};
    use rstest::rstest;

    use super::*;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        kube: KubeFlags,
        #[command(flatten)]
        output: OutputFlags,
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Subcommand, Debug)]
    enum Verb {
        Rollout { workload: String },
    }

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("kapr").chain(line.split_whitespace()))
    }

    #[test]
    fn the_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[rstest]
    #[case::before("-n shop --context c -s https://a:1 rollout deploy/web")]
    #[case::after("rollout deploy/web -n shop --context c -s https://a:1")]
    #[case::around("-n shop rollout --context=c deploy/web --server=https://a:1")]
    fn flags_work_on_both_sides(#[case] line: &str) {
        let options = parse(line).unwrap().kube.connect_options();
        assert_eq!(options.namespace.as_deref(), Some("shop"));
        assert_eq!(options.context.as_deref(), Some("c"));
        assert_eq!(options.server.as_deref(), Some("https://a:1"));
    }

    #[rstest]
    #[case("rollout x", 0)]
    #[case("-v rollout x", 1)]
    #[case("rollout -vv x", 2)]
    #[case("rollout x -vvv", 3)]
    #[case("-v=6 rollout x", 6)]
    #[case("rollout x --v=6", 6)]
    #[case("rollout x --v", 1)]
    fn verbosity(#[case] line: &str, #[case] level: u8) {
        assert_eq!(parse(line).unwrap().output.level(), level);
    }

    #[rstest]
    #[case("0", None)]
    #[case("0s", None)]
    #[case("45", Some(45_000))]
    #[case("1s", Some(1000))]
    #[case("1m30s", Some(90_000))]
    #[case("500ms", Some(500))]
    fn request_timeouts(#[case] text: &str, #[case] milliseconds: Option<u64>) {
        let parsed: RequestTimeout = text.parse().unwrap();
        assert_eq!(parsed.0, milliseconds.map(Duration::from_millis));
    }

    #[test]
    fn a_bad_request_timeout_names_the_form() {
        let error = parse("rollout x --request-timeout=soon").unwrap_err().to_string();
        assert!(error.contains("expected a duration with a unit"), "{error}");
    }

    #[rstest]
    #[case("rollout x", None)]
    #[case("rollout x --insecure-skip-tls-verify", Some(true))]
    #[case("--insecure-skip-tls-verify=false rollout x", Some(false))]
    fn booleans_take_kubectls_forms(#[case] line: &str, #[case] value: Option<bool>) {
        assert_eq!(parse(line).unwrap().kube.insecure_skip_tls_verify, value);
    }

    #[test]
    fn impersonation_repeats() {
        let line = "--as bob --as-group a rollout x --as-uid 7";
        let options = parse(line).unwrap().kube.connect_options();
        assert_eq!(options.impersonate.user.as_deref(), Some("bob"));
        assert_eq!(options.impersonate.groups, ["a"]);
        assert_eq!(options.impersonate.uid.as_deref(), Some("7"));
        let line = "rollout x --as-group=a --as-group=b --as-user-extra k=v --as-user-extra k=w=x";
        let options = parse(line).unwrap().kube.connect_options();
        assert_eq!(options.impersonate.groups, ["a", "b"]);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(options.impersonate.extras, [pair("k", "v"), pair("k", "w=x")]);
        assert!(parse("rollout x --as-user-extra novalue").is_err());
    }

    #[test]
    fn an_unknown_output_lists_the_allowed_ones() {
        let error = parse("rollout x -o xml").unwrap_err().to_string();
        assert!(error.contains("allowed formats are: table,wide,json,yaml,name,jsonpath=TEMPLATE"), "{error}");
        assert_eq!(parse("rollout x -ojson").unwrap().output.output, OutputFormat::Json);
        assert_eq!(
            parse("rollout x -o jsonpath={.kind}").unwrap().output.output,
            OutputFormat::JsonPath("{.kind}".to_owned())
        );
        assert!(OutputFormat::Name.expect_one_of(&["table", "json"]).is_err());
    }

    #[test]
    fn a_token_is_not_in_debug_output() {
        let cli = parse("rollout x --token s3cret").unwrap();
        assert!(!format!("{cli:?} {:?}", cli.kube.connect_options()).contains("s3cret"));
        assert_eq!(cli.kube.connect_options().token.as_deref(), Some("s3cret"));
    }

    #[test]
    fn defaults() {
        let cli = parse("rollout x").unwrap();
        assert_eq!(cli.kube.request_timeout.0, Some(Duration::from_secs(30)));
        assert_eq!(cli.kube.field_manager, "kubectl-kapr");
        assert_eq!(cli.output.output, OutputFormat::Table);
    }
}
