//! `kubectl kapr completion`: scripts for shells, and the file that lets kubectl complete our arguments.
//!
//! kubectl asks an executable `kubectl_complete-kapr` for candidates, and krew installs one executable only: so we
//! write that file ourselves, beside `kubectl-kapr`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;

/// The executable's name, as kubectl looks for it.
pub const BINARY: &str = "kubectl-kapr";
/// What kubectl runs to complete the arguments of `kubectl kapr`.
pub const SHIM: &str = "kubectl_complete-kapr";
/// The variable that turns a start of the binary into an answer for a shell.
const VARIABLE: &str = "COMPLETE";
/// kubectl reads `value<TAB>description` lines, which is what clap writes for fish; `:4` stops file names. Errors would
/// end up in the middle of the user's command line.
pub const SHIM_SCRIPT: &str = "#!/bin/sh\n\
    # Written by `kubectl kapr completion install`; `kubectl kapr completion install --uninstall` removes it.\n\
    COMPLETE=fish kubectl-kapr -- kubectl-kapr \"$@\" 2>/dev/null\n\
    echo :4\n";

/// Print a completion script, or let kubectl complete `kubectl kapr`
#[derive(Args, Clone, Debug)]
pub struct CompletionArgs {
    #[command(subcommand)]
    pub action: CompletionAction,
}

/// What to set up.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub enum CompletionAction {
    /// Print the script for `kubectl-kapr` in bash: source <(kubectl kapr completion bash)
    Bash,
    /// Print the script for `kubectl-kapr` in zsh: source <(kubectl kapr completion zsh)
    Zsh,
    /// Print the script for `kubectl-kapr` in fish: kubectl kapr completion fish | source
    Fish,
    /// Print the script for `kubectl-kapr` in PowerShell
    Powershell,
    /// Write `kubectl_complete-kapr` beside `kubectl-kapr`, so that kubectl's own completion covers `kubectl kapr`
    Install {
        /// Remove it again
        #[arg(long)]
        uninstall: bool,
    },
}

/// Why completion could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum CompletionError {
    #[error("kubectl-kapr is not on PATH, so there is no folder in which kubectl would find kubectl_complete-kapr")]
    NotOnPath,
    #[error("{} was not written by kapr and is left alone", path.display())]
    Foreign { path: PathBuf },
    #[error("kubectl cannot run a shell script as a completion on Windows; use kubectl kapr completion powershell")]
    Windows,
    #[error("cannot {verb} {}", path.display())]
    File { verb: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write the script")]
    Output(#[source] io::Error),
}

/// Prints a script or sets completion up.
pub fn run(args: &CompletionArgs, out: &mut dyn Write) -> Result<(), CompletionError> {
    match args.action {
        CompletionAction::Bash => script("bash", out),
        CompletionAction::Zsh => script("zsh", out),
        CompletionAction::Fish => script("fish", out),
        CompletionAction::Powershell => script("powershell", out),
        CompletionAction::Install { .. } if cfg!(windows) => Err(CompletionError::Windows),
        CompletionAction::Install { uninstall } => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folder = std::env::split_paths(&path)
                .find(|folder| folder.join(BINARY).is_file())
                .ok_or(CompletionError::NotOnPath)?;
            let done = if uninstall { remove_shim(&folder)? } else { write_shim(&folder)? };
            writeln!(out, "{done}").map_err(CompletionError::Output)
        }
    }
}

/// Call this first in `main`, before any thread exists: if a shell asks for candidates, answers it and exits.
pub fn answer_shell(command: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(command).bin(BINARY).completer(BINARY).complete();
}

fn script(shell: &str, out: &mut dyn Write) -> Result<(), CompletionError> {
    let text = registration(shell).map_err(CompletionError::Output)?;
    out.write_all(text.as_bytes()).map_err(CompletionError::Output)
}

/// The script that a shell reads: it asks the binary for every candidate. `shell` is one of clap's four.
pub fn registration(shell: &str) -> io::Result<String> {
    let mut text = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(shell).expect("the four shells are among clap's");
    shell.write_registration(VARIABLE, BINARY, BINARY, BINARY, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether a file is there, and whether it is ours to replace.
fn is_ours(path: &Path) -> Result<bool, CompletionError> {
    match std::fs::read_to_string(path) {
        Ok(content) if content.contains("kubectl kapr completion install") => Ok(true),
        Ok(_) => Err(CompletionError::Foreign { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(CompletionError::File { verb: "read", path: path.to_owned(), source }),
    }
}

fn write_shim(folder: &Path) -> Result<String, CompletionError> {
    let path = folder.join(SHIM);
    is_ours(&path)?;
    let failed = |source| CompletionError::File { verb: "write", path: path.clone(), source };
    std::fs::write(&path, SHIM_SCRIPT).map_err(failed)?;
    make_executable(&path).map_err(failed)?;
    Ok(format!("{} written; kubectl completes \"kubectl kapr\" now", path.display()))
}

fn remove_shim(folder: &Path) -> Result<String, CompletionError> {
    let path = folder.join(SHIM);
    if !is_ours(&path)? {
        return Ok(format!("{} is not there", path.display()));
    }
    let failed = |source| CompletionError::File { verb: "remove", path: path.clone(), source };
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(format!("{} removed", path.display()))
}

/// Lets everybody run the file, where that is a property of files.
#[cfg(unix)]
pub fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
pub fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_a_script_that_calls_the_binary() {
        for action in
            [CompletionAction::Bash, CompletionAction::Zsh, CompletionAction::Fish, CompletionAction::Powershell]
        {
            let mut out = Vec::new();
            run(&CompletionArgs { action: action.clone() }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(BINARY) && text.contains(VARIABLE), "{action:?}: {text}");
        }
    }

    #[test]
    fn the_shim_is_written_replaced_and_removed() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SHIM);
        write_shim(dir.path()).unwrap();
        write_shim(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        remove_shim(dir.path()).unwrap();
        assert!(!path.exists());
        assert!(remove_shim(dir.path()).unwrap().ends_with("is not there"));
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SHIM);
        std::fs::write(&path, "#!/bin/sh\necho mine\n").unwrap();
        assert!(matches!(write_shim(dir.path()), Err(CompletionError::Foreign { .. })));
        assert!(matches!(remove_shim(dir.path()), Err(CompletionError::Foreign { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#!/bin/sh\necho mine\n");
    }
}
