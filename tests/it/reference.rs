//! The generated files of the repository are what the code would write now.

use std::path::Path;

use kapr::commands::{command, reference};

#[test]
fn generated_files_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stale = reference::stale(command(), root).unwrap();
    let names = stale.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect::<Vec<_>>();
    assert!(names.is_empty(), "not fresh: {}\nrun `cargo run -- reference` and commit the result", names.join(", "));
}

/// Every exit code and every command that the documents for people speak of is one that exists.
#[test]
fn documents_name_commands_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = command();
    let mut wrong = Vec::new();
    for document in ["README.md", "docs/rollout.md", "docs/resize.md", "docs/recommendation.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        for (number, line) in text.lines().enumerate() {
            for (at, name) in line.match_indices("kubectl kapr ") {
                let word = line[at + name.len()..].split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
                if !word.is_empty() && tree.find_subcommand(word).is_none() {
                    wrong.push(format!("{document}:{}: kubectl kapr {word}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "no such command:\n{}", wrong.join("\n"));
}
