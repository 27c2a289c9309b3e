//! A crash at every single I/O of a node that carries out puts, transactions, deletions,
//! leases, compactions, checkpoints and reclaim.
//!
//! Commands are evaluated in the order in which they are proposed, so a node's contents
//! after a number of commands do not depend on the batches. A first run records the contents
//! after each command. A node that recovers must have the contents after one of these
//! commands: not before the last one that was acknowledged, and not after the last one that
//! was proposed.

use crate::workload;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cluster::{Error, Node, NodeOptions, Pending};
use environment::simulated::{Fault, Restart, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, LeaseTimeToLiveRequest, RangeRequest, WatchCreateRequest,
};
use revisions::{Command, Error as Refusal, Reader, Response, WatchStream};
use workload::{TTL_SECONDS, put};

/// Number of commands that are proposed together, so that they share a batch or follow each
/// other closely.
const BURST: usize = 4;

fn options(disk: &SimulatedDisk, clock: &SimulatedClock) -> NodeOptions {
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(disk.clone());
    options.clock = Arc::new(clock.clone());
    let engine = &mut options.replica.machine.engine;
    engine.log.segment_bytes = 64 << 10;
    engine.batch_bytes_max = 32 << 10;
    engine.log.spare_segments = 1;
    engine.log.reserve_bytes = 0;
    // Checkpoints are so frequent that crashes hit some.
    engine.checkpoint_bytes = 20 << 10;
    options.replica.heartbeat_interval = Duration::from_millis(1);
    options
}

fn start(disk: &SimulatedDisk) -> Result<Node, Error> {
    Node::start(options(disk, &SimulatedClock::stepped()))
}

fn run(node: &Node, command: Command) -> Result<Response, Error> {
    node.propose(command).and_then(Pending::wait)
}

/// Makes a checkpoint, a new segment and a reclaim, besides those that the node makes itself.
fn tidy(node: &Node) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(node.defragment())
}

fn is_tidied_after(commands: usize) -> bool {
    commands.is_multiple_of(20 * BURST)
}

/// Everything that a client can observe.
#[derive(Debug, PartialEq)]
struct Contents {
    revision: i64,
    compacted: i64,
    hash: u32,
    /// Keys, encoded with their revisions, versions and leases.
    keys: Vec<Vec<u8>>,
    /// Id, seconds granted, keys.
    leases: Vec<(i64, i64, Vec<Vec<u8>>)>,
    /// Events of a watch from the beginning of the history: revision, kind, key.
    events: Vec<(i64, i32, Vec<u8>)>,
}

impl Contents {
    fn of(reader: &Reader) -> Contents {
        let (revision, compacted) = (reader.revision(), reader.compacted());
        let first = (compacted + 1).max(2);
        let events = events_from(reader, first);
        let mut seen: Vec<_> = events.iter().map(|event| event.0).collect();
        seen.dedup();
        let expected: Vec<_> = (first..=revision).collect();
        assert_eq!(seen, expected, "a watch omits no revision");
        Contents {
            revision,
            compacted,
            hash: reader.hash_kv(0).unwrap().hash,
            keys: keys(reader),
            leases: leases(reader),
            events,
        }
    }
}

fn keys(reader: &Reader) -> Vec<Vec<u8>> {
    let all = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        ..RangeRequest::default()
    };
    let found = reader.range(&all).unwrap().kvs;
    found.into_iter().map(|kv| kv.0.to_vec()).collect()
}

fn leases(reader: &Reader) -> Vec<(i64, i64, Vec<Vec<u8>>)> {
    let mut ids: Vec<_> = reader
        .lease_leases()
        .leases
        .iter()
        .map(|it| it.id)
        .collect();
    ids.sort_unstable();
    let mut leases = Vec::new();
    for id in ids {
        let request = LeaseTimeToLiveRequest { id, keys: true };
        let lease = reader.lease_time_to_live(&request).unwrap();
        let keys = lease.keys.iter().map(|key| key.to_vec()).collect();
        leases.push((id, lease.granted_ttl, keys));
    }
    leases
}

fn events_from(reader: &Reader, first: i64) -> Vec<(i64, i32, Vec<u8>)> {
    let stream = reader.watch_hub().subscribe();
    stream.create(WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        start_revision: first,
        ..WatchCreateRequest::default()
    });
    let mut events = Vec::new();
    while let Some(response) = at_once(&stream) {
        assert!(!response.canceled, "{}", response.cancel_reason);
        for event in response.events {
            let kv = event.kv.unwrap();
            events.push((kv.mod_revision(), event.r#type, kv.key().to_vec()));
        }
    }
    events
}

/// A watch that catches up pauses a few times; one that pauses more often waits for a write.
const PAUSES_MAX: usize = 100;

/// The next response; none if the watch waits for a later write.
fn at_once(stream: &WatchStream) -> Option<etcd_api::etcdserverpb::WatchResponse> {
    let mut context = Context::from_waker(Waker::noop());
    let mut next = pin!(stream.next());
    for _ in 0..PAUSES_MAX {
        if let Poll::Ready(response) = next.as_mut().poll(&mut context) {
            return response;
        }
    }
    None
}

/// The commands, and a node's contents after each number of them.
struct Story {
    commands: Vec<Command>,
    after: Vec<Contents>,
    ios: u64,
}

impl Story {
    fn tell() -> Story {
        let disk = SimulatedDisk::new(1);
        let node = start(&disk).unwrap();
        let mut story = Story {
            commands: Vec::new(),
            after: vec![Contents::of(node.reader())],
            ios: 0,
        };
        for step in 0..workload::STEPS {
            let command = workload::command(step, node.reader().revision());
            story.commands.push(command.clone());
            run(&node, command).unwrap();
            story.after.push(Contents::of(node.reader()));
            if is_tidied_after(story.commands.len()) {
                tidy(&node).unwrap();
            }
        }
        node.stop();
        story.ios = disk.io_count();
        story
    }

    /// Proposes the commands until the machine crashes. Returns how many commands were
    /// acknowledged and how many were proposed.
    fn live(&self, disk: &SimulatedDisk) -> (usize, usize) {
        let Ok(node) = start(disk) else {
            return (0, 0);
        };
        let (mut acknowledged, mut proposed) = (0, 0);
        for burst in self.commands.chunks(BURST) {
            let propose = |command: &Command| node.propose(command.clone());
            let pending: Vec<_> = burst.iter().map(propose).collect();
            proposed += burst.len();
            for answer in pending {
                match answer.and_then(Pending::wait) {
                    Ok(_) => acknowledged += 1,
                    Err(error) => {
                        let of_the_disk = !matches!(error, Error::Refused(Refusal::Etcd(_)));
                        assert!(of_the_disk && disk.has_crashed(), "{error}");
                        return (acknowledged, proposed);
                    }
                }
            }
            if is_tidied_after(proposed) && tidy(&node).is_err() {
                break;
            }
        }
        (acknowledged, proposed)
    }

    /// Whether the contents are among those that the node may have.
    fn allows(&self, found: &Contents, (acknowledged, proposed): (usize, usize)) -> bool {
        self.after[acknowledged..=proposed].contains(found)
    }

    fn judge(&self, disk: &SimulatedDisk, lived: (usize, usize), what: &str) {
        let clock = SimulatedClock::stepped();
        let node = Node::start(options(disk, &clock));
        let node = node.unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.trace()));
        let found = Contents::of(node.reader());
        assert!(
            self.allows(&found, lived),
            "{what}: after {lived:?} commands, acknowledged and proposed, these contents are not \
             allowed: {found:?}"
        );
        goes_on(&node, &clock, found);
    }
}

/// Checks that the node takes writes, and that leases expire with their keys and no others.
fn goes_on(node: &Node, clock: &SimulatedClock, found: Contents) {
    clock.advance(Duration::from_secs(2 * TTL_SECONDS as u64));
    let held: usize = found.leases.iter().map(|(_, _, keys)| keys.len()).sum();
    while !node.reader().lease_leases().leases.is_empty() {
        let nothing = DeleteRangeRequest {
            key: "nothing".into(),
            ..DeleteRangeRequest::default()
        };
        run(node, Command::DeleteRange(nothing)).unwrap();
    }
    run(node, put("after", 1, 0)).unwrap();
    let now = Contents::of(node.reader());
    assert_eq!(now.keys.len(), found.keys.len() - held + 1);
    let ended = found.leases.iter().filter(|lease| !lease.2.is_empty());
    assert_eq!(now.revision, found.revision + ended.count() as i64 + 1);
}

#[test]
fn a_crash_at_any_io_of_a_node_loses_no_acknowledged_command() {
    let story = Story::tell();
    assert!(story.ios > 100, "only {} I/Os", story.ios);
    for io in 0..story.ios {
        let disk = SimulatedDisk::new(io);
        disk.crash_at(io);
        let lived = story.live(&disk);
        disk.crash();
        for restart in [
            Restart::power_loss(),
            Restart::power_loss_without_journal(),
            Restart::nothing_kept(),
            Restart::ProcessCrash,
        ] {
            let what = format!("crash at I/O {io}, {restart:?}");
            story.judge(&disk.restart(restart), lived, &what);
        }
    }
}

/// The checks detect a device that ignores a flush; otherwise the test above proves nothing.
#[test]
fn canary_an_ignored_flush_is_detected() {
    let story = Story::tell();
    let noticed = (0..story.ios).any(|io| {
        let disk = SimulatedDisk::new(io);
        disk.inject(io, Fault::IgnoredFlush);
        disk.crash_at(io + 20);
        let lived = story.live(&disk);
        disk.crash();
        match start(&disk.restart(Restart::nothing_kept())) {
            Err(_) => true,
            Ok(node) => !story.allows(&Contents::of(node.reader()), lived),
        }
    });
    assert!(noticed, "no ignored flush was noticed");
}
