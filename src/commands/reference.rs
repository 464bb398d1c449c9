//! The files that are generated from the code: the command reference, the exit codes, the RBAC roles, the manual pages
//! and the completion scripts.
//! Takes the command tree as an argument, so that it knows no command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command};

use super::completion;
use crate::cluster::rights::reference_yaml;
use crate::core::exit;

/// Where the manual pages are.
const MANUAL: &str = "docs/man";

/// Write the generated files of the repository
#[derive(Args, Clone, Debug)]
#[command(hide = true)]
pub struct ReferenceArgs {
    /// The root of the repository
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub dir: PathBuf,
}

/// Writes every generated file, and removes manual pages of commands that are no more. Returns what was written.
pub fn run(args: &ReferenceArgs, command: Command) -> io::Result<Vec<PathBuf>> {
    let files = generated(command)?;
    for path in strange_pages(&files, &args.dir) {
        std::fs::remove_file(path)?;
    }
    let mut written = Vec::new();
    for (name, content) in files {
        let path = args.dir.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, content)?;
        written.push(path);
    }
    completion::make_executable(&args.dir.join(COMPLETIONS).join(completion::SHIM))?;
    Ok(written)
}

/// Where the completion scripts are.
const COMPLETIONS: &str = "completions";

/// The generated files, by their path below the root of the repository.
pub fn generated(command: Command) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::from([
        (PathBuf::from("docs/cli-reference.md"), cli_reference(command.clone())),
        (PathBuf::from("docs/exit-codes.md"), exit::reference()),
        (PathBuf::from("docs/rbac.yaml"), reference_yaml()),
        (Path::new(COMPLETIONS).join(completion::SHIM), completion::SHIM_SCRIPT.to_owned()),
    ]);
    for shell in ["bash", "zsh", "fish"] {
        let name = Path::new(COMPLETIONS).join(format!("{}.{shell}", completion::BINARY));
        files.insert(name, completion::registration(shell)?);
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    add_pages(&command, &mut files)?;
    Ok(files)
}

/// Which files below `root` are not what the code would write. For the test that keeps them fresh.
pub fn stale(command: Command, root: &Path) -> io::Result<Vec<PathBuf>> {
    let files = generated(command)?;
    let mut stale = strange_pages(&files, root);
    for (name, content) in files {
        let path = root.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&content) {
            stale.push(path);
        }
    }
    Ok(stale)
}

/// Manual pages of commands that are no more.
fn strange_pages(files: &BTreeMap<PathBuf, String>, root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(MANUAL)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| Path::new(MANUAL).join(entry.file_name()));
    paths.filter(|path| !files.contains_key(path)).map(|path| root.join(path)).collect()
}

fn add_pages(command: &Command, files: &mut BTreeMap<PathBuf, String>) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let name = Path::new(MANUAL).join(page.get_filename());
    files.insert(name, String::from_utf8_lossy(&text).into_owned());
    shown(command).try_for_each(|below| add_pages(below, files))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// One section for each command; the flags that all of them take come once, at the end.
pub fn cli_reference(command: Command) -> String {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut text = String::from(
        "# Command reference\n\nGenerated from the program; do not edit. `cargo run -- reference` writes it anew.\n",
    );
    add_section(&command, 2, &mut text);
    let globals: Vec<&Arg> = visible(&command).filter(|arg| arg.is_global_set()).collect();
    if !globals.is_empty() {
        text.push_str("\n## Flags of every command\n\nThey may stand before or after the name of the command.\n\n");
        for arg in globals {
            add_argument(arg, &mut text);
        }
    }
    text
}

fn add_section(command: &Command, level: usize, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    push(text, format_args!("\n{} {name}\n\n", "#".repeat(level)));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        push(text, format_args!("{about}\n\n"));
    }
    let usage = command.clone().render_usage().to_string();
    push(text, format_args!("```\n{}\n```\n", usage.trim_start_matches("Usage: ")));
    let own: Vec<&Arg> = visible(command).filter(|arg| !arg.is_global_set()).collect();
    if !own.is_empty() {
        text.push('\n');
        for arg in own {
            add_argument(arg, text);
        }
    }
    if let Some(more) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        push(text, format_args!("\n{more}\n"));
    }
    for below in shown(command) {
        add_section(below, level + 1, text);
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version")
}

fn add_argument(arg: &Arg, text: &mut String) {
    push(text, format_args!("- `{}`", form(arg)));
    if let Some(help) = arg.get_long_help().or_else(|| arg.get_help()) {
        let help = help.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        push(text, format_args!(": {help}"));
    }
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        push(text, format_args!(" (one of {})", values.join(", ")));
    }
    let defaults: Vec<String> = arg.get_default_values().iter().map(|value| value.display().to_string()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        push(text, format_args!(" (default `{}`)", defaults.join(",")));
    }
    text.push('\n');
}

/// `-n, --namespace NAME`, or `<WORKLOAD>...` for a positional argument.
fn form(arg: &Arg) -> String {
    let names: Vec<String> = arg
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(arg.get_long().map(|long| format!("--{long}")))
        .collect();
    if names.is_empty() {
        return arg.to_string();
    }
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().filter(|_| takes_value).map_or_else(String::new, |names| {
        let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
        format!(" {}", names.join(" "))
    });
    format!("{}{value}", names.join(", "))
}

fn push(text: &mut String, addition: std::fmt::Arguments<'_>) {
    text.write_fmt(addition).expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser, Subcommand};

    use super::*;
    use crate::commands::flags::{KubeFlags, OutputFlags};

    #[derive(Parser)]
    #[command(name = "kubectl-kapr", bin_name = "kubectl kapr")]
    struct Cli {
        #[command(flatten)]
        _kube: KubeFlags,
        #[command(flatten)]
        _output: OutputFlags,
        #[command(subcommand)]
        _verb: Verb,
    }

    #[derive(Subcommand)]
    enum Verb {
        /// Resize step by step
        Rollout {
            /// What to resize
            workload: Vec<String>,
            /// The steps
            #[arg(long, value_name = "LIST", default_value = "10%,100%")]
            steps: String,
        },
        /// Not for users
        #[command(hide = true)]
        Secret,
    }

    #[test]
    fn the_reference_has_each_command_and_the_shared_flags_once() {
        let text = cli_reference(Cli::command());
        assert!(text.contains("\n### kubectl kapr rollout\n\nResize step by step\n"), "{text}");
        assert!(text.contains("- `--steps LIST`: The steps (default `10%,100%`)\n"), "{text}");
        assert!(text.contains("- `[WORKLOAD]...`: What to resize\n"), "{text}");
        assert_eq!(text.matches("- `-n, --namespace NAME`: ").count(), 1, "{text}");
        assert!(text.contains("- `--color WHEN`: When to use colours (one of `auto`, `always`, `never`)"), "{text}");
        assert!(!text.contains("Secret") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn files_are_written_and_then_fresh() {
        let dir = tempfile::tempdir().unwrap();
        let expected = [
            "completions/kubectl-kapr.bash",
            "completions/kubectl-kapr.fish",
            "completions/kubectl-kapr.zsh",
            "completions/kubectl_complete-kapr",
            "docs/cli-reference.md",
            "docs/exit-codes.md",
            "docs/man/kubectl-kapr-rollout.1",
            "docs/man/kubectl-kapr.1",
            "docs/rbac.yaml",
        ];
        assert_eq!(stale(Cli::command(), dir.path()).unwrap().len(), expected.len());
        let args = ReferenceArgs { dir: dir.path().to_owned() };
        let written = run(&args, Cli::command()).unwrap();
        let names: Vec<_> = written.iter().map(|path| path.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!(names, expected.map(Path::new));
        assert_eq!(stale(Cli::command(), dir.path()).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_page_of_a_command_that_is_no_more_is_stale_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let args = ReferenceArgs { dir: dir.path().to_owned() };
        run(&args, Cli::command()).unwrap();
        let old = dir.path().join("docs/man/kubectl-kapr-old.1");
        std::fs::write(&old, "").unwrap();
        assert_eq!(stale(Cli::command(), dir.path()).unwrap(), std::slice::from_ref(&old));
        run(&args, Cli::command()).unwrap();
        assert!(!old.exists());
    }
}
