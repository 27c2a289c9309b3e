//! Members without threads, which tests run step by step.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{
    CommandLimits, Error, Mutant, NodeOptions, PeerMessage, ReadMode, Replica, ReplicaOptions,
};
use engine::{Durability, Worker};
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{MemberRemoveRequest, PutRequest, RangeRequest};
use revisions::{Command, Member, Response};
use tokio::sync::oneshot;

pub const TICK: Duration = Duration::from_millis(100);
/// Ticks after which a cluster has decided everything that it can.
pub const LONG_TICKS: usize = 100;

/// The limits on commands of other members.
pub const REQUEST_BYTES_MAX: usize = 20_000;
pub const OPERATIONS_MAX: usize = 16;

pub type Pending = oneshot::Receiver<Result<Response, Error>>;

pub struct Machine {
    pub disk: SimulatedDisk,
    /// Number of starts of the kernel.
    boots: u64,
    pub durability: Durability,
    pub accepts: bool,
    pub replica: Option<Replica>,
}

/// Members 1 to n. The first one leads at the beginning.
pub struct Cluster {
    pub machines: Vec<Machine>,
    pub clock: SimulatedClock,
    /// Pairs of sender and receiver between which messages are lost.
    pub cut: BTreeSet<(u64, u64)>,
    /// Messages of member 1 with this commit index or a greater one are lost.
    pub kept_from_others: Option<u64>,
    /// Leaders' answers to forwarded commands are lost.
    pub answers_are_lost: bool,
    /// Members do not inform a removed member that it was removed.
    pub refusals_are_lost: bool,
    /// The device of this member flushes nothing as long as it leads.
    pub flushes_late: Option<u64>,
    mutant: Option<Mutant>,
    /// The member that breaks the rule; `None`: all do.
    mutant_at: Option<u64>,
    /// Hashes from and to this member are lost, as if it were of a release without them.
    pub hashes_of_are_lost: Option<u64>,
}

fn members(count: u64) -> Vec<Member> {
    let member = |id| Member {
        id,
        ..Member::default()
    };
    (1..=count).map(member).collect()
}

impl Cluster {
    /// Members acknowledge entries when they are on the device.
    pub fn new(count: u64) -> Cluster {
        Cluster::with(count, Durability::Durable, None)
    }

    pub fn with(count: u64, durability: Durability, mutant: Option<Mutant>) -> Cluster {
        Cluster::begin(count, durability, mutant, None)
    }

    /// One member breaks a rule.
    pub fn with_mutant_at(count: u64, at: u64, mutant: Mutant) -> Cluster {
        Cluster::begin(count, Durability::Durable, Some(mutant), Some(at))
    }

    /// Members that start from now on break no rule.
    pub fn no_mutant(&mut self) {
        self.mutant = None;
    }

    fn begin(
        count: u64,
        durability: Durability,
        mutant: Option<Mutant>,
        mutant_at: Option<u64>,
    ) -> Cluster {
        let machine = |id| Machine {
            disk: SimulatedDisk::new(id),
            boots: 1,
            durability,
            accepts: false,
            replica: None,
        };
        let mut cluster = Cluster {
            machines: (1..=count).map(machine).collect(),
            clock: SimulatedClock::stepped(),
            cut: BTreeSet::new(),
            kept_from_others: None,
            answers_are_lost: false,
            refusals_are_lost: false,
            flushes_late: None,
            mutant,
            mutant_at,
            hashes_of_are_lost: None,
        };
        (1..=count).for_each(|id| cluster.start(id));
        cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
        cluster.move_lead(1);
        (1..=count).for_each(|id| cluster.flush(id));
        cluster
    }

    fn options(&self, id: u64) -> ReplicaOptions {
        let at = &self.machines[id as usize - 1];
        let mut machine = NodeOptions::new("/data").replica.machine;
        machine.member_id = id;
        machine.initial_members = members(self.machines.len() as u64);
        machine.engine.log.segment_bytes = 64 << 10;
        machine.engine.batch_bytes_max = 32 << 10;
        machine.engine.log.reserve_bytes = 0;
        machine.engine.log.worker = Worker::Caller;
        machine.engine.log.durability = at.durability;
        machine.engine.clock = Arc::new(self.clock.clone());
        ReplicaOptions {
            machine,
            heartbeat_interval: TICK,
            election_timeout: TICK * 10,
            strict_reconfiguration: true,
            read_mode: ReadMode::default(),
            command_limits: CommandLimits {
                request_bytes_max: REQUEST_BYTES_MAX,
                operations_max: OPERATIONS_MAX,
            },
            entries_kept_max: 5000,
            bytes_kept_max: 64 << 20,
            snapshot_piece_bytes: 256 << 10,
            boot: Some(at.boots.to_string()),
            accept_lost_tail: at.accepts,
            seed: id,
            compares_states: true,
            mutant: self
                .mutant
                .filter(|_| self.mutant_at.is_none_or(|at| at == id)),
        }
    }

    pub fn move_lead(&mut self, to: u64) {
        let leader = self.leader();
        if leader != to {
            let (answer, _) = oneshot::channel();
            self.replica(leader).transfer_leadership(to, answer);
            self.until(|cluster| cluster.leader() == to && cluster.agrees());
        }
    }

    pub fn start(&mut self, id: u64) {
        self.try_start(id).unwrap();
    }

    pub fn try_start(&mut self, id: u64) -> Result<(), Error> {
        let (options, clock) = (self.options(id), Arc::new(self.clock.clone()));
        let machine = &mut self.machines[id as usize - 1];
        let disk = Arc::new(machine.disk.clone());
        let replica = Replica::open(disk, Path::new("/data"), options, clock)?;
        machine.replica = Some(replica);
        Ok(())
    }

    /// Loses what was not flushed.
    pub fn lose_power(&mut self, id: u64) {
        let machine = &mut self.machines[id as usize - 1];
        machine.disk.crash();
        machine.replica = None;
        machine.disk = machine.disk.restart(Restart::nothing_kept());
        machine.boots += 1;
    }

    /// Ends the process; the machine keeps its page cache.
    pub fn kill(&mut self, id: u64) {
        let machine = &mut self.machines[id as usize - 1];
        machine.disk.crash();
        machine.replica = None;
        machine.disk = machine.disk.restart(Restart::ProcessCrash);
    }

    pub fn flush(&mut self, id: u64) {
        let engine = self.replica(id).reader().engine().clone();
        engine.work();
        engine.flush().unwrap();
    }

    pub fn replica(&mut self, id: u64) -> &mut Replica {
        self.machines[id as usize - 1].replica.as_mut().unwrap()
    }

    pub fn rejoins(&self, id: u64) -> bool {
        let replica = self.machines[id as usize - 1].replica.as_ref();
        replica.unwrap().is_rejoining()
    }

    /// The replicas that have not ended.
    fn running(&self) -> impl Iterator<Item = &Replica> {
        let replicas = self.machines.iter().filter_map(|it| it.replica.as_ref());
        replicas.filter(|replica| replica.failure().is_none())
    }

    /// The leader of the newest term; 0 if there is none.
    pub fn leader(&self) -> u64 {
        let leads = self.running().filter(|replica| replica.leads());
        let newest = leads.max_by_key(|replica| replica.term());
        newest.map_or(0, Replica::member_id)
    }

    pub fn agrees(&self) -> bool {
        let last = self.running().map(Replica::index).max();
        let applied = |replica: &Replica| Some(replica.applied_index()) == last;
        self.running().all(applied)
    }

    /// Cuts these members off from all others.
    pub fn part(&mut self, ids: &[u64]) {
        for &id in ids {
            for other in 1..=self.machines.len() as u64 {
                self.cut.insert((id, other));
                self.cut.insert((other, id));
            }
        }
    }

    /// Runs all members until no message is received, without advancing the clock.
    pub fn run_until_quiet(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            quiet += 1;
            for id in 1..=self.machines.len() as u64 {
                if self.step(id) {
                    quiet = 0;
                }
            }
        }
    }

    /// Runs one member; returns whether another one has received a message of it.
    fn step(&mut self, id: u64) -> bool {
        let is_refused = self.is_refused_as_removed(id);
        let flushes_late = self.flushes_late == Some(id);
        let Some(replica) = &mut self.machines[id as usize - 1].replica else {
            return false;
        };
        if is_refused {
            replica.removal_reported();
        }
        if !flushes_late || !replica.holds_leadership() {
            let engine = replica.reader().engine().clone();
            engine.work();
            replica.persisted(Ok(engine.durable()));
        }
        replica.tick();
        replica.run();
        let output = replica.take_output();
        output.replies.send();
        let mut received = false;
        let without_hashes = self.hashes_of_are_lost;
        let silenced = self.kept_from_others.filter(|_| id == 1);
        for (to, message) in output.messages {
            if let Some(receiver) = &mut self.machines[to as usize - 1].replica
                && !self.cut.contains(&(id, to))
                && !silenced.is_some_and(|first| carries_commit(&message, first))
                && !(self.answers_are_lost && is_answer(&message))
                && !(without_hashes.is_some_and(|it| it == id || it == to) && is_hash(&message))
            {
                receiver.receive(id, message);
                received = true;
            }
        }
        received
    }

    /// Whether another member that can be reached refuses this one because it was removed.
    fn is_refused_as_removed(&self, id: u64) -> bool {
        let refuses = |other: &Replica| {
            let roads = [(id, other.member_id()), (other.member_id(), id)];
            let cut = roads.iter().any(|road| self.cut.contains(road));
            !cut && other.member_id() != id && other.reader().is_removed(id)
        };
        !self.refusals_are_lost && self.running().any(refuses)
    }

    pub fn tick(&mut self) {
        self.clock.advance(TICK);
        self.run_until_quiet();
    }

    pub fn until(&mut self, reached: impl Fn(&Cluster) -> bool) {
        for _ in 0..LONG_TICKS {
            self.tick();
            if reached(self) {
                return;
            }
        }
        panic!("the state that the test waits for is never reached");
    }

    pub fn long(&mut self) {
        (0..LONG_TICKS).for_each(|_| self.tick());
    }

    pub fn put(&mut self, at: u64, key: &str) -> Pending {
        let command = Command::Put(PutRequest {
            key: key.to_owned().into(),
            ..PutRequest::default()
        });
        self.ask(at, command)
    }

    /// Asks a member to remove one.
    pub fn remove(&mut self, at: u64, id: u64) -> Pending {
        self.ask(at, Command::MemberRemove(MemberRemoveRequest { id }))
    }

    fn ask(&mut self, at: u64, command: Command) -> Pending {
        let (answer, receiver) = oneshot::channel();
        assert!(self.replica(at).takes(&command));
        self.replica(at).propose(&command, answer);
        self.run_until_quiet();
        receiver
    }

    pub fn has(&mut self, id: u64, key: &str) -> bool {
        let request = RangeRequest {
            key: key.to_owned().into(),
            ..RangeRequest::default()
        };
        let found = self.replica(id).reader().range(&request).unwrap();
        found.count == 1
    }
}

fn carries_commit(message: &PeerMessage, first: u64) -> bool {
    matches!(message, PeerMessage::Raft(message) if message.commit >= first)
}

fn is_hash(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Hash(_))
}

fn is_answer(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Answer { .. })
}

pub fn is_done(answer: &mut Pending) -> bool {
    matches!(answer.try_recv(), Ok(Ok(_)))
}
