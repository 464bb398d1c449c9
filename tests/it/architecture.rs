//! The arrows of docs/architecture.md and the rules of the house, read from the source text. A breach names the file,
//! the line and the rule.

use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms of the crate the files of a room may import besides their own.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("clock", &["core"]),
    ("render", &["core"]),
    ("source", &["core"]),
    ("cluster", &["core"]),
    // The store reaches the API server through the connection that `cluster` makes.
    ("store", &["core", "cluster"]),
    ("engine", &["core", "cluster", "store", "clock"]),
    // An opinion of its own about what Kubernetes does: what it shared with us it could not contradict.
    ("sandbox", &[]),
    ("error", &["core", "cluster", "store", "engine", "source", "render"]),
    ("commands", &["core", "cluster", "store", "engine", "source", "render", "clock", "error", "sandbox"]),
    ("lib", &["core", "commands"]),
    ("main", &[]),
];

/// Words that may stand in the code of the named rooms only, with the reason.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("kube::", &["cluster", "store", "sandbox"], "kube's types stay behind the ports"),
    ("k8s_openapi", &["cluster", "store", "sandbox"], "Kubernetes' types stay behind the ports"),
    ("clap", &["commands", "lib"], "only commands know a command line"),
    ("anyhow", &["commands", "error"], "inside the product an error is an enum"),
    ("reqwest", &["source", "metrics", "error"], "only ports speak HTTP"),
    ("std::env::var", &["cluster", "commands"], "the environment is read at the edge and handed in"),
];

/// Words that may not stand in the code of a room.
const NEVER_IN: &[(&str, &[&str], &str)] = &[
    (
        "core",
        &[
            "tokio",
            "futures",
            "reqwest",
            "hyper",
            "async fn",
            ".await",
            "std::fs",
            "std::env",
            "std::io",
            "std::net",
            "std::process",
            "HashMap",
            "HashSet",
            "SystemTime",
            "Instant",
            "Timestamp::now",
            "RandomState",
        ],
        "the core decides and does nothing: no async, clock, environment, files, randomness",
    ),
    (
        "render",
        &["tokio", "std::fs", "std::env", "std::net", "SystemTime", "Instant::now", "Timestamp::now"],
        "render reads events only; time and surroundings are handed in",
    ),
    ("engine", &["println", "std::fs", "std::env", "SystemTime", "Timestamp::now"], "time comes from the clock"),
    ("source", &["Timestamp::now", "SystemTime"], "a recommendation does not depend on when it is read"),
];

/// Words that may stand nowhere.
const NEVER: &[(&str, &str)] = &[
    ("#[allow(", "say #[expect(lint, reason = …)]"),
    ("#![allow(", "say #![expect(lint, reason = …)]"),
    ("todo!(", "finish it, or leave it out and say so in the documents"),
    ("unimplemented!(", "finish it, or leave it out and say so in the documents"),
    ("dbg!(", "left over from a search"),
    ("crate::{", "one import for each room, so that the arrows can be read"),
];

/// A file that is longer has more than one subject.
const MOST_LINES: usize = 500;

/// How far above a sleep the loop that it belongs to may begin.
const LOOP_WITHIN: usize = 40;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager", "imp"];

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The first folder or file below `src`; `None` for tests.
    fn room(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src").ok()?;
        let first = below.iter().next()?.to_str()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }

    /// Lines without comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
    }

    fn breach(&self, line: usize, rule: impl std::fmt::Display) -> String {
        format!("{}:{line}: {rule}", self.path.display())
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = ["src", "tests", "benches", "examples"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text });
            }
        }
    }
    assert!(found.len() > 100, "only {} files found: is this the right folder?", found.len());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Whether `word` stands in `line` and is not the end of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let begins_earlier = before.is_some_and(is_name);
        let goes_on = word.ends_with(is_name) && after.is_some_and(is_name);
        !begins_earlier && !goes_on
    })
}

/// The rooms that a line imports: `crate::ROOM`.
fn imported(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("crate::").map(move |(at, word)| {
        let rest = &line[at + word.len()..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    })
}

/// Files below `tests/it/architecture.rs` itself are left out where the rule's own words would be found.
fn is_this_file(source: &Source) -> bool {
    source.path == Path::new("tests/it/architecture.rs")
}

fn expect_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches\n{}\n", breaches.len(), breaches.join("\n"));
}

#[test]
fn imports_follow_the_arrows() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some(room) = source.room() else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
            breaches
                .push(source.breach(1, format!("`{room}` has no arrows yet: add it to docs/architecture.md and here")));
            continue;
        };
        for (line, code) in source.code() {
            for other in imported(code).filter(|other| *other != room && !allowed.contains(other)) {
                // Items of lib.rs itself, such as a macro, are no room.
                if ARROWS.iter().any(|(name, _)| *name == other) {
                    breaches.push(source.breach(line, format!("{room} may not import {other}")));
                }
            }
        }
    }
    expect_none(&breaches);
}

#[test]
fn libraries_stay_in_their_rooms() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some(room) = source.room() else { continue };
        for (line, code) in source.code() {
            for (word, rooms, why) in ONLY_IN {
                if !rooms.contains(&room) && has_word(code, word) {
                    breaches.push(source.breach(line, format!("`{word}` in {room}: {why}")));
                }
            }
            for (_, words, why) in NEVER_IN.iter().filter(|(name, ..)| *name == room) {
                for word in words.iter().filter(|word| has_word(code, word)) {
                    breaches.push(source.breach(line, format!("`{word}` in {room}: {why}")));
                }
            }
        }
    }
    expect_none(&breaches);
}

#[test]
fn files_say_what_they_are_and_stay_readable() {
    let mut breaches = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            breaches.push(source.breach(1, "begins with `//!`: what lives here, and what may not"));
        }
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            breaches.push(source.breach(lines, format!("{lines} lines, more than {MOST_LINES}")));
        }
        let stem = source.path.file_stem().unwrap().to_str().unwrap();
        if EMPTY_NAMES.contains(&stem) {
            breaches.push(source.breach(1, format!("`{stem}` says nothing: name the file after its main thing")));
        }
    }
    expect_none(&breaches);
}

#[test]
fn nothing_is_left_lying_about() {
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| !is_this_file(source)) {
        for (line, code) in source.code() {
            for (word, why) in NEVER.iter().filter(|(word, _)| code.contains(word)) {
                breaches.push(source.breach(line, format!("`{word}`: {why}")));
            }
        }
    }
    expect_none(&breaches);
}

/// A test waits for a condition with a deadline, or moves tokio's paused clock: real time that passes for nothing is
/// either too short on a slow machine or too long on a fast one.
#[test]
fn tests_do_not_sleep() {
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| source.room().is_none() && !is_this_file(source)) {
        if source.text.contains("start_paused = true") {
            continue;
        }
        let lines = source.code().map(|(_, code)| code).collect::<Vec<_>>();
        for (index, code) in lines.iter().enumerate().filter(|(_, code)| code.contains("sleep(")) {
            let above = &lines[index.saturating_sub(LOOP_WITHIN)..index];
            let indent = |line: &str| line.len() - line.trim_start().len();
            // The loop that contains the line is the nearest one that is indented less.
            let in_loop = above.iter().rev().any(|line| {
                let words = line.trim_start();
                indent(line) < indent(code) && ["loop", "while ", "for "].iter().any(|word| words.starts_with(word))
            });
            if !in_loop {
                breaches.push(source.breach(index + 1, "a sleep outside of a loop that waits for a condition"));
            }
        }
    }
    expect_none(&breaches);
}

#[test]
fn the_reader_of_words_reads_words() {
    assert!(has_word("use kube::Api;", "kube::"));
    assert!(!has_word("use mykube::Api;", "kube::"));
    assert!(has_word("let x: HashMap<u8, u8>;", "HashMap"));
    assert!(!has_word("let x: MyHashMap;", "HashMap") && !has_word("let x: HashMaps;", "HashMap"));
    assert_eq!(imported("use crate::core::x; crate::store::y").collect::<Vec<_>>(), ["core", "store"]);
}
