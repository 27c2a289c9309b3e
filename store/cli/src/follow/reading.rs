//! Reads the source's watch on a task of its own, ahead of what is written, within a limit of bytes.

use std::sync::Arc;

use etcd_api::etcdserverpb::WatchResponse;
use etcd_api::inkstonepb::GivenRevision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use crate::client::revision_assembler::RevisionAssembler;

/// Bytes of revisions that wait to be written.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Most bytes of one revision: a store takes messages of 16 MiB.
const REVISION_BYTES_MAX: usize = 15 << 20;
/// Most revisions that are written at once, and about how many bytes.
const BATCH_REVISIONS_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Why a watch gives no more revisions.
#[derive(Clone, Debug)]
pub(crate) enum WatchEnd {
    /// The source has compacted what is next, up to this revision.
    Compacted(i64),
    /// A revision has more bytes than a store takes over at once.
    TooLarge {
        revision: i64,
        bytes_max: usize,
    },
    /// The source has canceled it: its reason.
    Canceled(String),
    Lost(Status),
    Closed,
}

struct Waiting {
    revision: GivenRevision,
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

/// Revisions of a watch, in order.
pub(crate) struct RevisionReader {
    waiting: mpsc::UnboundedReceiver<Waiting>,
    task: JoinHandle<WatchEnd>,
    /// A revision that did not fit into the batch before.
    next: Option<Waiting>,
}

impl RevisionReader {
    pub(crate) fn start(responses: Streaming<WatchResponse>) -> RevisionReader {
        let (sender, waiting) = mpsc::unbounded_channel();
        RevisionReader {
            waiting,
            task: tokio::spawn(read(responses, sender)),
            next: None,
        }
    }

    /// Waits for revisions, and takes those that are there, up to a batch. May be dropped without a loss.
    pub(crate) async fn batch(&mut self) -> Result<Vec<GivenRevision>, WatchEnd> {
        if self.next.is_none() {
            self.next = self.waiting.recv().await;
        }
        let Some(first) = self.next.take() else {
            let end = (&mut self.task).await;
            return Err(end.unwrap_or(WatchEnd::Closed));
        };
        let mut bytes = first.bytes;
        let mut batch = vec![first.revision];
        while batch.len() < BATCH_REVISIONS_MAX
            && let Ok(waiting) = self.waiting.try_recv()
        {
            bytes += waiting.bytes;
            if bytes > BATCH_BYTES_MAX {
                self.next = Some(waiting);
                break;
            }
            batch.push(waiting.revision);
        }
        Ok(batch)
    }
}

impl Drop for RevisionReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(
    mut responses: Streaming<WatchResponse>,
    sender: mpsc::UnboundedSender<Waiting>,
) -> WatchEnd {
    let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
    let mut assembler = RevisionAssembler::default();
    loop {
        let response = match responses.message().await {
            Ok(Some(response)) => response,
            Ok(None) => return WatchEnd::Closed,
            Err(status) => return WatchEnd::Lost(status),
        };
        if response.canceled {
            return match response.compact_revision {
                0 => WatchEnd::Canceled(response.cancel_reason),
                revision => WatchEnd::Compacted(revision),
            };
        }
        let mut complete = Vec::new();
        assembler.take(response, &mut complete);
        if let Some(revision) = too_large(&assembler, &complete) {
            let bytes_max = REVISION_BYTES_MAX;
            return WatchEnd::TooLarge {
                revision,
                bytes_max,
            };
        }
        for (revision, bytes) in complete {
            let permits = bytes.min(WAITING_BYTES_MAX) as u32;
            let permit = Arc::clone(&room).acquire_many_owned(permits).await;
            let permit = permit.expect("the semaphore is never closed");
            let waiting = Waiting {
                revision,
                bytes,
                _permit: permit,
            };
            if sender.send(waiting).is_err() {
                return WatchEnd::Closed;
            }
        }
    }
}

/// A revision, complete or not, that is too large.
fn too_large(assembler: &RevisionAssembler, complete: &[(GivenRevision, usize)]) -> Option<i64> {
    let complete = complete.iter().map(|(it, bytes)| (it.revision, *bytes));
    let mut all = complete.chain(assembler.open());
    all.find(|(_, bytes)| *bytes > REVISION_BYTES_MAX)
        .map(|(revision, _)| revision)
}
