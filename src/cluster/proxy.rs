//! Which proxy leads to the API server. kube 5.0 compares `NO_PROXY` with the proxy's own address and refuses a
//! trailing comma, so this choice is ours (evidence: the client notes of the design). Follows Go's rules, which
//! kubectl follows. May not: read the environment.

use std::net::IpAddr;

use http::Uri;

use super::connect::ConnectError;
use super::environment::Environment;

/// The proxy for `server`, or `None` for a direct connection.
///
/// `proxy-url` of the kubeconfig wins and ignores `NO_PROXY`, as in client-go. Otherwise `HTTPS_PROXY`, unless the
/// server is local, plain http, or matched by `NO_PROXY`.
pub fn choose(
    server: &Uri,
    kubeconfig_proxy: Option<&str>,
    environment: &Environment,
) -> Result<Option<Uri>, ConnectError> {
    if let Some(proxy) = kubeconfig_proxy.map(str::trim).filter(|proxy| !proxy.is_empty()) {
        return parse(proxy, "proxy-url of the kubeconfig").map(Some);
    }
    let Some(proxy) = environment.https_proxy.as_deref() else { return Ok(None) };
    let host = server.host().unwrap_or_default();
    if server.scheme_str() != Some("https") || is_local(host) {
        return Ok(None);
    }
    let port = server.port_u16().unwrap_or(443);
    if environment.no_proxy.as_deref().is_some_and(|list| excludes(list, host, port)) {
        return Ok(None);
    }
    parse(proxy, "HTTPS_PROXY").map(Some)
}

/// Adds the `http://` that people leave out and keeps only what kube can speak.
fn parse(proxy: &str, origin: &'static str) -> Result<Uri, ConnectError> {
    let proxy = proxy.trim();
    let refuse = || ConnectError::Proxy { origin, proxy: without_credentials(proxy) };
    let with_scheme = match proxy.split_once("://") {
        None => format!("http://{proxy}"),
        // Name resolution by the proxy is what hyper-util's SOCKS connector does in any case.
        Some(("socks5h", rest)) => format!("socks5://{rest}"),
        Some(_) => proxy.to_owned(),
    };
    let uri: Uri = with_scheme.parse().map_err(|_| refuse())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https" | "socks5"));
    if known && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri) } else { Err(refuse()) }
}

/// A proxy or server address as it may be shown: no user, no password.
pub(super) fn without_credentials(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or((None, address), |(scheme, rest)| (Some(scheme), rest));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match scheme {
        Some(scheme) => format!("{scheme}://{host}{path}"),
        None => format!("{host}{path}"),
    }
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.')
}

fn is_local(host: &str) -> bool {
    let host = bare(host);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a `NO_PROXY` list matches the host. Takes Go's forms (`*`, address, CIDR, `.suffix`, `*.suffix`, name with
/// its subdomains, each with an optional port) and skips what it cannot read: a typo there must not stop the work.
fn excludes(list: &str, host: &str, port: u16) -> bool {
    let host = bare(host).to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    list.split([',', ' ', '\t', '\n', ';']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = entry.split_once('/') {
            return address.is_some_and(|address| in_network(address, network, bits));
        }
        let (name, wanted_port) = split_port(&entry);
        if wanted_port.is_some_and(|wanted| wanted != port) {
            return false;
        }
        match (bare(name).parse::<IpAddr>(), address) {
            (Ok(entry), Some(address)) => entry == address,
            (Ok(_), None) | (Err(_), Some(_)) => false,
            (Err(_), None) => matches_name(name, &host),
        }
    })
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    if entry.parse::<IpAddr>().is_ok() {
        return (entry, None);
    }
    match entry.rsplit_once(':') {
        Some((name, port)) => port.parse().map_or((entry, None), |port| (name, Some(port))),
        None => (entry, None),
    }
}

/// `.corp` and `*.corp` match subdomains only, `corp` itself too.
fn matches_name(name: &str, host: &str) -> bool {
    let name = name.trim_end_matches('.');
    let below = |suffix: &str| {
        !suffix.is_empty() && host.strip_suffix(suffix).is_some_and(|head| head.len() > 1 && head.ends_with('.'))
    };
    if let Some(suffix) = name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        return below(suffix);
    }
    host == name || below(name)
}

fn in_network(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (bare(network).parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::star("*", "a.corp", 443, true)]
    #[case::exact("a.corp", "a.corp", 443, true)]
    #[case::subdomain("corp", "a.corp", 443, true)]
    #[case::not_a_suffix_of_a_word("corp", "acorp", 443, false)]
    #[case::dot_suffix(".corp", "a.corp", 443, true)]
    #[case::dot_suffix_not_itself(".corp", "corp", 443, false)]
    #[case::star_suffix("*.corp", "a.b.corp", 443, true)]
    #[case::case("A.Corp", "a.cORP", 443, true)]
    #[case::trailing_dot("a.corp", "a.corp.", 443, true)]
    #[case::trailing_comma("localhost,127.0.0.1,a.corp,", "a.corp", 443, true)]
    #[case::empty_entries("x,,a.corp", "a.corp", 443, true)]
    #[case::spaces(" x , a.corp ", "a.corp", 443, true)]
    #[case::port_matches("a.corp:6443", "a.corp", 6443, true)]
    #[case::port_differs("a.corp:6443", "a.corp", 443, false)]
    #[case::cidr("10.0.0.0/8", "10.1.2.3", 6443, true)]
    #[case::cidr_outside("10.0.0.0/8", "11.1.2.3", 6443, false)]
    #[case::cidr_all("0.0.0.0/0", "11.1.2.3", 6443, true)]
    #[case::cidr_v6("fd00::/8", "[fd12::1]", 6443, true)]
    #[case::cidr_never_matches_a_name("10.0.0.0/8", "a.corp", 443, false)]
    #[case::address("10.1.2.3", "10.1.2.3", 6443, true)]
    #[case::address_with_port("10.1.2.3:6443", "10.1.2.3", 6443, true)]
    #[case::address_v6("[fd12::1]:6443", "[fd12::1]", 6443, true)]
    #[case::bare_v6("fd12::1", "[fd12::1]", 6443, true)]
    #[case::nonsense("10.0.0.0/99,//,:,/,x:y:z", "10.1.2.3", 6443, false)]
    #[case::empty("", "a.corp", 443, false)]
    fn no_proxy(#[case] list: &str, #[case] host: &str, #[case] port: u16, #[case] excluded: bool) {
        assert_eq!(excludes(list, host, port), excluded);
    }

    fn chosen(server: &str, kubeconfig: Option<&str>, https_proxy: &str, no_proxy: &str) -> Option<String> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let environment =
            Environment { https_proxy: some(https_proxy), no_proxy: some(no_proxy), ..Environment::default() };
        choose(&server.parse().unwrap(), kubeconfig, &environment).unwrap().map(|uri| uri.to_string())
    }

    #[rstest]
    #[case::used("https://34.1.2.3", None, "http://10.9.9.9:3128", "", Some("http://10.9.9.9:3128/"))]
    #[case::server_matched("https://10.1.2.3:6443", None, "http://proxy.corp:3128", "10.0.0.0/8", None)]
    #[case::proxys_own_address_does_not_count(
        "https://34.1.2.3",
        None,
        "http://10.9.9.9:3128",
        "10.0.0.0/8",
        Some("http://10.9.9.9:3128/")
    )]
    #[case::no_scheme("https://34.1.2.3", None, "proxy.corp:3128", "", Some("http://proxy.corp:3128/"))]
    #[case::kubeconfig_wins("https://a", Some("socks5://p:1080"), "http://q", "*", Some("socks5://p:1080/"))]
    #[case::kubeconfig_without_scheme("https://a", Some("p:1080"), "", "", Some("http://p:1080/"))]
    #[case::empty_kubeconfig_value("https://a", Some(" "), "http://q:1", "", Some("http://q:1/"))]
    #[case::loopback("https://127.0.0.1:6443", None, "http://q:1", "", None)]
    #[case::localhost("https://localhost:6443", None, "http://q:1", "", None)]
    #[case::loopback_v6("https://[::1]:6443", None, "http://q:1", "", None)]
    #[case::plain_http("http://sandbox:8080", None, "http://q:1", "", None)]
    #[case::remote_resolution("https://a", Some("socks5h://p:1080"), "", "", Some("socks5://p:1080/"))]
    fn choice(
        #[case] server: &str,
        #[case] kubeconfig: Option<&str>,
        #[case] https_proxy: &str,
        #[case] no_proxy: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(chosen(server, kubeconfig, https_proxy, no_proxy).as_deref(), expected);
    }

    #[test]
    fn an_unusable_proxy_is_named_without_its_password() {
        let environment = Environment { https_proxy: Some("ftp://me:pw@p:21".to_owned()), ..Environment::default() };
        let error = choose(&"https://a".parse().unwrap(), None, &environment).unwrap_err().to_string();
        assert_eq!(error, "HTTPS_PROXY is \"ftp://p:21\", which is not an http, https or socks5 address");
    }
}
