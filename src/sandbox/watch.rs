//! A watch as a stream of JSON lines. Reads the log under the lock, a piece at a time; keeps no queue of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::Failure;
use super::encode::Form;
use super::reads::WatchFrom;
use super::registry::Kind;
use super::service::Shared;
use super::storage::Change;

/// A server ends watches after half an hour to an hour.
const LONGEST: Duration = Duration::from_mins(45);
/// A server sends bookmarks about once a minute.
const BOOKMARK: Duration = Duration::from_mins(1);

struct Watch {
    shared: Arc<Shared>,
    kind: &'static Kind,
    form: Form,
    from: WatchFrom,
    versions: tokio::sync::watch::Receiver<u64>,
    ends: Instant,
    bookmark: Instant,
    over: bool,
}

/// The lines of a watch, until its time is over or its version is too old.
pub(super) fn lines(
    shared: Arc<Shared>,
    kind: &'static Kind,
    form: Form,
    from: WatchFrom,
) -> impl Stream<Item = Bytes> + Send {
    let now = Instant::now();
    let ends = now + from.timeout.map_or(LONGEST, Duration::from_secs);
    let versions = shared.versions();
    let watch = Watch { shared, kind, form, from, versions, ends, bookmark: now + BOOKMARK, over: false };
    stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece, watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        loop {
            // Marks the newest version as seen before the log is read, so that no change falls between.
            self.versions.borrow_and_update();
            let piece = self.read();
            if !piece.is_empty() {
                return Some(Bytes::from(piece));
            }
            let wake = self.ends.min(self.bookmark);
            tokio::select! {
                changed = self.versions.changed() => changed.ok()?,
                () = tokio::time::sleep_until(wake) => {
                    if Instant::now() >= self.ends {
                        return None;
                    }
                    self.bookmark = Instant::now() + BOOKMARK;
                    if self.from.bookmarks {
                        return Some(Bytes::from(self.bookmark_line(false)));
                    }
                }
            }
        }
    }

    /// Every line that is ready now.
    fn read(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        for object in std::mem::take(&mut self.from.first) {
            self.line(&mut piece, "ADDED", &object);
        }
        if std::mem::take(&mut self.from.initial_end) {
            piece.extend(self.bookmark_line(true));
        }
        let changes = self.shared.world(|world| {
            let changes = world.store.since(self.kind.id, self.from.version);
            (changes, world.store.version())
        });
        match changes {
            (Ok(changes), newest) => {
                for change in &changes {
                    self.change(&mut piece, change);
                }
                self.from.version = newest;
            }
            (Err(failure), _) => {
                self.over = true;
                Self::error(&mut piece, &failure);
            }
        }
        piece
    }

    fn change(&self, piece: &mut Vec<u8>, change: &Change) {
        let filter = &self.from.filter;
        let now = !change.deleted && filter.passes(&change.namespace, &change.object);
        let before = change.before.as_ref().is_some_and(|b| filter.passes(&change.namespace, b));
        match (before, now) {
            (false, true) => self.line(piece, "ADDED", &change.object),
            (true, true) => self.line(piece, "MODIFIED", &change.object),
            (true, false) => self.line(piece, "DELETED", &change.object),
            (false, false) => {}
        }
    }

    fn line(&self, piece: &mut Vec<u8>, kind: &str, object: &Value) {
        piece.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        let now = self.shared.world(|world| world.clock.wall().as_second());
        self.form.write_one(self.kind, object, now, piece);
        piece.extend_from_slice(b"}\n");
    }

    fn error(piece: &mut Vec<u8>, failure: &Failure) {
        let line = json!({"type": "ERROR", "object": failure.body()});
        piece.extend_from_slice(format!("{line}\n").as_bytes());
    }

    fn bookmark_line(&self, initial: bool) -> Vec<u8> {
        let mut metadata = json!({"resourceVersion": self.from.version.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata});
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into_bytes()
    }
}
