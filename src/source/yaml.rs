//! YAML (and with it JSON) as a small tree in which every key and value knows its place and its exact text.
//!
//! The parser's events are used rather than its serde side: a quantity such as `0.1` must not pass through a float, a
//! key that is there twice is named with both lines, and the limits below hold before anything is built.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use super::complaint::{Fault, Place, clean, quote};

/// Deeper than any recommendation in a list; keeps recursion over the tree shallow, aliases included.
const MAX_DEPTH: usize = 64;

/// Keys and values after aliases are expanded. More than a file of the largest size can spell out in earnest, and far
/// less than a few nested aliases can make.
const MAX_NODES: usize = 1_000_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Null,
    /// `plain`: without quotes, so that it may be meant as a number or a boolean.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// In the order of the text; no key twice.
    Map(Vec<Entry>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Node,
}

impl Node {
    /// What the value is, for a sentence: `a list`.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "empty",
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// The documents of a text with their numbers from one. Empty ones are left out, but counted.
pub fn parse(text: &str) -> Result<Vec<(usize, Node)>, Fault> {
    let mut builder = Builder::default();
    let mut documents = Vec::new();
    let mut number = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let mark = error.marker();
            let place = Place { line: mark.line(), column: mark.col() + 1, width: 1 };
            Fault::at(place, format!("not valid YAML: {}", clean(&error.info())))
        })?;
        match event {
            Event::DocumentStart(..) => {
                number += 1;
                builder.anchors.clear();
            }
            Event::DocumentEnd => {
                if let Some(root) = builder.root.take().filter(|root| root.value != Value::Null) {
                    documents.push((number, root));
                }
            }
            event => builder.take(event, span)?,
        }
    }
    Ok(documents)
}

/// A list or mapping that is not closed yet.
struct Open {
    place: Place,
    anchor: usize,
    content: Content,
    /// Nodes in it so far, itself included.
    size: usize,
    /// Levels below it so far.
    height: usize,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, Place)> },
}

/// A finished node with what it counts for the limits.
struct Built {
    node: Node,
    size: usize,
    height: usize,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Built>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let place = place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let string = tag.as_ref().is_some_and(|tag| tag.core_suffix() == Some("str"));
                if let Some(tag) = tag.as_ref().filter(|tag| !is_core(tag.core_suffix())) {
                    return Err(Fault::at(place, format!("unknown tag {}", quote(&tag.original()))));
                }
                let plain = style == ScalarStyle::Plain && !string;
                let null = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if null { Value::Null } else { Value::Scalar { text: text.into_owned(), plain } };
                self.finish(anchor, Built { node: Node { place, value }, size: 1, height: 0 }, 1)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(place, anchor, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.begin(place, anchor, Content::Map { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let Some(built) = self.anchors.get(&anchor) else {
                    return Err(Fault::at(place, "this alias stands inside what it refers to"));
                };
                let (size, height) = (built.size, built.height);
                // Before the copy is made: that is what the limits are for.
                self.check(place, size, height)?;
                let node = Node { place, value: built.node.value.clone() };
                self.finish(0, Built { node, size, height }, size)
            }
            // Comments, the ends of the stream, and events of options that are not set.
            _ => Ok(()),
        }
    }

    fn check(&self, place: Place, size: usize, height: usize) -> Result<(), Fault> {
        if self.open.len() + height > MAX_DEPTH {
            return Err(Fault::at(place, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        if self.nodes + size > MAX_NODES {
            return Err(Fault::at(place, format!("more than {MAX_NODES} values, aliases expanded")));
        }
        Ok(())
    }

    fn begin(&mut self, place: Place, anchor: usize, content: Content) -> Result<(), Fault> {
        self.check(place, 1, 1)?;
        self.nodes += 1;
        self.open.push(Open { place, anchor, content, size: 1, height: 0 });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Map { entries, .. } => {
                refuse_twice(&entries)?;
                Value::Map(entries)
            }
        };
        let node = Node { place: open.place, value };
        self.finish(open.anchor, Built { node, size: open.size, height: open.height + 1 }, 0)
    }

    /// Puts a finished node where it belongs: the root, an item, a key, or a value. `new` of its nodes were not counted
    /// before.
    fn finish(&mut self, anchor: usize, built: Built, new: usize) -> Result<(), Fault> {
        let Built { node, size, height } = built;
        self.check(node.place, new, height)?;
        self.nodes += new;
        if anchor != 0 {
            self.check(node.place, size, height)?;
            self.nodes += size;
            self.anchors.insert(anchor, Built { node: node.clone(), size, height });
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size += size;
        open.height = open.height.max(height);
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key } => match key.take() {
                Some((key, key_place)) => entries.push(Entry { key, key_place, value: node }),
                None => *key = Some(key_text(node)?),
            },
        }
        Ok(())
    }
}

fn is_core(suffix: Option<&str>) -> bool {
    matches!(suffix, Some("str" | "int" | "float" | "bool" | "null"))
}

fn key_text(node: Node) -> Result<(String, Place), Fault> {
    match node.value {
        Value::Scalar { text, plain: true } if text == "<<" => {
            Err(Fault::at(node.place, "merge keys (<<) are not read here: write the fields out"))
        }
        Value::Scalar { text, .. } => Ok((text, node.place)),
        Value::Null | Value::List(_) | Value::Map(_) => {
            Err(Fault::at(node.place, format!("a field name must be a word, not {}", node.kind())))
        }
    }
}

/// Sorted by key and place, so that a repeated key stands beside its first use.
fn refuse_twice(entries: &[Entry]) -> Result<(), Fault> {
    let mut keys = entries.iter().map(|entry| (entry.key.as_str(), entry.key_place)).collect::<Vec<_>>();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(Fault::at(
            pair[1].1,
            format!("field {} is there twice, first on line {}", quote(pair[1].0), pair[0].1.line),
        )),
    }
}

fn place(span: Span) -> Place {
    let (start, end) = (span.start, span.end);
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()).max(1) } else { 1 };
    Place { line: start.line(), column: start.col() + 1, width }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_exact_text_of_numbers_is_kept() {
        let documents = parse("a: 0.10\nb: 1e3\nc: '7'\n").unwrap();
        let Value::Map(entries) = &documents[0].1.value else { panic!("a mapping was written") };
        let values = entries.iter().map(|entry| entry.value.value.clone()).collect::<Vec<_>>();
        let scalar = |text: &str, plain| Value::Scalar { text: text.into(), plain };
        assert_eq!(values, [scalar("0.10", true), scalar("1e3", true), scalar("7", false)]);
        assert_eq!(entries[1].value.place, Place { line: 2, column: 4, width: 3 });
    }

    #[test]
    fn empty_documents_are_counted_but_left_out() {
        let numbers = |text| parse(text).unwrap().into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers("---\n---\na: 1\n---\n# nothing\n---\nb: 1\n"), [2, 4]);
        assert_eq!(numbers(""), [0; 0]);
        assert_eq!(numbers("# only a comment\n"), [0; 0]);
    }

    #[rstest]
    #[case("a: 1\nb: 2\na: 3\n", 3, "field \"a\" is there twice, first on line 1")]
    #[case("{\"a\": 1, \"a\": 2}", 1, "field \"a\" is there twice, first on line 1")]
    #[case("a: &x [*x]\n", 1, "this alias stands inside what it refers to")]
    #[case("a: &x {b: 1}\nc: {<<: *x}\n", 2, "merge keys (<<) are not read here: write the fields out")]
    #[case("[a]: 1\n", 1, "a field name must be a word, not a list")]
    #[case("a: !secret x\n", 1, "unknown tag \"!secret\"")]
    fn refused(#[case] text: &str, #[case] line: usize, #[case] want: &str) {
        let fault = parse(text).unwrap_err();
        assert_eq!((fault.place.unwrap().line, fault.text.as_str()), (line, want));
    }

    #[test]
    fn an_alias_is_what_it_refers_to() {
        let documents = parse("a: &x {b: 1}\nc: *x\n").unwrap();
        let Value::Map(entries) = &documents[0].1.value else { panic!("a mapping was written") };
        assert_eq!(entries[0].value.value, entries[1].value.value);
    }

    #[test]
    fn a_bomb_of_aliases_is_refused_before_it_is_built() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..30 {
            let before = format!("*a{}, ", i - 1).repeat(9);
            writeln!(text, "a{i}: &a{i} [{before}]").unwrap();
        }
        assert_eq!(parse(&text).unwrap_err().text, "more than 1000000 values, aliases expanded");
    }

    #[test]
    fn depth_is_limited_with_and_without_aliases() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert_eq!(parse(&deep).unwrap_err().text, "nested more than 64 levels deep");
        let nest = |inner: &str| format!("{}{inner}{}", "[".repeat(40), "]".repeat(40));
        let chained = format!("a: &a {}\nb: {}\n", nest("x"), nest("*a"));
        assert_eq!(parse(&chained).unwrap_err().text, "nested more than 64 levels deep");
        assert!(parse(&"[".repeat(4_000_000)).is_err());
        assert!(parse(&"- ".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(.|\n){0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_mix_of_yaml_marks_is_answered(text in "[a-c:\\[\\]{},&*!|>'\"?#%@<~ \t\n0-9.-]{0,60}") {
            let _ = parse(&text);
        }
    }
}
