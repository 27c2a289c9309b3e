//! One member: a replica on a disk of its own, with a clock of its own.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::{
    Mutant, NodeOptions, Output, PeerMessage, ReadMode, Replica, ReplicaOptions, Sender, Step,
};
use engine::{Durability, Sequence, Worker};
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use environment::{Clock, Instant};
use revisions::{Command, Reader, Response};
use tokio::sync::oneshot;

use crate::{Faults, Keeping};

pub(crate) const DIRECTORY: &str = "/member";
/// Most commands that wait at one member until its replica accepts them.
const BACKLOG_MAX: usize = 64;
/// Most steps of a snapshot's sender in one turn.
const SENDER_STEPS_MAX: usize = 4;
/// One turn of the device in this many flushes the page cache.
const FLUSHES_ONE_IN: u64 = 12;
/// Greatest time that a stopping member waits for others, as in the node.
const FAREWELL: Duration = Duration::from_millis(500);

type AnswerSender = oneshot::Sender<Result<Response, cluster::Error>>;
/// Newest notice of the flush thread: the last durable sequence, or an error.
type DurableNotice = Arc<Mutex<Option<Result<Sequence, String>>>>;

/// A running replica, with the state that a restart loses.
struct Life {
    replica: Replica,
    /// Notice that the replica has not taken yet.
    notice: DurableNotice,
    backlog: VecDeque<(Command, AnswerSender)>,
    /// Senders of snapshots to other members.
    senders: Vec<Sender>,
    /// Deadline of an orderly stop, if one has begun.
    stops_by: Option<Duration>,
}

/// A member, running or not.
pub(crate) struct Member {
    pub id: u64,
    all: Vec<revisions::Member>,
    pub disk: SimulatedDisk,
    clock: SimulatedClock,
    /// Milliseconds that its clock advances in a second.
    rate_permille: u32,
    life: Option<Life>,
    /// The member does not run before this time.
    pub paused_until: Duration,
    /// The disk flushes nothing before this time.
    pub slow_until: Duration,
    /// End of a shortage of space or descriptors, if there is one.
    pub short_until: Option<Duration>,
    /// Time of the next start, if the member is down.
    pub starts_at: Option<Duration>,
    /// Number of starts, and of the present incarnation.
    pub lives: u64,
    /// The member knows that it was removed from the cluster; it never starts again.
    pub has_gone: bool,
    faults: Faults,
    /// Reads under a lease.
    pub lease_reads: u64,
    /// Starts of its machine.
    boots: u64,
    /// The power has failed or is about to, and the member has not started since.
    pub power_fails: bool,
    /// The power has failed since the member last had everything that it acknowledged.
    pub lacks: bool,
    /// Revision up to which the device has everything, in runs with page caches.
    pub flushed_revision: i64,
    /// Starts at which the member may have lacked entries that it had acknowledged.
    pub returns: u64,
    /// Bits of its messages are flipped: clients send it no requests, and it may fail.
    pub has_bad_memory: bool,
}

impl Member {
    pub fn new(id: u64, all: &[revisions::Member], random: &mut Random, faults: Faults) -> Member {
        let seed = random.next_u64();
        let drift = random.below(2 * faults.drift_permille + 1);
        Member {
            id,
            all: all.to_vec(),
            disk: SimulatedDisk::new(seed),
            clock: SimulatedClock::stepped(),
            rate_permille: (1000 + drift - faults.drift_permille) as u32,
            life: None,
            paused_until: Duration::ZERO,
            slow_until: Duration::ZERO,
            short_until: None,
            starts_at: Some(Duration::ZERO),
            lives: 0,
            has_gone: false,
            faults,
            lease_reads: 0,
            boots: 0,
            power_fails: false,
            lacks: false,
            flushed_revision: 0,
            returns: 0,
            has_bad_memory: false,
        }
    }

    fn options(&self) -> ReplicaOptions {
        let mut machine = NodeOptions::new(DIRECTORY).replica.machine;
        machine.member_id = self.id;
        machine.initial_members = self.all.clone();
        machine.lease_id_seed = Some(self.id);
        machine.lease_ttl_min_seconds = 1;
        let engine = &mut machine.engine;
        engine.log.segment_bytes = 64 << 10;
        engine.batch_bytes_max = 32 << 10;
        engine.log.spare_segments = 1;
        engine.log.reserve_bytes = 0;
        engine.checkpoint_bytes = 96 << 10;
        engine.background_bytes_per_second = u64::MAX;
        engine.log.salt = Some(self.id);
        engine.log.worker = Worker::Caller;
        if self.is_cached() {
            engine.log.durability = Durability::Os;
        }
        engine.clock = Arc::new(self.clock.clone());
        ReplicaOptions {
            machine,
            heartbeat_interval: Duration::from_millis(20),
            election_timeout: Duration::from_millis(200),
            strict_reconfiguration: true,
            // Small, so that snapshots are sent often.
            entries_kept_max: 20,
            bytes_kept_max: 8 << 10,
            snapshot_piece_bytes: 700,
            read_mode: match self.faults.lease_reads {
                true => ReadMode::Lease,
                false => ReadMode::ReadIndex,
            },
            command_limits: cluster::CommandLimits::default(),
            boot: Some(self.boots.to_string()),
            accept_lost_tail: false,
            seed: self.id.wrapping_mul(1000) + self.lives,
            compares_states: true,
            mutant: self.faults.mutant.filter(|it| self.breaks(*it)),
        }
    }

    /// A rule that all members break in the same way shows in no comparison of their states.
    fn breaks(&self, rule: Mutant) -> bool {
        rule != Mutant::AppliesAnotherValue || self.id == 1
    }

    /// Starts the member. The start may fail if the disk crashes during it, if a shortage
    /// prevents it, or if the member was removed; panics at any other error.
    pub fn start(&mut self) {
        self.lives += 1;
        self.starts_at = None;
        let opened = Replica::open(
            Arc::new(self.disk.clone()),
            Path::new(DIRECTORY),
            self.options(),
            Arc::new(self.clock.clone()),
        );
        match opened {
            Ok(replica) => {
                self.returns += u64::from(replica.is_rejoining());
                self.power_fails = self.disk.has_crashed();
                self.life = Some(Life::new(replica));
            }
            Err(cluster::Error::Removed { .. }) => self.has_gone = true,
            Err(_) if self.short_until.is_some() && !self.disk.has_crashed() => {
                self.starts_at = self.short_until;
            }
            Err(error) => assert!(
                self.disk.has_crashed() || self.has_bad_memory,
                "member {} does not start: {error}\n{}",
                self.id,
                self.disk.trace()
            ),
        }
    }

    fn is_cached(&self) -> bool {
        self.faults.keeping != Keeping::Flushed
    }

    /// Cuts the power at once.
    pub fn black_out(&mut self) {
        (self.power_fails, self.lacks) = (true, true);
        self.disk.crash();
    }

    /// Clears `lacks` once the member runs and has everything that it has acknowledged.
    pub fn look_for_lack(&mut self) {
        let whole = |replica: &Replica| !replica.is_rejoining();
        if !self.power_fails && self.replica().is_some_and(whole) {
            self.lacks = false;
        }
    }

    /// Cuts the power, at once or at one of the next I/Os.
    pub fn crash(&mut self, random: &mut Random) {
        (self.power_fails, self.lacks) = (true, true);
        self.kill(random);
    }

    /// Kills the process; the machine keeps running, with its page cache.
    pub fn kill(&mut self, random: &mut Random) {
        if random.chance(1, 2) {
            self.disk.crash();
        } else {
            self.disk.crash_at(self.disk.io_count() + random.below(6));
        }
    }

    /// Takes down a member with a crashed disk: its memory is lost, and chance decides which
    /// unflushed writes the disk keeps. Returns whether that happened.
    pub fn bury(&mut self, now: Duration, random: &mut Random) -> bool {
        if !self.disk.has_crashed() || self.has_gone {
            return false;
        }
        self.life = None;
        let restarts = [
            Restart::power_loss(),
            Restart::nothing_kept(),
            Restart::everything_kept(),
            Restart::ProcessCrash,
        ];
        let restart = match (self.is_cached(), self.power_fails) {
            (false, _) => *random.pick(&restarts),
            (true, true) => *random.pick(&restarts[..3]),
            (true, false) => Restart::ProcessCrash,
        };
        self.boots += u64::from(self.power_fails);
        self.disk = self.disk.restart(restart);
        let away = random.below(self.faults.restart_milliseconds_max);
        self.starts_at = Some(now + Duration::from_millis(away));
        true
    }

    /// Begins an orderly stop, as an operator's.
    pub fn stop(&mut self, now: Duration) {
        if let Some(life) = &mut self.life {
            life.stops_by.get_or_insert(now + FAREWELL);
        }
    }

    /// Proceeds with an orderly stop: hands over the lead and finishes commands until the
    /// deadline. Returns whether the member has stopped.
    pub fn has_left(&mut self, now: Duration, random: &mut Random) -> bool {
        let Some(life) = &mut self.life else {
            return false;
        };
        let Some(deadline) = life.stops_by.filter(|_| !self.disk.has_crashed()) else {
            return false;
        };
        let replica = &mut life.replica;
        let settled = life.backlog.is_empty() && replica.is_idle();
        let led = replica.leader() == self.id || replica.holds_leadership();
        if (led || !settled) && now < deadline {
            if life.backlog.is_empty() {
                replica.hand_over();
            }
            return false;
        }
        replica.release_never_swept();
        replica.fail(cluster::Error::Stopped);
        hand_out(replica.take_output());
        // Errors mean that the disk has crashed, which is checked next, or has no room.
        let machine = replica.machine_mut();
        let _ = machine.checkpoint_for_opening();
        let _ = machine.close();
        if self.disk.has_crashed() {
            return false;
        }
        self.life = None;
        self.disk = self.disk.restart(Restart::ProcessCrash);
        self.starts_at = Some(now + Duration::from_millis(random.below(500)));
        true
    }

    pub fn is_up(&self) -> bool {
        self.life.is_some()
    }

    /// Whether the member does not know of a removal and must agree with the others at the end of a run.
    pub fn is_sound(&self) -> bool {
        !self.has_gone && !self.has_bad_memory
    }

    /// The reader; `None` while the member is down.
    pub fn reader(&self) -> Option<&Reader> {
        self.replica().map(Replica::reader)
    }

    /// The replica; `None` while the member is down.
    pub fn replica(&self) -> Option<&Replica> {
        let life = self.life.as_ref().filter(|_| !self.disk.has_crashed());
        life.map(|life| &life.replica)
    }

    /// Advances the member's clock, at its own rate.
    pub fn advance(&self, length: Duration) {
        self.clock.advance(length * self.rate_permille / 1000);
    }

    /// The replica, even while its disk has crashed.
    pub fn replica_mut(&mut self) -> Option<&mut Replica> {
        self.life.as_mut().map(|life| &mut life.replica)
    }

    /// Submits a client's command. Returns false if the member is down, stopping or full.
    pub fn ask(&mut self, command: Command, answer: AnswerSender) -> bool {
        match &mut self.life {
            Some(life) if life.backlog.len() < BACKLOG_MAX && life.stops_by.is_none() => {
                life.backlog.push_back((command, answer));
                true
            }
            _ => false,
        }
    }

    /// Confirms a client's read, as a node does. Under its lease the member confirms at once,
    /// even while it is paused, as the node's readers do not need the replica's thread.
    pub fn read(&mut self, answer: oneshot::Sender<Result<(), cluster::Error>>) -> bool {
        match &mut self.life {
            Some(life) if life.replica.read_lease().holds() => {
                self.lease_reads += 1;
                answer.send(Ok(())).is_ok()
            }
            Some(life) => {
                life.replica.read(answer);
                true
            }
            None => false,
        }
    }

    /// One turn of the device: the engine's background work, and now and then a flush of the
    /// page cache.
    pub fn flush(&mut self, random: &mut Random) {
        let Some(life) = &self.life else {
            return;
        };
        let reader = life.replica.reader();
        reader.engine().work();
        if self.is_cached()
            && random.chance(1, FLUSHES_ONE_IN)
            && reader.engine().flush().is_ok()
            && !self.disk.has_crashed()
        {
            self.flushed_revision = reader.revision();
        }
    }

    /// One turn of the replica. Returns its messages to other members.
    pub fn step(&mut self) -> Vec<(u64, PeerMessage)> {
        let Some(life) = &mut self.life else {
            return Vec::new();
        };
        let notice = life
            .notice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(notice) = notice {
            life.replica.persisted(notice);
        }
        life.replica.tick();
        while let Some((command, _)) = life.backlog.front()
            && life.replica.takes(command)
        {
            let (command, answer) = life.backlog.pop_front().expect("just seen");
            life.replica.propose(&command, answer);
        }
        life.replica.run();
        // An error means that the disk has crashed, which is checked elsewhere.
        let _ = life.replica.upkeep();
        let mut output = life.replica.take_output();
        life.senders.append(&mut output.snapshots);
        let mut messages = hand_out(output);
        life.send_snapshots(self.clock.now(), &mut messages);
        self.look_at_failure();
        messages
    }

    /// Handles a failed replica. Panics unless the cause is a crashed disk, a removal, a stop
    /// or bad memory.
    fn look_at_failure(&mut self) {
        let failure = self.life.as_ref().and_then(|life| life.replica.failure());
        match failure {
            Some(cluster::Error::Removed { .. }) => {
                self.has_gone = true;
                self.life = None;
            }
            Some(_) if self.has_bad_memory => self.life = None,
            Some(failure) => assert!(
                self.disk.has_crashed() || matches!(failure, cluster::Error::Stopped),
                "member {:x} has failed: {failure}",
                self.id
            ),
            None => {}
        }
    }
}

/// Sends the answers to the clients; returns the messages to other members.
fn hand_out(output: Output) -> Vec<(u64, PeerMessage)> {
    output.replies.send();
    output.messages
}

impl Life {
    /// One turn of the senders of snapshots.
    fn send_snapshots(&mut self, now: Instant, messages: &mut Vec<(u64, PeerMessage)>) {
        self.senders.retain_mut(|sender| {
            for _ in 0..SENDER_STEPS_MAX {
                match sender.poll(now) {
                    Step::Send(message) => messages.push((sender.to(), message)),
                    Step::Wait(_) => return true,
                    Step::Over => return false,
                }
            }
            true
        });
    }

    fn new(replica: Replica) -> Life {
        let notice = DurableNotice::default();
        let newest = Arc::clone(&notice);
        let engine = replica.reader().engine();
        engine.on_durable(Box::new(move |outcome| {
            let outcome = outcome.map_err(|error| error.to_string());
            *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }));
        Life {
            replica,
            notice,
            backlog: VecDeque::new(),
            senders: Vec::new(),
            stops_by: None,
        }
    }
}
