//! The text inside HTTP `Warning` headers, which kube drops: the API server puts deprecations and ignored fields there.
//! May not: print.

/// The texts of one `Warning` header value: `299 - "text"`, several separated by commas. What does not have that form
/// is skipped.
pub fn texts(header: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some(start) = rest.find('"') {
        let (text, after) = quoted(&rest[start + 1..]);
        let is_warning = rest[..start].trim_start_matches([',', ' ']).split(' ').next() == Some("299");
        if is_warning && !text.is_empty() {
            found.push(text);
        }
        rest = skip_date(after);
    }
    found
}

/// A quoted string without its opening quote, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let mut content = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (content, &text[at + 1..]),
            '\\' => content.extend(characters.next().map(|(_, escaped)| escaped)),
            other => content.push(other),
        }
    }
    (content, "")
}

/// A warning may carry its date as a second quoted string.
fn skip_date(text: &str) -> &str {
    match text.strip_prefix(" \"") {
        Some(date) => quoted(date).1,
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r#"299 - "unknown field \"delete_options\"""#, &[r#"unknown field "delete_options""#])]
    #[case(r#"299 - "one", 299 - "two, with comma""#, &["one", "two, with comma"])]
    #[case(r#"299 k8s "one" "Wed, 21 Oct 2026 07:28:00 GMT", 299 - "two""#, &["one", "two"])]
    #[case(r#"110 proxy "stale""#, &[])]
    #[case("nonsense", &[])]
    #[case(r#"299 - "unfinished"#, &["unfinished"])]
    fn forms(#[case] header: &str, #[case] expected: &[&str]) {
        assert_eq!(texts(header), expected);
    }
}
