//! `kubectl kapr plan`: the verdict for each pod, the steps, what cannot be undone; nothing is changed.

use clap::Args;
use futures::future::join_all;

use super::document::{columns, document};
use super::session::{Session, print};
use super::wanted_args::{Decided, WantedArgs};
use crate::cluster::{Cluster, WriteMode};
use crate::core::exit::Exit;
use crate::core::plan::{Plan, plan};
use crate::core::pod::PodView;
use crate::core::refusal::Refusal;
use crate::core::resources::ContainerResources;
use crate::core::revision::Revision;
use crate::core::rollout::effect::Resize;
use crate::core::rollout::observation::ResizeAnswer;
use crate::core::workload::WorkloadView;
use crate::error::{CommandError, CommandResult};
use crate::render::plan_view;

/// Show what a rollout would do, without changing anything
///
/// A verdict for each pod, the pods of each step, and what could not be undone in place. The API server is asked with a
/// dry run of the resize, once for each distinct kind of pod.
#[derive(Args, Clone, Debug, Default)]
pub struct PlanArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Exit with 10 when there are changes to make
    #[arg(long)]
    pub exit_code: bool,
}

/// A plan with the API server's answers.
pub struct Preview {
    pub workload: WorkloadView,
    pub plan: Plan,
    /// What the dry run refused for good.
    pub refused: Vec<RefusedShape>,
    /// Sentences of the dry run that do not stop a run: the node is too small.
    pub too_large: Vec<String>,
}

pub struct RefusedShape {
    pub pod: Box<str>,
    /// Pods that would be answered alike.
    pub pods: usize,
    pub refusal: Refusal,
}

/// A dry run asks for at most this many distinct shapes; more says nothing new.
const MOST_SHAPES: usize = 32;

pub async fn run(args: &PlanArgs, session: &Session) -> CommandResult {
    session.output.output.expect_one_of(&["table", "wide", "json", "yaml"]).map_err(CommandError::usage)?;
    session.expect_resize()?;
    let mut changes = false;
    for decided in args.wanted.read(&session.connection.namespace).await? {
        let workload = session.workload(&decided.recommendation.workload).await?;
        let preview = preview(session, workload, &decided, true).await?;
        changes |= preview.plan.to_change() > 0;
        print_plan(session, &decided, &preview)?;
    }
    Ok(if changes && args.exit_code { Exit::ChangesPending } else { Exit::Done })
}

/// Plans and, if asked to, has the API server judge one pod of each shape.
pub async fn preview(
    session: &Session,
    mut workload: WorkloadView,
    decided: &Decided,
    ask_server: bool,
) -> CommandResult<Preview> {
    workload.rivals = session.cluster.rivals(&workload.reference).await;
    let pods = session.cluster.pods(&workload).await?;
    let owned = pods.iter().filter(|pod| workload.owns(pod));
    let plan = plan(&workload, owned, decided.recommendation.containers(), &decided.policy, session.version.minor);
    let (mut refused, mut too_large) = (Vec::new(), Vec::new());
    if ask_server {
        let shapes = plan.shapes();
        let asks = shapes.iter().take(MOST_SHAPES).filter_map(|shape| {
            let first = &plan.pods[*shape.pods.first()?];
            let view = pods.iter().find(|pod| pod.uid == first.uid)?;
            let eligible = first.verdict.as_ref().ok()?;
            Some((shape.pods.len(), &first.before, Resize::new(view, eligible.changes.clone())))
        });
        let namespace = &workload.reference.namespace;
        let answers = join_all(asks.map(|(count, before, resize)| async move {
            let resized = session.cluster.resize(namespace, &resize, WriteMode::DryRun).await;
            let answer = match (resized.answer, resized.pod) {
                (ResizeAnswer::Accepted, Some(pod)) => added(&pod, before, &resize.changes)
                    .map_or(ResizeAnswer::Accepted, |message| ResizeAnswer::Refused { message }),
                (answer, _) => answer,
            };
            (resize.name, count, answer)
        }))
        .await;
        for (pod, pods, answer) in answers {
            match answer {
                ResizeAnswer::Refused { message } => {
                    refused.push(RefusedShape { pod, pods, refusal: named(&message) });
                }
                ResizeAnswer::Forbidden { message } => {
                    return Err(CommandError::refused(message).hint("`kubectl kapr check` names each missing right"));
                }
                ResizeAnswer::NodeCapacity { message } => too_large.push(format!("pod {pod}: {message}")),
                ResizeAnswer::Accepted | ResizeAnswer::Gone => {}
                ResizeAnswer::Busy { message } | ResizeAnswer::Lost { message } => {
                    return Err(CommandError::say(
                        Exit::Unexpected,
                        format!("cannot ask for a dry run of the resize: {message}"),
                    ));
                }
            }
        }
    }
    Ok(Preview { workload, plan, refused, too_large })
}

/// What the cluster's admission would add to the resize, such as a LimitRange's default limit: nobody asked for it, and
/// it could never be taken away again. A request that follows from a new limit is the API server's own and is judged as
/// a one-way change.
fn added(pod: &PodView, before: &ContainerResources, changes: &ContainerResources) -> Option<String> {
    before.iter().find_map(|(name, before)| {
        let after = pod.containers.get(name.as_str())?.desired;
        let asked = before.overlaid(&changes.get(name).copied().unwrap_or_default()).with_implied_requests();
        let (key, value) = after.present().find(|(key, _)| asked.get(*key).is_none())?;
        Some(format!(
            "the cluster's admission would add {key}={} to container {name}, which cannot be taken away",
            key.show(value)
        ))
    })
}

/// Which admission plugin spoke, from its words.
fn named(words: &str) -> Refusal {
    let words = crate::render::text::clean(words).into_owned();
    if words.contains("exceeded quota") {
        Refusal::ResourceQuota { words }
    } else if words.contains("usage per Container")
        || words.contains("usage per Pod")
        || words.contains("limit to request ratio")
    {
        Refusal::LimitRange { words }
    } else {
        Refusal::ServerRefuses { words }
    }
}

/// The plan on stdout, in the format that was asked for.
pub fn print_plan(session: &Session, decided: &Decided, preview: &Preview) -> CommandResult<()> {
    let revision = Revision::of(&decided.recommendation);
    let refused = preview.refused.iter().map(|shape| plan_view::ServerRefusal {
        pod: shape.pod.to_string(),
        pods: shape.pods,
        code: shape.refusal.code(),
        message: shape.refusal.to_string(),
    });
    let refused = refused.collect::<Vec<_>>();
    let view = plan_view::PlanView {
        context: session.connection.context.as_deref(),
        workload: &preview.workload.reference,
        revision: &revision,
        target: decided.recommendation.containers(),
        plan: &preview.plan,
        policy: &decided.policy,
        refused: &refused,
        too_large: &preview.too_large,
    };
    let format = &session.output.output;
    match document(format, || plan_view::json(&view))? {
        Some(text) => print(&text),
        None => print(&plan_view::table(&view, format.name() == "wide", columns())),
    }
}
