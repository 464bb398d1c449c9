//! The pod watch: list in pages, watch from there, and start again whenever that breaks. Never ends by itself.
//!
//! Pods are translated as they arrive, so that a workload of thousands is never held as manifests. kube's own watcher
//! keeps a page of manifests and hides how long it has been blind; this one says so at once.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};

use super::kube_cluster::list_pods;
use super::translate::pod_view;
use super::{ClusterError, PodChange};
use crate::core::pod::PodUid;

/// The waits between tries: short at first, because an API server that restarts is back in seconds.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Between the end of a watch and the next one: something that closes every watch at once must not be hammered.
const REOPEN_WAIT: Duration = Duration::from_millis(100);

/// The server ends a watch after this long, and it is opened again. A connection that stays silent for longer than that is
/// dead, whatever the network says: this side ends it then.
const WATCH_SECONDS: u32 = 280;

type Events = BoxStream<'static, kube::Result<WatchEvent<Pod>>>;

enum State {
    /// List everything and start from its version.
    List,
    /// Open a watch from this version.
    Open {
        version: String,
    },
    Watching {
        version: String,
        events: Events,
    },
    Over,
}

struct Watch {
    api: Api<Pod>,
    selector: String,
    state: State,
    failures: u32,
    /// Before the next turn.
    pause: Option<Duration>,
    ready: VecDeque<PodChange>,
}

/// Every change of the pods that `selector` matches, beginning with a complete list.
pub fn watch(api: Api<Pod>, selector: String) -> BoxStream<'static, PodChange> {
    let watch = Watch { api, selector, state: State::List, failures: 0, pause: None, ready: VecDeque::new() };
    stream::unfold(watch, |mut watch| async move {
        loop {
            if let Some(change) = watch.ready.pop_front() {
                return Some((change, watch));
            }
            if let Some(pause) = watch.pause.take() {
                tokio::time::sleep(pause).await;
            }
            watch = watch.turn().await?;
        }
    })
    .boxed()
}

impl Watch {
    /// One round: a page, a connection, an event. `None` when the watch may not go on.
    async fn turn(mut self) -> Option<Self> {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::List => self.list().await,
            State::Open { version } => self.open(version).await,
            State::Watching { version, events } => self.next(version, events).await,
            State::Over => return None,
        };
        Some(self)
    }

    async fn list(&mut self) -> State {
        match list_pods(&self.api, &self.selector).await {
            Ok((pods, version)) => {
                self.failures = 0;
                self.ready.push_back(PodChange::Connected);
                self.ready.push_back(PodChange::Listed(pods));
                State::Open { version }
            }
            Err(error @ ClusterError::Forbidden { .. }) => {
                self.ready.push_back(PodChange::Refused(error.to_string()));
                State::Over
            }
            Err(error @ ClusterError::Unknown { .. }) => {
                self.ready.push_back(PodChange::Blind(error.to_string()));
                self.back_off();
                State::List
            }
        }
    }

    async fn open(&mut self, version: String) -> State {
        let params = WatchParams::default().labels(&self.selector).timeout(WATCH_SECONDS);
        match self.api.watch(&params, &version).await {
            Ok(events) => {
                if self.failures > 0 {
                    self.ready.push_back(PodChange::Connected);
                }
                self.failures = 0;
                State::Watching { version, events: events.boxed() }
            }
            Err(kube::Error::Api(status)) if status.code == 410 => State::List,
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                self.ready.push_back(PodChange::Refused(super::explain::one_line(&status.message)));
                State::Over
            }
            Err(error) => {
                self.ready.push_back(PodChange::Blind(super::explain::explain(&error)));
                self.back_off();
                State::Open { version }
            }
        }
    }

    async fn next(&mut self, mut version: String, mut events: Events) -> State {
        let silence = Duration::from_secs(u64::from(WATCH_SECONDS) + 20);
        let next = tokio::time::timeout(silence, events.next());
        match next.await.unwrap_or_default() {
            // The server's own end of a watch, or a broken connection: go on from the last version that was seen.
            None | Some(Err(_)) => {
                self.pause = Some(REOPEN_WAIT);
                State::Open { version }
            }
            Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => {
                remember(&mut version, &pod);
                self.ready.extend(pod_view(&pod).map(PodChange::Seen));
                State::Watching { version, events }
            }
            Some(Ok(WatchEvent::Deleted(pod))) => {
                remember(&mut version, &pod);
                self.ready.extend(pod.metadata.uid.as_deref().map(|uid| PodChange::Deleted(PodUid::new(uid))));
                State::Watching { version, events }
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                version = bookmark.metadata.resource_version;
                State::Watching { version, events }
            }
            // 410 Expired and everything else that the server says inside a watch: begin again with a list.
            Some(Ok(WatchEvent::Error(status))) => {
                if status.code != 410 {
                    self.ready.push_back(PodChange::Blind(super::explain::one_line(&status.message)));
                    self.back_off();
                }
                State::List
            }
        }
    }

    /// The next turn waits, longer each time; what is ready goes out before.
    fn back_off(&mut self) {
        self.pause = Some(FIRST_WAIT.saturating_mul(1 << self.failures.min(4)).min(LONGEST_WAIT));
        self.failures += 1;
    }
}

fn remember(version: &mut String, pod: &Pod) {
    if let Some(seen) = &pod.metadata.resource_version {
        version.clone_from(seen);
    }
}
