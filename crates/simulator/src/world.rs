//! The loop: time, chance, and everybody's turn.

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
/// After the last fault, members must agree within so much simulated time.
const CONVERGENCE: Duration = Duration::from_secs(60);

/// A cluster and what surrounds it.
pub struct World {
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) stranded: Option<Stranded>,
    pub(crate) members: Vec<Member>,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    operator: Operator,
    joins: u64,
    pub(crate) judge: Judge,
    /// At rest, all leases end before the run does.
    leases_end: bool,
    crashes: u64,
    pub(crate) blackouts: u64,
    pub(crate) shortages: u64,
    stops: u64,
    /// Besides those of members that stop.
    transfers: u64,
    /// Waits for the outcome of the last hand-over.
    transfer: Option<oneshot::Receiver<Result<(), cluster::Error>>>,
    fingerprint: u64,
}

/// Runs a cluster of `members` for `steps`, then lets it come to rest, and
/// judges. Panics with what is wrong.
pub fn run(seed: u64, members: u64, steps: u64, faults: Faults) -> Verdict {
    let mut world = World::new(seed, members, faults);
    for _ in 0..steps {
        world.step();
    }
    world.rest();
    world.verdict()
}

impl World {
    /// Members that have never run.
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
        World {
            now: Duration::ZERO,
            members: members.collect(),
            random,
            faults,
            stranded: None,
            network: Network::flipping(bad_memory),
            clients: (0..CLIENTS).map(Client::new).collect(),
            operator: Operator::new(faults.keeping != Keeping::CachedByAny),
            joins: 0,
            judge: Judge::new(faults.drift_permille),
            leases_end: false,
            crashes: 0,
            blackouts: 0,
            shortages: 0,
            stops: 0,
            transfers: 0,
            transfer: None,
            fingerprint: 0,
        }
    }

    /// A moment passes.
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

    /// What goes wrong now.
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

    /// Whoever leads is asked to hand over to somebody.
    fn move_lead(&mut self) {
        if let Some(answer) = &mut self.transfer
            && let Ok(outcome) = answer.try_recv()
        {
            self.transfers += u64::from(outcome.is_ok());
            self.transfer = None;
        }
        if !self.random.chance(self.faults.transfer_permille, 1000) {
            return;
        }
        let to = self.random.pick(&self.members).id;
        let leads = |member: &&mut Member| member.replica().is_some_and(|it| it.holds_the_lead());
        if let Some(leader) = self.members.iter_mut().find(leads) {
            let (answer, outcome) = oneshot::channel();
            leader.move_lead(to, answer);
            self.transfer = Some(outcome).filter(|_| to != leader.id);
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

    /// Whoever belongs to the cluster runs, sooner or later.
    fn begin_members(&mut self) {
        for id in operator::missing(&self.members) {
            let mut member = Member::new(id, &[], &mut self.random, self.faults);
            member.starts_at = Some(self.now + Duration::from_millis(self.random.below(500)));
            self.members.push(member);
            self.joins += 1;
        }
    }

    fn start_members(&mut self) {
        self.begin_members();
        self.end_shortages();
        for member in &mut self.members {
            if member.bury(self.now, &mut self.random) {
                self.crashes += 1;
                self.judge.restarted(member.id);
            }
            if self.now >= member.paused_until && member.has_left(self.now, &mut self.random) {
                self.stops += 1;
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
            if !member.reader().is_some_and(refuses) {
                member.receive(from, message);
            }
        }
        self.be_hostile();
        self.dial();
    }

    /// A peer that is no honest member sends something to a member that runs.
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
        if let Some((from, message)) = self.network.hostile.send(member.id, &mut self.random) {
            member.receive(from, message);
        }
    }

    /// Members keep connections to each other, or try: who was removed is told so
    /// at the door.
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
        if refused && let Some(member) = self.members.iter_mut().find(|it| it.id == dialer) {
            member.told_of_removal();
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

    /// After every step: is what must be true, true?
    fn watch(&mut self) {
        self.check_read_leases();
        self.members.iter_mut().for_each(Member::look_for_lack);
        for member in &self.members {
            let Some(replica) = member.replica() else {
                continue;
            };
            if replica.leads() {
                self.judge.leads(replica.term(), member.id);
            }
            let revision = replica.reader().revision();
            self.judge.look(member.id, replica);
            self.judge.compare(member.id, replica.reader());
            self.judge
                .leases
                .look(self.now, member.id, replica.reader());
            let seen = [member.id, replica.term(), replica.index(), revision as u64];
            for word in seen {
                self.fingerprint = (self.fingerprint ^ word)
                    .wrapping_mul(0x100_0000_01b3)
                    .rotate_left(17);
            }
        }
    }

    /// Everything is mended, and everybody comes to the same end.
    pub fn rest(&mut self) {
        self.faults = Faults::NONE;
        // It takes a while.
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
    }

    fn agrees(&self) -> bool {
        // Nobody renews them any more.
        let leased = |member: &Member| {
            let reader = member.reader();
            member.is_sound()
                && reader.is_none_or(|reader| !reader.lease_leases().leases.is_empty())
        };
        if self.leases_end && self.members.iter().any(leased) {
            return false;
        }
        // Whoever was removed knows it by then.
        let present = self.members.iter().filter(|member| member.is_sound());
        let ends = present.map(|member| {
            let replica = member.replica()?;
            replica.reader().members().get(member.id)?;
            let led = replica.leader() != 0 && replica.index() == replica.applied_index();
            led.then(|| {
                (
                    replica.leader(),
                    replica.index(),
                    replica.reader().revision(),
                )
            })
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
            None => format!("{:x}: down\n{}", member.id, member.story()),
        });
        members.collect::<Vec<_>>().join("; ")
    }

    /// Of the last compacted revision members may know the hash from before, or the
    /// one after it; whoever knows the same knows the same number.
    fn check_compacted_hashes(&self) {
        let mut known = BTreeMap::new();
        let sound = self.members.iter().filter(|member| member.is_sound());
        for reader in sound.filter_map(Member::reader) {
            let compacted = reader.engine().snapshot().compacted();
            let hash = reader.hash_kv(compacted.max(1));
            let hash = hash.expect("what is compacted to can be hashed");
            let first = known.entry(hash.compact_revision).or_insert(hash);
            assert_eq!(*first, hash, "members hash {compacted} differently");
        }
    }

    /// The judge's last word: equal hashes everywhere, and every answer true.
    pub fn verdict(&self) -> Verdict {
        let hashes: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.is_sound())
            .filter_map(|member| member.reader()?.hash_kv(0).ok())
            .collect();
        let present = self.members.iter().filter(|member| member.is_sound());
        assert_eq!(hashes.len(), present.count(), "everybody answers");
        assert!(
            hashes.windows(2).all(|pair| pair[0] == pair[1]),
            "members have different hashes: {hashes:?}"
        );
        self.check_compacted_hashes();
        let (answers, revisions, terms) = self.judge.conclude();
        let mut readers = self.members.iter().filter_map(Member::reader);
        let reader = readers.next().expect("everybody has answered");
        let gone = self.members.iter().filter(|member| member.has_gone).count();
        let (renewals, leases_ended) = self.judge.leases.conclude(reader);
        Verdict {
            answers,
            revisions,
            terms,
            crashes: self.crashes,
            blackouts: self.blackouts,
            shortages: self.shortages,
            returns: self.members.iter().map(|member| member.returns).sum(),
            stops: self.stops,
            transfers: self.transfers,
            renewals,
            leases_ended,
            joins: self.joins,
            removals: gone as u64,
            snapshots: self.judge.snapshots,
            lease_reads: self.members.iter().map(|member| member.lease_reads).sum(),
            hostile_frames: self.network.hostile.sent,
            hostile_messages: self.network.hostile.delivered,
            flipped_frames: self.network.bad_memory.flips,
            flipped_messages: self.network.bad_memory.delivered,
            fingerprint: self.fingerprint,
        }
    }
}
