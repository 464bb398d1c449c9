//! One file for each command: its arguments (the help text is their doc comment) and its `run`.
//! May not: decide anything about the domain.

pub mod allow;
pub mod candidates;
pub mod check;
pub mod completion;
pub mod conduct;
pub mod confirm;
pub mod demo;
pub mod document;
pub mod flags;
pub mod history;
pub mod plan;
pub mod policy_flags;
pub mod preflight;
pub mod reference;
pub mod resume;
pub mod revision;
pub mod rollout;
pub mod sandbox;
pub mod session;
pub mod signals;
pub mod status;
mod status_watch;
pub mod wanted_args;
pub mod workload_arg;

use clap::{CommandFactory, Parser, Subcommand};

use self::flags::{KubeFlags, OutputFlags};
use self::resume::Verb;
use self::session::Session;
use crate::core::exit::Exit;
use crate::error::{CommandError, CommandResult};

/// Resize the running pods of a workload in place, a few at a time; prove it, or undo it exactly
#[derive(Parser, Debug)]
#[command(
    name = "kubectl-kapr",
    bin_name = "kubectl kapr",
    version,
    max_term_width = 100,
    subcommand_required = true,
    // As in kubectl, the last one wins: an alias with defaults can be corrected on the command line.
    args_override_self = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub kube: KubeFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Rollout(rollout::RolloutArgs),
    Plan(plan::PlanArgs),
    Status(status::StatusArgs),
    Resume(resume::ResumeArgs),
    Rollback(resume::RollbackArgs),
    Abort(resume::AbortArgs),
    History(history::HistoryArgs),
    Denied(allow::DeniedArgs),
    Allow(allow::AllowArgs),
    Revision(revision::RevisionArgs),
    Check(check::CheckArgs),
    Demo(demo::DemoArgs),
    Sandbox(sandbox::SandboxArgs),
    Completion(completion::CompletionArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// The whole command tree, for completion and the generated references.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs one command line.
pub async fn run(cli: Cli) -> CommandResult {
    let Cli { command, kube, output } = cli;
    match command {
        Command::Rollout(args) => rollout::run(&args, &Session::open(&kube, &output, "rollout").await?).await,
        Command::Plan(args) => plan::run(&args, &Session::open(&kube, &output, "plan").await?).await,
        Command::Status(args) => status::run(&args, &Session::open(&kube, &output, "status").await?).await,
        Command::History(args) => history::run(&args, &Session::open(&kube, &output, "history").await?).await,
        Command::Denied(args) => allow::denied(&args, &Session::open(&kube, &output, "denied").await?).await,
        Command::Allow(args) => allow::allow(&args, &Session::open(&kube, &output, "allow").await?).await,
        Command::Resume(args) => {
            resume::run(Verb::Resume, &args.on, &Session::open(&kube, &output, "resume").await?).await
        }
        Command::Rollback(args) => {
            resume::run(Verb::RollBack, &args.on, &Session::open(&kube, &output, "rollback").await?).await
        }
        Command::Abort(args) => {
            resume::run(Verb::Abort, &args.on, &Session::open(&kube, &output, "abort").await?).await
        }
        Command::Revision(args) => revision::run(&args, &revision_namespace(&kube)).await,
        Command::Demo(args) => demo::run(&args, &output).await,
        Command::Sandbox(args) => sandbox::run(&args).await,
        Command::Check(args) => check_command(&args, &kube, &output).await,
        Command::Completion(args) => {
            completion::run(&args, &mut std::io::stdout())
                .map_err(|error| CommandError::new(Exit::Unexpected, error))?;
            Ok(Exit::Done)
        }
        Command::Reference(args) => {
            reference::run(&args, self::command())?;
            Ok(Exit::Done)
        }
    }
}

/// A revision needs no cluster: `-n`, else the kubeconfig's namespace if there is one, else `default`.
fn revision_namespace(kube: &KubeFlags) -> String {
    use crate::cluster::environment::Environment;
    use crate::cluster::kubeconfig::{choose, load};
    let options = kube.connect_options();
    let from_file = || {
        let loaded = load(&options, &Environment::from_process()).ok()?;
        choose(&loaded, &options).ok()?.namespace
    };
    kube.namespace.clone().or_else(from_file).unwrap_or_else(|| "default".to_owned())
}

async fn check_command(args: &check::CheckArgs, kube: &KubeFlags, output: &OutputFlags) -> CommandResult {
    use crate::cluster::connect::{Connection, Invocation};
    use crate::cluster::environment::Environment;
    let invocation = Invocation { command: "kubectl kapr check".to_owned(), ..Invocation::default() };
    let connection = Connection::open(kube.connect_options(), Environment::from_process(), invocation).await?;
    Ok(check::run(args, &output.output, &connection, Vec::new(), &mut std::io::stdout()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_last_of_a_repeated_flag_wins_and_lists_grow() {
        let line =
            "kapr rollout -n a deploy --set a=requests.cpu=1 -n b web --pause 5m --set b=requests.cpu=1 --pause 1s";
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(cli.kube.namespace.as_deref(), Some("b"));
        let Command::Rollout(args) = cli.command else { panic!("not a rollout") };
        assert_eq!(args.wanted.policy.pause, Some(std::time::Duration::from_secs(1)));
        assert_eq!(args.wanted.set.len(), 2);
        assert_eq!(args.wanted.workload, ["deploy", "web"]);
    }
}
