//! The call Snapshot: the whole store as a file in etcd's format (decision 0030).
//!
//! ```text
//!   call ──► thread: hold the state ─► lengths ─► pages ──► 32 KiB each, a few ahead ──► HTTP/2
//! ```
//!
//! The thread waits while the client does not read, and while it waits compaction frees nothing,
//! so it gives up a client that reads nothing, or too slowly.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use environment::{Clock, Instant, threads};
use etcd_api::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use futures_util::Stream;
use revisions::HeldState;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tonic::Status;
use tracing::{info, warn};

use crate::backend::{Backend, stopped};
use crate::callers::Caller;
use crate::calls::{self, Answers, Call};
use crate::methods::Method;
use crate::refusal::of_machine;
use crate::resources::SNAPSHOTS_MAX;

/// Bytes of the file in one message, as in etcd.
const BLOB_BYTES: usize = 32 << 10;
/// Messages that wait for the client.
const AHEAD_MAX: usize = 8;
/// Longest time that a client may read nothing.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Least speed of a client, over all of the file.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;

/// Opens the stream.
pub(crate) fn open(
    caller: Caller,
    call: Call,
    _: SnapshotRequest,
) -> impl Stream<Item = Result<SnapshotResponse, Status>> + use<> {
    calls::answers(Sending {
        call,
        phase: Phase::Asked(Box::new(caller)),
    })
}

struct Sending {
    call: Call,
    phase: Phase,
}

enum Phase {
    /// Nothing was done yet.
    Asked(Box<Caller>),
    UnderWay(Arc<Backend>, mpsc::Receiver<Next>),
}

/// The next message; `None` behind the last.
type Next = Result<Option<SnapshotResponse>, Status>;

impl Answers for Sending {
    type Answer = SnapshotResponse;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    async fn next(&mut self) -> Result<Option<SnapshotResponse>, Status> {
        if let Phase::Asked(caller) = &self.phase {
            caller.admit(Method::Snapshot.needs()).await?;
            let backend = Arc::clone(&caller.backend);
            let messages = begin(&backend)?;
            self.phase = Phase::UnderWay(backend, messages);
        }
        let Phase::UnderWay(backend, messages) = &mut self.phase else {
            unreachable!("it was begun just now");
        };
        let mut stopping = backend.stopping.clone();
        tokio::select! {
            next = messages.recv() => next.unwrap_or_else(|| Err(Status::data_loss(
                "inkstone: the snapshot ended before its last page; the server's log has the reason",
            ))),
            () = stopped(&mut stopping) => Err(etcd_api::Error::Stopped.to_status()),
        }
    }
}

/// Starts the thread.
fn begin(backend: &Arc<Backend>) -> Result<mpsc::Receiver<Next>, Status> {
    let permit = Arc::clone(&backend.resources.snapshots).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Status::resource_exhausted(format!(
            "inkstone: {SNAPSHOTS_MAX} snapshots are being sent already; try again when one has ended"
        ))
    })?;
    let (sender, messages) = mpsc::channel(AHEAD_MAX);
    let (runtime, backend) = (Handle::current(), Arc::clone(backend));
    let send = move || send(&runtime, &backend, &sender, permit);
    threads::spawn("snapshot", send)
        .map_err(|error| Status::unavailable(format!("inkstone: {error}")))?;
    Ok(messages)
}

type Sender = mpsc::Sender<Next>;

/// Why the thread stops early.
enum Ended {
    /// The client has left.
    Left,
    Failed(Status),
}

impl From<revisions::Error> for Ended {
    fn from(error: revisions::Error) -> Ended {
        Ended::Failed(of_machine(&error))
    }
}

fn send(runtime: &Handle, backend: &Backend, sender: &Sender, permit: OwnedSemaphorePermit) {
    let began = backend.clock.now();
    let held = HeldState::of(backend.reader());
    // The applying thread waited for that, and waits for nothing that follows.
    threads::yield_to_all_others();
    let outcome = send_file(runtime, backend, &held, sender);
    drop((held, permit));
    let took = backend.clock.now().saturating_since(began);
    match outcome {
        Ok(bytes) => info!(bytes, ?took, "sent a snapshot in etcd's format"),
        Err(Ended::Left) => info!(?took, "the client left before its snapshot was complete"),
        Err(Ended::Failed(status)) => {
            warn!(error = status.message(), ?took, "failed to send a snapshot");
            // If there is no room for it, the client sees that the messages end without the last.
            let _ = sender.try_send(Err(status));
        }
    }
}

/// Sends the file; returns its bytes.
fn send_file(
    runtime: &Handle,
    backend: &Backend,
    held: &HeldState,
    sender: &Sender,
) -> Result<u64, Ended> {
    let plan = held.plan(|| !sender.is_closed());
    if sender.is_closed() {
        return Err(Ended::Left);
    }
    let plan = plan?;
    let longest = STALL_MAX + Duration::from_secs(plan.file_bytes() / BYTES_PER_SECOND_MIN);
    let mut blobs = Blobs {
        runtime,
        sender,
        clock: &*backend.clock,
        ends: backend.clock.now() + longest,
        blob: BytesMut::new(),
        remaining_bytes: plan.pages_bytes(),
    };
    info!(
        bytes = plan.file_bytes(),
        revision = held.revision(),
        "sending a snapshot in etcd's format to a client"
    );
    held.write(&plan, &mut |piece| blobs.push(piece))?;
    blobs.give(None)?;
    Ok(plan.file_bytes())
}

/// Makes messages of bytes.
struct Blobs<'a> {
    runtime: &'a Handle,
    sender: &'a Sender,
    clock: &'a dyn Clock,
    /// When a client that reads too slowly is given up.
    ends: Instant,
    blob: BytesMut,
    /// Bytes of pages that were not sent yet.
    remaining_bytes: u64,
}

impl Blobs<'_> {
    fn push(&mut self, mut piece: &[u8]) -> Result<(), Ended> {
        while !piece.is_empty() {
            let room = BLOB_BYTES - self.blob.len();
            let (taken, rest) = piece.split_at(room.min(piece.len()));
            self.blob.extend_from_slice(taken);
            piece = rest;
            // Behind the last page, all that comes is the checksum.
            let is_last = self.blob.len() as u64 >= self.remaining_bytes;
            if self.blob.len() == BLOB_BYTES || is_last {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Ended> {
        let blob: Bytes = self.blob.split().freeze();
        self.remaining_bytes = self.remaining_bytes.saturating_sub(blob.len() as u64);
        let message = SnapshotResponse {
            header: None,
            remaining_bytes: self.remaining_bytes,
            blob,
            version: etcd_api::STORAGE_VERSION.to_owned(),
        };
        self.give(Some(message))
    }

    fn give(&self, message: Option<SnapshotResponse>) -> Result<(), Ended> {
        let given = async { timeout(STALL_MAX, self.sender.send(Ok(message))).await };
        match self.runtime.block_on(given) {
            Ok(Ok(())) if self.clock.now() > self.ends => {
                Err(Ended::Failed(Status::deadline_exceeded(format!(
                    "inkstone: the snapshot was ended because its client reads less than {} KiB/s; \
                     compaction frees nothing while a snapshot is sent",
                    BYTES_PER_SECOND_MIN >> 10
                ))))
            }
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Ended::Left),
            Err(_) => Err(Ended::Failed(Status::deadline_exceeded(format!(
                "inkstone: the snapshot was ended because its client has read nothing for \
                 {} seconds; compaction frees nothing while a snapshot is sent",
                STALL_MAX.as_secs()
            )))),
        }
    }
}
