//! One member: a replica on a disk of its own, with a clock of its own.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::{
    Answer, Asker, LeaseAsker, NodeOptions, Output, PeerMessage, ReadAsker, ReadMode, Replica,
    ReplicaOptions, Sender, Step,
};
use engine::{Durability, Sequence, Worker};
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use environment::{Clock, Instant};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Reader, Response};
use tokio::sync::oneshot;

use crate::{Faults, Keeping};

pub(crate) const DIRECTORY: &str = "/member";
/// Commands that wait for a leader at one member.
const BACKLOG_MAX: usize = 64;
/// Steps that a snapshot's sender may do in one turn.
const SENDER_STEPS_MAX: usize = 4;
/// Of so many turns of the device, one flushes what is only in the page cache.
const FLUSHES_ONE_IN: u64 = 12;
/// As in the node: for so long a member that stops waits for others.
const FAREWELL: Duration = Duration::from_millis(500);

type AnswerSender = oneshot::Sender<Result<Response, cluster::Error>>;
type Word = Arc<Mutex<Option<Result<Sequence, String>>>>;

/// A running replica and what belongs to its life.
struct Life {
    replica: Replica,
    /// The flush thread's last word.
    word: Word,
    backlog: VecDeque<(Command, AnswerSender)>,
    /// Snapshots on their way to others.
    senders: Vec<Sender>,
    /// It was told to stop, and takes no longer than until then.
    stops_by: Option<Duration>,
}

/// A member, running or not.
pub(crate) struct Member {
    pub id: u64,
    all: Vec<revisions::Member>,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    /// What its clock shows of a second, in milliseconds.
    rate_permille: u32,
    life: Option<Life>,
    /// Until then it stands still.
    pub paused_until: Duration,
    /// Until then nothing is flushed.
    pub slow_until: Duration,
    /// Until then it has too little of something.
    pub short_until: Option<Duration>,
    /// When it starts again after a loss of power.
    pub starts_at: Option<Duration>,
    /// How often it has started.
    pub lives: u64,
    /// It knows that it was removed from the cluster, and never starts again.
    pub has_gone: bool,
    faults: Faults,
    /// Reads that nobody was asked for.
    pub lease_reads: u64,
    /// Starts of its kernel.
    boots: u64,
    /// Its power has failed, or is about to, and it has not started since.
    pub power_fails: bool,
    /// Its power has failed, and it has not come back whole since.
    pub lacks: bool,
    /// Up to here what it has applied is on its device, where that is not always so.
    pub flushed_revision: i64,
    /// Lives that began with less than was acknowledged, for all anyone knew.
    pub returns: u64,
    /// Bits of what it says are flipped: clients do not ask it, and it may end.
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
        let mut machine = NodeOptions::new(DIRECTORY).machine;
        machine.member_id = self.id;
        machine.initial_members = self.all.clone();
        machine.lease_id_seed = Some(self.id);
        machine.lease_ttl_min_seconds = 1;
        let engine = &mut machine.engine;
        engine.segment_bytes = 64 << 10;
        engine.batch_bytes_max = 32 << 10;
        engine.spare_segments = 1;
        engine.reserve_bytes = 0;
        engine.checkpoint_bytes = 96 << 10;
        engine.background_bytes_per_second = u64::MAX;
        engine.log_salt = Some(self.id);
        engine.worker = Worker::Caller;
        if self.is_cached() {
            engine.durability = Durability::Os;
        }
        engine.clock = Arc::new(self.clock.clone());
        ReplicaOptions {
            machine,
            heartbeat_interval: Duration::from_millis(20),
            election_timeout: Duration::from_millis(200),
            strict_reconfiguration: true,
            // Few, so that snapshots are sent often.
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
            mutant: self.faults.mutant,
        }
    }

    /// Starts, unless the disk dies in the middle of that.
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
                self.returns += u64::from(replica.is_returning());
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

    /// The power fails now.
    pub fn black_out(&mut self) {
        (self.power_fails, self.lacks) = (true, true);
        self.disk.crash();
    }

    /// Whether it may lack what it has acknowledged.
    pub fn look_for_lack(&mut self) {
        let whole = |replica: &Replica| !replica.is_returning();
        if !self.power_fails && self.replica().is_some_and(whole) {
            self.lacks = false;
        }
    }

    /// The power fails: now, or at one of the next I/Os.
    pub fn crash(&mut self, random: &mut Random) {
        (self.power_fails, self.lacks) = (true, true);
        self.end(random);
    }

    /// The process is killed; the machine goes on.
    pub fn kill(&mut self, random: &mut Random) {
        self.end(random);
    }

    fn end(&mut self, random: &mut Random) {
        if random.chance(1, 2) {
            self.disk.crash();
        } else {
            self.disk.crash_at(self.disk.io_count() + random.below(6));
        }
    }

    /// Whether the power has failed since; then everything but the disk is
    /// gone, and of that whatever chance leaves.
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

    /// Shall finish what is under way, and stop.
    pub fn stop(&mut self, now: Duration) {
        if let Some(life) = &mut self.life {
            life.stops_by.get_or_insert(now + FAREWELL);
        }
    }

    /// Whether it was told to stop, and has stopped.
    pub fn has_left(&mut self, now: Duration, random: &mut Random) -> bool {
        let Some(life) = &mut self.life else {
            return false;
        };
        let Some(deadline) = life.stops_by.filter(|_| !self.disk.has_crashed()) else {
            return false;
        };
        let replica = &mut life.replica;
        let settled = life.backlog.is_empty() && replica.is_idle();
        let led = replica.leader() == self.id || replica.holds_the_lead();
        if (led || !settled) && now < deadline {
            if life.backlog.is_empty() {
                replica.hand_over();
            }
            return false;
        }
        replica.release_never_swept();
        replica.fail(cluster::Error::Stopped);
        hand_out(replica.take_output());
        // What fails here has failed with the disk, which is looked at.
        let _ = replica.machine().close();
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

    /// Nobody has removed it, as far as it knows.
    pub fn is_present(&self) -> bool {
        !self.has_gone
    }

    /// Belongs to the cluster, and comes to the same end as the others.
    pub fn is_sound(&self) -> bool {
        self.is_present() && !self.has_bad_memory
    }

    /// Of a member that has power.
    pub fn reader(&self) -> Option<&Reader> {
        self.replica().map(Replica::reader)
    }

    /// Of a member that has power.
    pub fn replica(&self) -> Option<&Replica> {
        let life = self.life.as_ref().filter(|_| !self.disk.has_crashed());
        life.map(|life| &life.replica)
    }

    /// Time passes here.
    pub fn advance(&self, length: Duration) {
        self.clock.advance(length * self.rate_permille / 1000);
    }

    pub fn receive(&mut self, from: u64, message: PeerMessage) {
        if let Some(life) = &mut self.life {
            life.replica.receive(from, message);
        }
    }

    /// Another member refuses this one, which was removed.
    pub fn told_of_removal(&mut self) {
        if let Some(life) = &mut self.life {
            life.replica.told_of_removal();
        }
    }

    /// A client asks; false when nobody is here.
    pub fn ask(&mut self, command: Command, answer: AnswerSender) -> bool {
        match &mut self.life {
            Some(life) if life.backlog.len() < BACKLOG_MAX && life.stops_by.is_none() => {
                life.backlog.push_back((command, answer));
                true
            }
            _ => false,
        }
    }

    /// A client wants to read, as at a node: under the lease it asks nobody, and
    /// that even while the replica's thread stands still.
    pub fn read(&mut self, answer: oneshot::Sender<Result<(), cluster::Error>>) -> bool {
        match &mut self.life {
            Some(life) if life.replica.read_lease().holds() => {
                self.lease_reads += 1;
                answer.send(Ok(())).is_ok()
            }
            Some(life) => {
                life.replica.read(ReadAsker::Local(answer));
                true
            }
            None => false,
        }
    }

    /// A client asks about a lease.
    pub fn ask_lease(
        &mut self,
        question: LeaseQuestion,
        answer: oneshot::Sender<Result<LeaseAnswer, cluster::Error>>,
    ) -> bool {
        match &mut self.life {
            Some(life) => {
                life.replica.ask_lease(question, LeaseAsker::Local(answer));
                true
            }
            None => false,
        }
    }

    /// Is asked to hand the lead over, if it has it.
    pub fn move_lead(&mut self, to: u64, answer: oneshot::Sender<Result<(), cluster::Error>>) {
        if let Some(life) = &mut self.life {
            life.replica.move_lead(to, answer);
        }
    }

    /// The device has its turn.
    pub fn flush(&mut self, random: &mut Random) {
        let Some(life) = &self.life else {
            return;
        };
        let reader = life.replica.reader();
        reader.engine().work();
        if self.is_cached()
            && random.chance(1, FLUSHES_ONE_IN)
            && reader.engine().settle().is_ok()
            && !self.disk.has_crashed()
        {
            self.flushed_revision = reader.revision();
        }
    }

    /// The replica has its turn. Returns what it has to say to others.
    pub fn step(&mut self) -> Vec<(u64, PeerMessage)> {
        let Some(life) = &mut self.life else {
            return Vec::new();
        };
        let word = life
            .word
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(word) = word {
            life.replica.persisted(word);
        }
        life.replica.tick();
        while let Some((command, _)) = life.backlog.front()
            && life.replica.takes(command)
        {
            let (command, answer) = life.backlog.pop_front().expect("just seen");
            life.replica.propose(&command, Asker::Local(answer));
        }
        life.replica.run();
        // What fails here has failed with the disk, which is looked at.
        let _ = life.replica.upkeep();
        let mut output = life.replica.take_output();
        life.senders.append(&mut output.snapshots);
        let mut messages = hand_out(output);
        life.send_snapshots(self.clock.now(), &mut messages);
        self.look_at_failure();
        messages
    }

    /// A member fails because its disk does, or because it was removed, or stops.
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

    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// The story of the disk, for people.
    pub fn story(&self) -> String {
        self.disk.trace().to_string()
    }
}

/// Gives the answers; what is left is for other members.
fn hand_out(output: Output) -> Vec<(u64, PeerMessage)> {
    output.answers.into_iter().for_each(Answer::give);
    for (asker, outcome) in output.reads {
        if let ReadAsker::Local(to) = asker {
            let _ = to.send(outcome);
        }
    }
    for (to, outcome) in output.leases {
        let _ = to.send(outcome);
    }
    for (to, outcome) in output.moves {
        let _ = to.send(outcome);
    }
    output.messages
}

impl Life {
    /// The senders have their turn.
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
        let word = Word::default();
        let told = Arc::clone(&word);
        let engine = replica.reader().engine();
        engine.on_durable(Box::new(move |outcome| {
            let outcome = outcome.map_err(|error| error.to_string());
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }));
        Life {
            replica,
            word,
            backlog: VecDeque::new(),
            senders: Vec::new(),
            stops_by: None,
        }
    }
}
