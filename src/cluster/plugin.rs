//! Credential plugins (`exec` in a kubeconfig). kube runs them three times for one client, blocks a thread on them and
//! never again after a 401; here one runs once, can be given up, and what it answers is put where a plain token or
//! certificate would stand. May not: read a kubeconfig.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::explain;

/// How long a plugin may take when nobody can answer its questions. Longer than any cloud's token call.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the plugin, if the user has one and no other log-in, and replaces it by its answer. Gives the time at which
/// the credentials end; fails with a reason in words.
pub(super) async fn log_in(user: &mut AuthInfo, terminal: bool) -> Result<Option<Timestamp>, String> {
    let other = user.token.is_some()
        || user.token_file.is_some()
        || user.auth_provider.is_some()
        || (user.username.is_some() && user.password.is_some());
    if other {
        return Ok(None);
    }
    let Some(exec) = user.exec.take() else { return Ok(None) };
    let status = run(&exec, terminal).await?;
    let pem = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => {
            user.client_certificate_data = Some(pem(certificate));
            user.client_key_data = Some(pem(key).into());
        }
        (None, None) if status.token.is_some() => {}
        _ => return Err(format!("credential plugin \"{}\" gave neither a token nor a certificate", name(&exec))),
    }
    user.token = status.token.map(Into::into);
    let end = status.expiration_timestamp.map(|text| text.parse::<Timestamp>()).transpose();
    end.map_err(|_| format!("credential plugin \"{}\" gave an end that is not a time", name(&exec)))
}

/// The part of `ExecCredential` that a plugin fills in.
#[derive(Debug, Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

fn name(exec: &ExecConfig) -> &str {
    exec.command.as_deref().unwrap_or_default()
}

async fn run(exec: &ExecConfig, terminal: bool) -> Result<Status, String> {
    let interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !terminal => {
            return Err(format!("credential plugin \"{}\" asks questions and there is no terminal", name(exec)));
        }
        _ => terminal,
    };
    let mut command = command(exec, interactive)?;
    let answer = command.output();
    let answer = if interactive {
        answer.await
    } else {
        tokio::time::timeout(PATIENCE, answer).await.map_err(|_| {
            format!("credential plugin \"{}\" did not finish within {} s", name(exec), PATIENCE.as_secs())
        })?
    };
    let answer = answer.map_err(|error| not_started(exec, &error))?;
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).map(explain::one_line);
        let said = last.map_or_else(String::new, |line| format!(": {line}"));
        return Err(format!("credential plugin \"{}\" failed ({}){said}", name(exec), answer.status));
    }
    // client-go takes YAML too, and some plugins rely on it. The answer holds secrets: no part of it is shown.
    let credential: Result<ExecCredential, _> = serde_saphyr::from_slice(&answer.stdout);
    credential
        .ok()
        .and_then(|credential| credential.status)
        .ok_or_else(|| format!("credential plugin \"{}\" did not print an ExecCredential with a status", name(exec)))
}

fn command(exec: &ExecConfig, interactive: bool) -> Result<Command, String> {
    let program = exec.command.as_deref().filter(|program| !program.is_empty());
    let mut command = Command::new(program.ok_or("its credential plugin has no command")?);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let mut spec = json!({"interactive": interactive});
    if let Some(cluster) = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info) {
        spec["cluster"] = serde_json::to_value(cluster).map_err(|error| error.to_string())?;
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command.stdout(Stdio::piped()).kill_on_drop(true);
    if interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
    }
    Ok(command)
}

fn not_started(exec: &ExecConfig, error: &std::io::Error) -> String {
    let hint = exec.install_hint.as_deref().map(explain::one_line).filter(|hint| !hint.is_empty());
    let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
    match error.kind() {
        ErrorKind::NotFound => format!("credential plugin \"{}\" is not installed{hint}", name(exec)),
        _ => format!("credential plugin \"{}\" cannot be started: {error}{hint}", name(exec)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(script: &str) -> AuthInfo {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "env": [{"name": "WHO", "value": "ann"}], "installHint": "install\nsh",
        });
        AuthInfo { exec: Some(serde_json::from_value(exec).unwrap()), ..AuthInfo::default() }
    }

    fn printing(status: &serde_json::Value) -> String {
        format!("cat <<'EOF'\n{}\nEOF", json!({"kind": "ExecCredential", "status": status}))
    }

    #[tokio::test]
    async fn a_token_takes_the_plugins_place() {
        let status = json!({"token": "t", "expirationTimestamp": "2030-01-02T03:04:05Z"});
        let mut user = user(&printing(&status));
        let end = log_in(&mut user, false).await.unwrap();
        assert_eq!(end, Some("2030-01-02T03:04:05Z".parse().unwrap()));
        assert!(user.token.is_some() && user.exec.is_none());
    }

    #[tokio::test]
    async fn a_certificate_is_passed_on_as_data() {
        let status = json!({"clientCertificateData": "PEM", "clientKeyData": "KEY"});
        let mut user = user(&printing(&status));
        assert_eq!(log_in(&mut user, false).await.unwrap(), None);
        assert_eq!(user.client_certificate_data.as_deref(), Some("UEVN"));
        assert!(user.client_key_data.is_some() && user.token.is_none());
    }

    #[tokio::test]
    async fn the_plugin_learns_what_client_go_tells_it() {
        let script = r#"
            case "$KUBERNETES_EXEC_INFO" in
                *'"apiVersion":"client.authentication.k8s.io/v1"'*'"interactive":false'*) ;;
                *) echo "got $KUBERNETES_EXEC_INFO" >&2; exit 1 ;;
            esac
            echo "{status: {token: $WHO}}""#;
        let mut user = user(script);
        log_in(&mut user, false).await.unwrap();
        assert!(user.token.is_some());
    }

    #[tokio::test]
    async fn failures_are_sentences() {
        let mut failing = user("echo first >&2; echo 'session expired' >&2; exit 3");
        let reason = log_in(&mut failing, false).await.unwrap_err();
        assert_eq!(reason, "credential plugin \"sh\" failed (exit status: 3): session expired");

        let mut silent = user("echo s3cret-but-no-credential");
        let reason = log_in(&mut silent, false).await.unwrap_err();
        assert_eq!(reason, "credential plugin \"sh\" did not print an ExecCredential with a status");

        let mut empty = user("echo '{status: {}}'");
        let reason = log_in(&mut empty, false).await.unwrap_err();
        assert_eq!(reason, "credential plugin \"sh\" gave neither a token nor a certificate");

        let mut absent = user("");
        absent.exec.as_mut().unwrap().command = Some("no-such-plugin".to_owned());
        let reason = log_in(&mut absent, false).await.unwrap_err();
        assert_eq!(reason, "credential plugin \"no-such-plugin\" is not installed (install sh)");

        let mut asking = user("");
        asking.exec.as_mut().unwrap().interactive_mode = Some(ExecInteractiveMode::Always);
        let reason = log_in(&mut asking, false).await.unwrap_err();
        assert_eq!(reason, "credential plugin \"sh\" asks questions and there is no terminal");
    }

    #[tokio::test]
    async fn another_log_in_comes_first() {
        let mut user = user("exit 1");
        user.token = Some("t".to_owned().into());
        assert_eq!(log_in(&mut user, false).await.unwrap(), None);
    }
}
