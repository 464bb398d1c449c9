//! `--set CONTAINER=KEY=QUANTITY[,KEY=QUANTITY…]`: a recommendation from flags.

use super::amount;
use super::complaint::quote;
use crate::core::nearest::nearest;
use crate::core::resources::{ContainerResources, Key, Resources};

/// What is wrong with a `--set`; names the piece, and the column it begins at in the flag's value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetError {
    #[error("--set {0} names no container: write it as CONTAINER=requests.cpu=250m,limits.memory=256Mi")]
    NoContainer(String),
    #[error(
        "--set {text}: {piece} at column {column} has no value: write it as KEY=QUANTITY, such as requests.cpu=250m"
    )]
    NoValue { text: String, piece: String, column: usize },
    #[error("--set {text}: unknown key {key} at column {column}; {hint}")]
    UnknownKey { text: String, key: String, column: usize, hint: String },
    #[error("--set {text}: {key} at column {column} is there twice")]
    KeyTwice { text: String, key: Key, column: usize },
    #[error("--set {text}: {key} at column {column}: {why}")]
    BadQuantity { text: String, key: Key, column: usize, why: String },
    #[error("container {0} is in more than one --set: write all its values in one, separated by commas")]
    ContainerTwice(String),
}

/// Reads one value of `--set`.
pub fn parse(text: &str) -> Result<(String, Resources), SetError> {
    let no_container = || SetError::NoContainer(quote(text));
    let (container, values) = text.split_once('=').ok_or_else(no_container)?;
    if container.is_empty() || find_key(container).is_ok() || container.contains(',') {
        return Err(no_container());
    }
    let mut resources = Resources::default();
    let mut column = container.chars().count() + 2;
    for piece in values.split(',') {
        let (key, value) = parse_piece(text, piece, column)?;
        if resources.get(key).is_some() {
            return Err(SetError::KeyTwice { text: quote(text), key, column });
        }
        resources.set(key, Some(value));
        column += piece.chars().count() + 1;
    }
    Ok((container.to_owned(), resources))
}

/// Reads every value of `--set`: one for each container.
pub fn parse_all(texts: &[String]) -> Result<ContainerResources, SetError> {
    let mut all = ContainerResources::new();
    for text in texts {
        let (container, resources) = parse(text)?;
        if all.contains_key(&container) {
            return Err(SetError::ContainerTwice(quote(&container)));
        }
        all.insert(container, resources);
    }
    Ok(all)
}

fn parse_piece(text: &str, piece: &str, column: usize) -> Result<(Key, u64), SetError> {
    let text = || quote(text);
    let Some((key, value)) = piece.split_once('=') else {
        return Err(SetError::NoValue { text: text(), piece: quote(piece), column });
    };
    let key = find_key(key).map_err(|hint| SetError::UnknownKey { text: text(), key: quote(key), column, hint })?;
    let column = column + key.path().len() + 1;
    if value.is_empty() {
        return Err(SetError::NoValue { text: text(), piece: quote(piece), column });
    }
    match amount::parse(key, value) {
        Ok(value) => Ok((key, value)),
        Err(why) => Err(SetError::BadQuantity { text: text(), key, column, why }),
    }
}

/// The key of that path, or the hint that names the nearest.
fn find_key(path: &str) -> Result<Key, String> {
    Key::ALL.into_iter().find(|key| key.path() == path).ok_or_else(|| {
        let known = Key::ALL.map(Key::path);
        match nearest(path, known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("keys are {}", known.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn read(texts: &[&str]) -> String {
        let texts = texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        match parse_all(&texts) {
            Ok(all) => all.iter().map(|(name, block)| format!("{name}={block}")).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_are_read() {
        assert_eq!(
            read(&["web=limits.memory=1.5Gi,requests.cpu=0.25", "log=requests.memory=64Mi"]),
            "log=requests.memory=64Mi web=requests.cpu=250m,limits.memory=1536Mi"
        );
    }

    #[test]
    fn errors_name_the_piece() {
        assert_snapshot!(read(&["app=request.cpu=250m"]), @r#"--set "app=request.cpu=250m": unknown key "request.cpu" at column 5; did you mean "requests.cpu"?"#);
        assert_snapshot!(read(&["app=requests.cpu=250m,memory=1Gi"]), @r#"--set "app=requests.cpu=250m,memory=1Gi": unknown key "memory" at column 23; keys are requests.cpu, requests.memory, limits.cpu, limits.memory"#);
        assert_snapshot!(read(&["app=requests.cpu=250m,limits.memory=256Mb"]), @r#"--set "app=requests.cpu=250m,limits.memory=256Mb": limits.memory at column 37: "256Mb" is not a quantity: unknown unit "Mb" (units are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"#);
        assert_snapshot!(read(&["app=requests.memory=256m"]), @r#"--set "app=requests.memory=256m": requests.memory at column 21: "256m" of memory is a fraction of a byte; did you mean 256Mi?"#);
        assert_snapshot!(read(&["app=requests.cpu"]), @r#"--set "app=requests.cpu": "requests.cpu" at column 5 has no value: write it as KEY=QUANTITY, such as requests.cpu=250m"#);
        assert_snapshot!(read(&["app=requests.cpu="]), @r#"--set "app=requests.cpu=": "requests.cpu=" at column 18 has no value: write it as KEY=QUANTITY, such as requests.cpu=250m"#);
        assert_snapshot!(read(&["app="]), @r#"--set "app=": "" at column 5 has no value: write it as KEY=QUANTITY, such as requests.cpu=250m"#);
        assert_snapshot!(read(&["app"]), @r#"--set "app" names no container: write it as CONTAINER=requests.cpu=250m,limits.memory=256Mi"#);
        assert_snapshot!(read(&["requests.cpu=250m"]), @r#"--set "requests.cpu=250m" names no container: write it as CONTAINER=requests.cpu=250m,limits.memory=256Mi"#);
        assert_snapshot!(read(&["=requests.cpu=250m"]), @r#"--set "=requests.cpu=250m" names no container: write it as CONTAINER=requests.cpu=250m,limits.memory=256Mi"#);
        assert_snapshot!(read(&["app=requests.cpu=1,requests.cpu=2"]), @r#"--set "app=requests.cpu=1,requests.cpu=2": requests.cpu at column 20 is there twice"#);
        assert_snapshot!(read(&["app=requests.cpu=1", "app=limits.cpu=2"]), @r#"container "app" is in more than one --set: write all its values in one, separated by commas"#);
        assert_snapshot!(read(&["app=requests.cpu=\u{1b}[2J"]), @r#"--set "app=requests.cpu=\u{1b}[2J": requests.cpu at column 18: "\u{1b}[2J" is not a quantity: write a number with an optional unit, such as 250m, 0.5 or 256Mi"#);
    }

    proptest! {
        #[test]
        fn any_text_is_answered_without_control_characters(text in "(.|[\\x00-\\x1f]){0,60}") {
            if let Err(error) = parse(&text) {
                prop_assert!(!error.to_string().chars().any(char::is_control));
            }
        }

        #[test]
        fn what_is_shown_reads_back(block in crate::core::testing::any_block()) {
            if block.is_empty() {
                return Ok(());
            }
            prop_assert_eq!(parse(&format!("app={block}")).unwrap(), ("app".to_owned(), block));
        }
    }
}
