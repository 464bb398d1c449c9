//! What went wrong with a call, in one line without repetitions: `kube::Error` prints the same sentence three times
//! when shown with its chain, and a proxy's page as if it were the server's answer.
//! May not: give advice (that belongs to the commands).

use std::error::Error;
use std::time::Duration;

use kube::client::AuthError;

/// Why a call has no answer from the API server. Found inside [`kube::Error::Service`]; see [`call_error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection: the request was not sent.
    #[error("cannot reach the API server {server}: {reason}")]
    Unreachable { server: String, reason: String },
    /// The request may have been carried out.
    #[error("the API server {server} did not answer {method} {path} within {}", humantime::format_duration(*after))]
    Timeout { server: String, method: String, path: String, after: Duration },
    /// The request may have been carried out.
    #[error("the connection to the API server {server} broke during {method} {path}: {reason}")]
    Lost { server: String, method: String, path: String, reason: String },
    /// Something between us and the API server answered.
    #[error(
        "{server} answered {method} {path} with a web page (HTTP {status}{title}): a proxy or a login page is in the way"
    )]
    WebPage { server: String, method: String, path: String, status: u16, title: String },
    /// The request was not sent.
    #[error("cannot get new credentials: {reason}")]
    Credentials { reason: String },
}

/// Something that was asked of the server and not answered as hoped, for callers outside this folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {operation}: {reason}")]
pub struct Failure {
    /// A verb and its object: `read the server version`.
    pub operation: String,
    pub reason: String,
}

impl Failure {
    /// From a client error, which is put into words here.
    pub fn new(operation: impl Into<String>, error: &kube::Error) -> Self {
        Self { operation: operation.into(), reason: explain(error) }
    }
}

impl CallError {
    /// Whether the API server may have acted on the request, so that its effect must be read before it is sent again.
    pub fn may_have_acted(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Lost { .. } => true,
            Self::Unreachable { .. } | Self::WebPage { .. } | Self::Credentials { .. } => false,
        }
    }
}

/// The [`CallError`] inside a client error, if the call failed before an answer of the API server.
pub fn call_error(error: &kube::Error) -> Option<&CallError> {
    match error {
        kube::Error::Service(inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// One line for a client error: the server's own sentence for a refusal, ours for everything else.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => sentence(status),
        kube::Error::Service(inner) => match inner.downcast_ref::<CallError>() {
            Some(known) => one_line(&known.to_string()),
            None => chain(inner.as_ref()),
        },
        kube::Error::SerdeError(inner) => {
            format!("the API server's answer is not what was asked for ({})", one_line(&inner.to_string()))
        }
        kube::Error::Auth(inner) => credentials(inner),
        other => other.source().map_or_else(|| one_line(&other.to_string()), chain),
    }
}

fn sentence(status: &kube::core::Status) -> String {
    if status.code == 401 && (status.message.is_empty() || status.message == "Unauthorized") {
        "the API server does not accept the credentials (Unauthorized)".to_owned()
    } else if !status.message.is_empty() {
        one_line(&status.message)
    } else if !status.reason.is_empty() {
        format!("{} (HTTP {})", one_line(&status.reason), status.code)
    } else {
        format!("HTTP {}", status.code)
    }
}

/// What a credential plugin or token source said.
pub fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { cmd, out } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            format!("credential plugin \"{cmd}\" failed ({}): {}", out.status, one_line(last))
        }
        AuthError::AuthExecStart(source) => format!("the credential plugin cannot be started: {source}"),
        AuthError::ReadTokenFile(source, path) => format!("token file {} cannot be read: {source}", path.display()),
        other => chain(other),
    }
}

/// An error and its causes, leaving out each cause that the text before it already says.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = one_line(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let said = one_line(&cause.to_string());
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// The last cause only: for connection errors, where the layers above it say nothing.
pub(super) fn root(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    match last.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
        Some(_) => lower(last.to_string().split(" (os error").next().unwrap_or_default()),
        None => one_line(&last.to_string()),
    }
}

fn lower(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

/// The longest text of a server that is shown: a proxy's page can be megabytes.
const LONGEST: usize = 400;

/// Text of a server as it may be shown on a terminal: one line, no control characters (they could rewrite the
/// screen), not endless.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > LONGEST {
            while line.len() > LONGEST {
                line.pop();
            }
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn api(message: &str, reason: &str, code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code)))
    }

    #[rstest]
    #[case::the_servers_sentence_once(api("pods \"web-0\" not found", "NotFound", 404), "pods \"web-0\" not found")]
    #[case::no_message(api("", "Forbidden", 403), "Forbidden (HTTP 403)")]
    #[case::nothing(api("", "", 500), "HTTP 500")]
    #[case::control_characters(api("a\u{1b}[2J\r\nb", "x", 400), "a [2J b")]
    fn answers(#[case] error: kube::Error, #[case] expected: &str) {
        assert_eq!(explain(&error), expected);
    }

    #[test]
    fn long_answers_are_cut() {
        let text = explain(&api(&"word ".repeat(10_000), "x", 502));
        assert!(text.len() < 420 && text.ends_with('…'), "{text}");
    }

    #[test]
    fn a_chain_says_each_thing_once() {
        let inner = std::io::Error::other("no route");
        let outer = kube::Error::ReadEvents(inner);
        assert_eq!(chain(&outer), "Error reading events stream: no route");
        assert_eq!(explain(&outer), "no route");
    }
}
