//! What every command against a cluster starts with: the connection, the ports, who we are, and where output goes.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use super::flags::{ColorChoice, KubeFlags, OutputFlags, OutputFormat, ProgressMode};
use crate::clock::SystemClock;
use crate::cluster::Cluster;
use crate::cluster::KubeCluster;
use crate::cluster::connect::{Connection, Invocation};
use crate::cluster::environment::Environment;
use crate::cluster::link::{Hook, Hooks, RequestTrace};
use crate::cluster::version::{ServerVersion, server_version};
use crate::core::workload::{WorkloadRef, WorkloadView};
use crate::engine::Holder;
use crate::error::{CommandError, CommandResult};
use crate::render::mode::{ColorFlag, Mode, OutputFlag, ProgressFlag, Surroundings, resolve};
use crate::store::{KubeStore, Subject};

/// A connected command.
pub struct Session {
    pub connection: Connection,
    pub cluster: KubeCluster,
    pub store: KubeStore,
    pub clock: SystemClock,
    pub holder: Holder,
    pub version: ServerVersion,
    pub output: OutputFlags,
}

/// From this verbosity on each request is logged, as with kubectl.
const TRACE_FROM: u8 = 6;

impl Session {
    /// Connects as the flags say and asks the server for its version.
    pub async fn open(kube: &KubeFlags, output: &OutputFlags, verb: &str) -> CommandResult<Self> {
        let holder = Holder::new(&user(), &host());
        let invocation = Invocation {
            command: format!("kubectl kapr {verb}"),
            session: holder.identity.rsplit(':').next().unwrap_or_default().to_owned(),
            hooks: hooks(output.level()),
        };
        let connection = Connection::open(kube.connect_options(), Environment::from_process(), invocation).await?;
        Self::over(connection, &kube.field_manager, output, holder).await
    }

    /// The same over a connection that is there already.
    pub async fn over(
        connection: Connection,
        field_manager: &str,
        output: &OutputFlags,
        holder: Holder,
    ) -> CommandResult<Self> {
        let version = server_version(&connection.read).await?;
        let clock = SystemClock { correction: connection.clock_skew().unwrap_or_default() };
        Ok(Self {
            cluster: KubeCluster::new(&connection, field_manager),
            store: KubeStore::new(&connection, field_manager),
            clock,
            holder,
            version,
            output: output.clone(),
            connection,
        })
    }

    /// The workload, or a refusal that names it.
    pub async fn workload(&self, reference: &WorkloadRef) -> CommandResult<WorkloadView> {
        let found = self.cluster.workload(reference).await?;
        found.ok_or_else(|| {
            let (kind, name) = (reference.kind.singular(), &reference.name);
            CommandError::refused(format!("{kind} {name:?} not found in namespace {:?}", reference.namespace))
                .hint(format!("kubectl get {kind}s -n {}", reference.namespace))
        })
    }

    /// Refuses a server that has no in-place resize.
    pub fn expect_resize(&self) -> CommandResult<()> {
        if self.version.supports_resize() {
            return Ok(());
        }
        let sentence =
            format!("the API server is {}: in-place resize needs Kubernetes 1.33 or newer", self.version.git);
        Err(CommandError::refused(sentence))
    }

    pub fn mode(&self) -> Mode {
        mode(&self.output)
    }
}

/// Whose record it is.
pub fn subject(workload: &WorkloadView) -> Subject {
    Subject { workload: workload.reference.clone(), uid: workload.uid.clone() }
}

/// How this process shows a run, from its flags and surroundings.
pub fn mode(output: &OutputFlags) -> Mode {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    let term = std::env::var("TERM").ok();
    let around = Surroundings {
        stdout_is_tty: io::stdout().is_terminal(),
        stderr_is_tty: io::stderr().is_terminal(),
        is_ci: set("CI"),
        term: term.as_deref(),
        no_color: std::env::var_os("NO_COLOR").is_some(),
        logs_to_stderr: output.level() > 0,
        is_windows: cfg!(windows),
    };
    let progress = match output.progress {
        ProgressMode::Auto => ProgressFlag::Auto,
        ProgressMode::Tty => ProgressFlag::Tty,
        ProgressMode::Plain => ProgressFlag::Plain,
        ProgressMode::Json => ProgressFlag::Json,
        ProgressMode::Quiet => ProgressFlag::Quiet,
    };
    let format = if output.output == OutputFormat::Json { OutputFlag::Json } else { OutputFlag::Text };
    let color = match output.color {
        ColorChoice::Auto => ColorFlag::Auto,
        ColorChoice::Always => ColorFlag::Always,
        ColorChoice::Never => ColorFlag::Never,
    };
    resolve(around, progress, format, color)
}

fn hooks(level: u8) -> Hooks {
    let warning: Hook<str> = Arc::new(|text| tell(&format!("Warning: {}\n", crate::render::text::clean(text))));
    let request: Option<Hook<RequestTrace>> =
        if level >= TRACE_FROM { Some(Arc::new(|trace| tell(&format!("{trace}\n")))) } else { None };
    Hooks { warning: Some(warning), request }
}

/// One text for stderr; nobody is left to tell when that fails.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A result for stdout. A reader that went away has read enough.
pub fn print(text: &str) -> CommandResult<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn user() -> String {
    whoami::username().unwrap_or_else(|_| "unknown".to_owned())
}

fn host() -> String {
    whoami::hostname().unwrap_or_else(|_| "unknown".to_owned())
}
