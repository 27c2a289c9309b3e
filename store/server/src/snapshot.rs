//! The call Snapshot: the whole store as a file in etcd's format (decision 0030); and the same in compressed
//! blocks.
//!
//! ```text
//!   call ──► thread: hold the state ─► lengths ─► pages ──► 256 KiB each, a few ahead ──► HTTP/2
//!                                                  └─────────► the same, deflated ──┘
//! ```
//!
//! The thread waits while the client does not read, and while it waits compaction frees nothing,
//! so it gives up a client that reads nothing, or too slowly.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use environment::{Clock, Instant, threads};
use etcd_api::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use etcd_api::inkstonepb::{CompressedBlock, CompressedSnapshotRequest};
use flate2::{Compress, Compression, FlushCompress};
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

/// Bytes of the file in one message, or in one compressed block. etcd sends 32 KiB; each message wakes two
/// threads and the client, so fewer ones cost less. Clients take 4 MiB at least.
const BLOB_BYTES: usize = 256 << 10;
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
        phase: Phase::Asked(Box::new(caller), false),
    })
}

/// Opens a stream of compressed blocks.
pub(crate) fn open_compressed(
    caller: Caller,
    call: Call,
    _: CompressedSnapshotRequest,
) -> impl Stream<Item = Result<CompressedBlock, Status>> + use<> {
    calls::answers(SendingCompressed(Sending {
        call,
        phase: Phase::Asked(Box::new(caller), true),
    }))
}

struct Sending {
    call: Call,
    phase: Phase,
}

enum Phase {
    /// Nothing was done yet. Whether blobs are compressed.
    Asked(Box<Caller>, bool),
    UnderWay(Arc<Backend>, mpsc::Receiver<Next>),
}

/// A part of the file.
struct Part {
    /// The part itself, or deflated.
    blob: Bytes,
    /// Its bytes before they were deflated.
    bytes: usize,
    remaining_bytes: u64,
}

/// The next part; `None` behind the last.
type Next = Result<Option<Part>, Status>;

impl Sending {
    async fn next_part(&mut self) -> Next {
        if let Phase::Asked(caller, compresses) = &self.phase {
            caller.admit(Method::Snapshot.needs()).await?;
            let backend = Arc::clone(&caller.backend);
            let parts = begin(&backend, *compresses)?;
            self.phase = Phase::UnderWay(backend, parts);
        }
        let Phase::UnderWay(backend, parts) = &mut self.phase else {
            unreachable!("it was begun just now");
        };
        let mut stopping = backend.stopping.clone();
        tokio::select! {
            next = parts.recv() => next.unwrap_or_else(|| Err(Status::data_loss(
                "inkstone: the snapshot ended before its last page; the server's log has the reason",
            ))),
            () = stopped(&mut stopping) => Err(etcd_api::Error::Stopped.to_status()),
        }
    }
}

/// [`Sending`] in compressed blocks.
struct SendingCompressed(Sending);

impl Answers for SendingCompressed {
    type Answer = CompressedBlock;

    fn call(&mut self) -> &mut Call {
        &mut self.0.call
    }

    async fn next(&mut self) -> Result<Option<CompressedBlock>, Status> {
        let part = self.0.next_part().await?;
        Ok(part.map(|part| CompressedBlock {
            deflated: part.blob,
            bytes: part.bytes as u32,
            remaining_bytes: part.remaining_bytes,
            version: etcd_api::STORAGE_VERSION.to_owned(),
        }))
    }
}

impl Answers for Sending {
    type Answer = SnapshotResponse;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    async fn next(&mut self) -> Result<Option<SnapshotResponse>, Status> {
        let part = self.next_part().await?;
        Ok(part.map(|part| SnapshotResponse {
            header: None,
            remaining_bytes: part.remaining_bytes,
            blob: part.blob,
            version: etcd_api::STORAGE_VERSION.to_owned(),
        }))
    }
}

/// Starts the thread.
fn begin(backend: &Arc<Backend>, compresses: bool) -> Result<mpsc::Receiver<Next>, Status> {
    let permit = Arc::clone(&backend.resources.snapshots).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Status::resource_exhausted(format!(
            "inkstone: {SNAPSHOTS_MAX} snapshots are being sent already; try again when one has ended"
        ))
    })?;
    let (sender, messages) = mpsc::channel(AHEAD_MAX);
    let (runtime, backend) = (Handle::current(), Arc::clone(backend));
    let target = (sender, compresses);
    let send = move || send(&runtime, &backend, &target, permit);
    threads::spawn("snapshot", send)
        .map_err(|error| Status::unavailable(format!("inkstone: {error}")))?;
    Ok(messages)
}

type Sender = mpsc::Sender<Next>;

/// Where parts go, and whether they are compressed.
type Target = (Sender, bool);

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

fn send(runtime: &Handle, backend: &Backend, target: &Target, permit: OwnedSemaphorePermit) {
    let began = backend.clock.now();
    let held = HeldState::of(backend.reader());
    // The applying thread waited for that, and waits for nothing that follows.
    threads::yield_to_all_others();
    let outcome = send_file(runtime, backend, &held, target);
    drop((held, permit));
    let took = backend.clock.now().saturating_since(began);
    match outcome {
        Ok(bytes) => info!(bytes, ?took, "sent a snapshot in etcd's format"),
        Err(Ended::Left) => info!(?took, "the client left before its snapshot was complete"),
        Err(Ended::Failed(status)) => {
            warn!(error = status.message(), ?took, "failed to send a snapshot");
            // If there is no room for it, the client sees that the messages end without the last.
            let _ = target.0.try_send(Err(status));
        }
    }
}

/// Sends the file; returns its bytes.
fn send_file(
    runtime: &Handle,
    backend: &Backend,
    held: &HeldState,
    (sender, compresses): &Target,
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
        compression: compresses.then(|| Compress::new(Compression::fast(), false)),
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
    /// `None`: parts are sent as they are.
    compression: Option<Compress>,
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
        let bytes = blob.len();
        self.remaining_bytes = self.remaining_bytes.saturating_sub(bytes as u64);
        let blob = match &mut self.compression {
            Some(compression) => deflate(compression, &blob),
            None => blob,
        };
        self.give(Some(Part {
            blob,
            bytes,
            remaining_bytes: self.remaining_bytes,
        }))
    }

    fn give(&self, part: Option<Part>) -> Result<(), Ended> {
        let given = async { timeout(STALL_MAX, self.sender.send(Ok(part))).await };
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

/// One block of Deflate, which needs none before it.
fn deflate(compression: &mut Compress, blob: &[u8]) -> Bytes {
    compression.reset();
    let mut deflated = Vec::with_capacity(blob.len() / 2 + 1024);
    loop {
        let rest = &blob[compression.total_in() as usize..];
        let status = compression.compress_vec(rest, &mut deflated, FlushCompress::Finish);
        match status.expect("bytes in memory are always compressed") {
            flate2::Status::StreamEnd => return deflated.into(),
            _ => deflated.reserve(blob.len() / 2 + 1024),
        }
    }
}
