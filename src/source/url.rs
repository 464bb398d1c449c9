//! `-f https://…`: a recommendation from a web server. Plain `http` only from this machine.

use std::time::Duration;

use reqwest::{Client, Response, Url, header, redirect};

use super::SourceError;
use super::complaint::clean;
use super::files::{MAX_BYTES, decode};

/// A server that has not answered whole by then is not going to.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Enough for a moved file behind a login-free front; a loop ends here.
const MAX_REDIRECTS: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    #[error("{url} is not an address that can be read: {why}")]
    Malformed { url: String, why: String },
    #[error("{url} is not read: use https, or http on this machine only")]
    Scheme { url: String },
    #[error("cannot get {url} ({why})")]
    Unreachable {
        url: String,
        why: &'static str,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} answered {status}: check the address, and whether it needs a login")]
    Status { url: String, status: String },
    #[error("{url} answered with a web page, not a recommendation: use the address of the file itself")]
    Html { url: String },
}

/// Whether a `-f` argument is an address and not a file name.
pub fn is_url(argument: &str) -> bool {
    argument.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

/// The address without what may be secret: user, password and query.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if url.query().is_some() {
        url.set_query(Some("..."));
    }
    url.set_fragment(None);
    clean(url.as_str())
}

/// Gets the text at the address, and the name to show for it.
pub async fn read(argument: &str) -> Result<(String, String), SourceError> {
    let malformed = |why: String| UrlError::Malformed { url: clean(argument), why };
    let url = Url::parse(argument).map_err(|error| malformed(error.to_string()))?;
    let name = shown(&url);
    if !allowed(&url) {
        return Err(UrlError::Scheme { url: name }.into());
    }
    let failed = |source: reqwest::Error| UrlError::Unreachable {
        url: name.clone(),
        why: reason(&source),
        source: source.without_url(),
    };
    let response = client().map_err(failed)?.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(UrlError::Status { url: name, status: response.status().to_string() }.into());
    }
    let html = is_html(&response);
    let text = body(response, &name).await?;
    if html || text.trim_start().starts_with('<') {
        return Err(UrlError::Html { url: name }.into());
    }
    Ok((name, text))
}

fn client() -> Result<Client, reqwest::Error> {
    // Without a provider the builder panics; the binary has installed one already, and then this changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redirects = redirect::Policy::custom(|attempt| {
        let from_https = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if !allowed(attempt.url()) || (from_https && attempt.url().scheme() != "https") {
            attempt.error("redirected to an address that is not https")
        } else {
            attempt.follow()
        }
    });
    Client::builder()
        .timeout(TIMEOUT)
        .redirect(redirects)
        .user_agent(concat!("kubectl-kapr/", env!("CARGO_PKG_VERSION")))
        .build()
}

fn allowed(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("");
    match url.scheme() {
        "https" => !host.is_empty(),
        "http" => {
            host == "localhost"
                || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        _ => false,
    }
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html"))
}

/// Reads no more than the limit and one piece, whatever the server says its answer's length is.
async fn body(mut response: Response, name: &str) -> Result<String, SourceError> {
    let mut bytes = Vec::new();
    loop {
        let failed = |source: reqwest::Error| UrlError::Unreachable {
            url: name.to_owned(),
            why: reason(&source),
            source: source.without_url(),
        };
        match response.chunk().await.map_err(failed)? {
            Some(chunk) if bytes.len() as u64 <= MAX_BYTES => bytes.extend_from_slice(&chunk),
            Some(_) | None => return decode(name, bytes),
        }
    }
}

fn reason(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no whole answer within 30 s"
    } else if error.is_redirect() {
        "it redirects too often, or to an address that is not https"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the answer broke off"
    }
}
