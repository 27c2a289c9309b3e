//! The simulation loop: advances time, injects faults, and runs members and clients in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use environment::randomness::Random;
use revisions::Reader;
use tokio::sync::oneshot;

use crate::clients::Client;
use crate::isolation::Stranded;
use crate::judge::Judge;
use crate::member::Member;
use crate::network::Network;
use crate::operator::{self, Operator};
use crate::{Faults, Keeping, Verdict};

const CLIENTS: usize = 5;
/// Simulated time after the last fault within which members must agree.
const CONVERGENCE: Duration = Duration::from_secs(60);

/// A cluster with its network, clients, operator and judge.
pub struct World {
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) stranded: Option<Stranded>,
    pub(crate) members: Vec<Member>,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    operator: Operator,
    pub(crate) judge: Judge,
    /// The run ends only after all leases have ended.
    leases_end: bool,
    /// Of what has happened so far.
    pub(crate) counts: Verdict,
    /// Receives the outcome of the last transfer of leadership.
    transfer: Option<oneshot::Receiver<Result<(), cluster::Error>>>,
}

/// Runs a cluster of `members` for `steps` with faults, then without until its members
/// agree, and judges the run. Panics at a violation.
pub fn run(seed: u64, members: u64, steps: u64, faults: Faults) -> Verdict {
    let mut world = World::new(seed, members, faults);
    for _ in 0..steps {
        world.step();
    }
    world.rest();
    world.verdict()
}

impl World {
    /// A cluster with members that have never run.
    pub fn new(seed: u64, members: u64, faults: Faults) -> World {
        let mut random = Random::from_seed(seed);
        let bad_memory = (faults.bad_memory_permille > 0).then_some(members + 1);
        let all: Vec<revisions::Member> = (1..=bad_memory.unwrap_or(members))
            .map(|id| revisions::Member {
                id,
                peer_urls: vec![format!("http://member{id}:2380")],
                is_learner: bad_memory == Some(id) && !faults.bad_memory_votes,
                ..revisions::Member::default()
            })
            .collect();
        let members = all.iter().map(|it| {
            let mut member = Member::new(it.id, &all, &mut random, faults);
            member.has_bad_memory = bad_memory == Some(it.id);
            member
        });
        let members = members.collect();
        let mut network = Network::default();
        network.bad_memory.member = bad_memory;
        World {
            now: Duration::ZERO,
            members,
            random,
            faults,
            stranded: None,
            network,
            clients: (0..CLIENTS).map(Client::new).collect(),
            operator: Operator::new(faults.keeping != Keeping::CachedByAny),
            judge: Judge::new(faults.drift_permille),
            leases_end: false,
            counts: Verdict::default(),
            transfer: None,
        }
    }

    /// One step: time passes, faults happen, messages arrive, members and clients run, and
    /// the judge checks.
    pub fn step(&mut self) {
        self.pass_time();
        self.strike();
        self.start_members();
        self.deliver();
        self.turns();
        if self.random.chance(self.faults.membership_permille, 1000) {
            self.operator
                .act(self.now, &mut self.members, &mut self.random);
        }
        for client in &mut self.clients {
            client.look(self.now, &self.members, &mut self.judge);
            if self.random.chance(1, 8) {
                client.ask(self.now, &mut self.members, &mut self.random, &self.faults);
            }
        }
        self.watch();
    }

    fn pass_time(&mut self) {
        let mut length = Duration::from_micros(200 + self.random.below(4000));
        if let Some(next) = self.network.next_arrival()
            && next > self.now
        {
            length = length.min(next - self.now);
        }
        self.now += length;
        self.members
            .iter()
            .for_each(|member| member.advance(length));
    }

    /// Injects the faults of this step.
    fn strike(&mut self) {
        let faults = self.faults;
        let at = self.random.below(self.members.len() as u64) as usize;
        if self.random.chance(faults.cut_permille, 1000) {
            self.cut_or_heal();
        }
        let until = self.now + Duration::from_millis(self.random.below(600));
        if self.random.chance(faults.crash_permille, 1000) && self.members[at].is_up() {
            self.crash(at);
        }
        self.strike_power(at);
        self.strike_shortage(at);
        let member = &mut self.members[at];
        if self.random.chance(faults.stop_permille, 1000) {
            member.stop(self.now);
        }
        if self.random.chance(faults.pause_permille, 1000) {
            member.paused_until = until;
        }
        if self.random.chance(faults.slow_disk_permille, 1000) {
            member.slow_until = until;
        }
        self.move_lead();
        self.isolate_leaders();
    }

    /// Asks the leader to transfer the lead to a random member.
    fn move_lead(&mut self) {
        if let Some(answer) = &mut self.transfer
            && let Ok(outcome) = answer.try_recv()
        {
            self.counts.transfers += u64::from(outcome.is_ok());
            self.transfer = None;
        }
        if !self.random.chance(self.faults.transfer_permille, 1000) {
            return;
        }
        let to = self.random.pick(&self.members).id;
        let leads = |member: &&mut Member| member.replica().is_some_and(|it| it.holds_leadership());
        if let Some(leader) = self.members.iter_mut().find(leads) {
            let (answer, outcome) = oneshot::channel();
            self.transfer = Some(outcome).filter(|_| to != leader.id);
            let replica = leader.replica_mut().expect("the leader runs");
            replica.transfer_leadership(to, answer);
        }
    }

    fn cut_or_heal(&mut self) {
        self.network.heal();
        if self.random.chance(1, 2) {
            let (here, there): (Vec<u64>, Vec<u64>) = {
                let random = &mut self.random;
                let ids = self.members.iter().map(|member| member.id);
                ids.partition(|_| random.chance(1, 2))
            };
            let both_ways = self.random.chance(2, 3);
            self.network.cut(&here, &there, both_ways);
        }
    }

    /// Creates the members that were added to the cluster and do not run yet; they start a
    /// little later.
    fn begin_members(&mut self) {
        for id in operator::missing(&self.members) {
            let mut member = Member::new(id, &[], &mut self.random, self.faults);
            member.starts_at = Some(self.now + Duration::from_millis(self.random.below(500)));
            self.members.push(member);
            self.counts.joins += 1;
        }
    }

    fn start_members(&mut self) {
        self.begin_members();
        self.end_shortages();
        for member in &mut self.members {
            if member.bury(self.now, &mut self.random) {
                self.counts.crashes += 1;
                self.judge.restarted(member.id);
            }
            if self.now >= member.paused_until && member.has_left(self.now, &mut self.random) {
                self.counts.stops += 1;
                self.judge.restarted(member.id);
            }
            if member.starts_at.is_some_and(|at| at <= self.now) {
                member.start();
            }
        }
    }

    fn deliver(&mut self) {
        for member in &self.members {
            if self.now < member.paused_until {
                let until = member.paused_until;
                self.network.hold(member.id, until, &mut self.random);
            }
        }
        for (from, to, message) in self.network.arrived(self.now) {
            let member = self.members.iter_mut().find(|member| member.id == to);
            let Some(member) = member else {
                continue;
            };
            let refuses = |reader: &Reader| reader.is_removed(from);
            if !member.reader().is_some_and(refuses)
                && let Some(replica) = member.replica_mut()
            {
                replica.receive(from, message);
            }
        }
        self.be_hostile();
        self.dial();
    }

    /// The hostile peer sends a frame to a random member that is not paused.
    fn be_hostile(&mut self) {
        let permille = self.faults.hostile_permille;
        if permille == 0 || !self.random.chance(permille, 1000) {
            return;
        }
        let at = self.random.below(self.members.len() as u64) as usize;
        let member = &mut self.members[at];
        if self.now < member.paused_until {
            return;
        }
        if let Some((from, message)) = self.network.hostile.send(member.id, &mut self.random)
            && let Some(replica) = member.replica_mut()
        {
            replica.receive(from, message);
        }
    }

    /// A random member dials the others. If it was removed and a member that it reaches has
    /// applied the removal, that member refuses the connection, and the dialer learns of it.
    fn dial(&mut self) {
        let dialer = self.random.pick(&self.members).id;
        let refuses = |member: &&Member| {
            let roads =
                self.network.carries(dialer, member.id) && self.network.carries(member.id, dialer);
            let another = member.id != dialer;
            let reader = member.reader();
            another && roads && reader.is_some_and(|reader| reader.is_removed(dialer))
        };
        let refused = self.members.iter().any(|member| refuses(&member));
        let dialer = self.members.iter_mut().find(|it| it.id == dialer);
        if let Some(replica) = dialer.and_then(Member::replica_mut).filter(|_| refused) {
            replica.removal_reported();
        }
    }

    fn turns(&mut self) {
        for member in &mut self.members {
            if self.now < member.paused_until {
                continue;
            }
            if self.now >= member.slow_until && self.random.chance(1, 2) {
                member.flush(&mut self.random);
            }
            for (to, message) in member.step() {
                if let Some(term) = message.term_led() {
                    self.judge.leads(term, member.id);
                }
                let road = (member.id, to);
                self.network
                    .send(road, &message, self.now, &self.faults, &mut self.random);
            }
        }
    }

    /// Checks the invariants after a step.
    fn watch(&mut self) {
        self.check_read_leases();
        self.members.iter_mut().for_each(Member::look_for_lack);
        for member in &self.members {
            let Some(replica) = member.replica() else {
                continue;
            };
            self.judge.look(self.now, member.id, replica);
            let revision = replica.reader().revision();
            let seen = [member.id, replica.term(), replica.index(), revision as u64];
            for word in seen {
                let mixed = (self.counts.fingerprint ^ word).wrapping_mul(0x100_0000_01b3);
                self.counts.fingerprint = mixed.rotate_left(17);
            }
        }
    }

    /// Ends all faults and runs until the members agree. Panics if they do not within
    /// `CONVERGENCE`.
    pub fn rest(&mut self) {
        self.faults = Faults::NONE;
        // Only some runs wait for the ends of leases, because that takes long.
        self.leases_end = self.random.chance(1, 4);
        self.network.heal();
        for member in &mut self.members {
            (member.paused_until, member.slow_until) = (self.now, self.now);
            if member.short_until.is_some() {
                member.have_enough();
            }
        }
        let deadline = self.now + CONVERGENCE;
        while !self.agrees() {
            assert!(self.now < deadline, "no agreement: {}", self.state());
            self.pass_time();
            self.start_members();
            self.deliver();
            self.turns();
            for client in &mut self.clients {
                client.look(self.now, &self.members, &mut self.judge);
            }
            self.watch();
        }
        for client in &mut self.clients {
            client.give_up(self.now, &mut self.judge);
        }
    }

    fn sound(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_sound())
    }

    fn agrees(&self) -> bool {
        // Clients renew no leases during the rest, so all of them end.
        let leased = |member: &Member| {
            let reader = member.reader();
            reader.is_none_or(|reader| !reader.lease_leases().leases.is_empty())
        };
        if self.leases_end && self.sound().any(leased) {
            return false;
        }
        // A removed member must have learned of its removal.
        let ends = self.sound().map(|member| {
            let replica = member.replica()?;
            replica.reader().members().get(member.id)?;
            let led = replica.leader() != 0 && replica.index() == replica.applied_index();
            let revision = replica.reader().revision();
            led.then(|| (replica.leader(), replica.index(), revision))
        });
        let ends: Option<Vec<_>> = ends.collect();
        ends.is_some_and(|ends| ends.windows(2).all(|pair| pair[0] == pair[1]))
    }

    fn state(&self) -> String {
        let members = self.members.iter().map(|member| match member.replica() {
            Some(replica) => format!(
                "{:x}: term {}, leader {:x}, {} of {} applied, {:?}, {replica:?}",
                member.id,
                replica.term(),
                replica.leader(),
                replica.applied_index(),
                replica.index(),
                replica.failure(),
            ),
            None if member.has_gone => format!("{:x}: removed", member.id),
            None => format!("{:x}: down\n{}", member.id, member.disk.trace()),
        });
        members.collect::<Vec<_>>().join("; ")
    }

    /// Members may have compacted to different revisions. Those with the same compacted
    /// revision must have the same hash.
    fn check_compacted_hashes(&self) {
        let mut known = BTreeMap::new();
        for reader in self.sound().filter_map(Member::reader) {
            let compacted = reader.engine().snapshot().compacted();
            let hash = reader.hash_kv(compacted.max(1));
            let hash = hash.expect("the compacted revision can be hashed");
            let first = known.entry(hash.compact_revision).or_insert(hash);
            assert_eq!(*first, hash, "members hash {compacted} differently");
        }
    }

    /// Judges the whole run: members must have equal hashes, and all answers of clients must
    /// agree with the history. Panics at a violation.
    pub fn verdict(&self) -> Verdict {
        let hashes = self.sound().map(|member| {
            let hash = member.reader().map(|reader| reader.hash_kv(0));
            hash.and_then(Result::ok)
                .expect("every sound member has a hash")
        });
        let hashes: Vec<_> = hashes.collect();
        assert!(
            hashes.windows(2).all(|pair| pair[0] == pair[1]),
            "members have different hashes: {hashes:?}"
        );
        self.check_compacted_hashes();
        for reader in self.sound().filter_map(Member::reader) {
            let walk = reader.engine().check_keys(&mut || true);
            assert!(
                walk.is_none_or(|walk| walk == engine::KeyWalk::Sound),
                "the index has changed by itself: {walk:?}"
            );
        }
        let (answers, revisions, terms) = self.judge.conclude();
        let mut readers = self.members.iter().filter_map(Member::reader);
        let reader = readers.next().expect("every sound member has a reader");
        let gone = self.members.iter().filter(|member| member.has_gone).count();
        let (renewals, leases_ended) = self.judge.leases.conclude(reader);
        Verdict {
            answers,
            revisions,
            terms,
            returns: self.members.iter().map(|member| member.returns).sum(),
            renewals,
            leases_ended,
            removals: gone as u64,
            snapshots: self.judge.snapshots,
            lease_reads: self.members.iter().map(|member| member.lease_reads).sum(),
            hostile_frames: self.network.hostile.sent,
            hostile_messages: self.network.hostile.delivered,
            flipped_frames: self.network.bad_memory.flips,
            flipped_messages: self.network.bad_memory.delivered,
            ..self.counts
        }
    }
}
