//! Members that acknowledge from their page caches, lose power, and come back: scenes
//! without threads, moved by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Asker, Error, Mutant, NodeOptions, ReadMode, Replica, ReplicaOptions};
use engine::{Durability, Worker};
use environment::simulated::{Restart, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use revisions::{Command, Member, Response};
use tokio::sync::oneshot;

const TICK: Duration = Duration::from_millis(100);
/// So long nobody has anything new to say or to decide.
const LONG_TICKS: usize = 100;

type Pending = oneshot::Receiver<Result<Response, Error>>;

struct Machine {
    disk: SimulatedDisk,
    /// Starts of the kernel.
    boots: u64,
    durability: Durability,
    accepts: bool,
    replica: Option<Replica>,
}

/// Members 1 to n. The first one leads at the beginning.
struct Cluster {
    machines: Vec<Machine>,
    clock: SimulatedClock,
    /// From and to: what is said there is lost.
    cut: BTreeSet<(u64, u64)>,
    mutant: Option<Mutant>,
}

fn members(count: u64) -> Vec<Member> {
    let member = |id| Member {
        id,
        ..Member::default()
    };
    (1..=count).map(member).collect()
}

impl Cluster {
    fn new(count: u64) -> Cluster {
        Cluster::with(count, None)
    }

    fn with(count: u64, mutant: Option<Mutant>) -> Cluster {
        let machine = |id| Machine {
            disk: SimulatedDisk::new(id),
            boots: 1,
            durability: Durability::Os,
            accepts: false,
            replica: None,
        };
        let mut cluster = Cluster {
            machines: (1..=count).map(machine).collect(),
            clock: SimulatedClock::stepped(),
            cut: BTreeSet::new(),
            mutant,
        };
        (1..=count).for_each(|id| cluster.start(id));
        cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
        if cluster.leader() != 1 {
            let (answer, _) = oneshot::channel();
            let leader = cluster.leader();
            cluster.replica(leader).move_lead(1, answer);
            cluster.until(|cluster| cluster.leader() == 1 && cluster.agrees());
        }
        (1..=count).for_each(|id| cluster.flush(id));
        cluster
    }

    fn options(&self, id: u64) -> ReplicaOptions {
        let at = &self.machines[id as usize - 1];
        let mut machine = NodeOptions::new("/data").machine;
        machine.member_id = id;
        machine.initial_members = members(self.machines.len() as u64);
        machine.engine.segment_bytes = 64 << 10;
        machine.engine.batch_bytes_max = 32 << 10;
        machine.engine.reserve_bytes = 0;
        machine.engine.worker = Worker::Caller;
        machine.engine.durability = at.durability;
        machine.engine.clock = Arc::new(self.clock.clone());
        ReplicaOptions {
            machine,
            heartbeat_interval: TICK,
            election_timeout: TICK * 10,
            strict_reconfiguration: true,
            read_mode: ReadMode::default(),
            entries_kept_max: 5000,
            bytes_kept_max: 64 << 20,
            snapshot_piece_bytes: 256 << 10,
            boot: Some(at.boots.to_string()),
            accept_lost_tail: at.accepts,
            seed: id,
            mutant: self.mutant,
        }
    }

    fn start(&mut self, id: u64) {
        let (options, clock) = (self.options(id), Arc::new(self.clock.clone()));
        let machine = &mut self.machines[id as usize - 1];
        let disk = Arc::new(machine.disk.clone());
        machine.replica = Some(Replica::open(disk, Path::new("/data"), options, clock).unwrap());
    }

    /// What was not flushed is gone.
    fn lose_power(&mut self, id: u64) {
        let machine = &mut self.machines[id as usize - 1];
        machine.disk.crash();
        machine.replica = None;
        machine.disk = machine.disk.restart(Restart::nothing_kept());
        machine.boots += 1;
    }

    /// The machine runs on, with all that is in its page cache.
    fn kill(&mut self, id: u64) {
        let machine = &mut self.machines[id as usize - 1];
        machine.disk.crash();
        machine.replica = None;
        machine.disk = machine.disk.restart(Restart::ProcessCrash);
    }

    fn flush(&mut self, id: u64) {
        let engine = self.replica(id).reader().engine().clone();
        engine.work();
        engine.settle().unwrap();
    }

    fn replica(&mut self, id: u64) -> &mut Replica {
        self.machines[id as usize - 1].replica.as_mut().unwrap()
    }

    fn returns(&self, id: u64) -> bool {
        let replica = self.machines[id as usize - 1].replica.as_ref();
        replica.unwrap().is_returning()
    }

    fn running(&self) -> impl Iterator<Item = &Replica> {
        self.machines.iter().filter_map(|it| it.replica.as_ref())
    }

    /// The one that leads in the newest term; 0: nobody does.
    fn leader(&self) -> u64 {
        let leads = self.running().filter(|replica| replica.leads());
        let newest = leads.max_by_key(|replica| replica.term());
        newest.map_or(0, Replica::member_id)
    }

    fn agrees(&self) -> bool {
        let last = self.running().map(Replica::index).max();
        let applied = |replica: &Replica| Some(replica.applied_index()) == last;
        self.running().all(applied)
    }

    /// Nobody hears these members, and they hear nobody.
    fn part(&mut self, ids: &[u64]) {
        for &id in ids {
            for other in 1..=self.machines.len() as u64 {
                self.cut.insert((id, other));
                self.cut.insert((other, id));
            }
        }
    }

    /// Until nobody has anything to say or to write, at this moment.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            quiet += 1;
            for at in 0..self.machines.len() {
                let Some(replica) = &mut self.machines[at].replica else {
                    continue;
                };
                let engine = replica.reader().engine().clone();
                engine.work();
                replica.persisted(Ok(engine.durable()));
                replica.tick();
                replica.run();
                let output = replica.take_output();
                let from = replica.member_id();
                output.answers.into_iter().for_each(cluster::Answer::give);
                for (to, message) in output.messages {
                    if let Some(receiver) = &mut self.machines[to as usize - 1].replica
                        && !self.cut.contains(&(from, to))
                    {
                        receiver.receive(from, message);
                        quiet = 0;
                    }
                }
            }
        }
    }

    fn tick(&mut self) {
        self.clock.advance(TICK);
        self.settle();
    }

    fn until(&mut self, reached: impl Fn(&Cluster) -> bool) {
        for _ in 0..LONG_TICKS {
            self.tick();
            if reached(self) {
                return;
            }
        }
        panic!("it is never reached");
    }

    fn long(&mut self) {
        (0..LONG_TICKS).for_each(|_| self.tick());
    }

    fn put(&mut self, at: u64, key: &str) -> Pending {
        let (answer, receiver) = oneshot::channel();
        let command = Command::Put(PutRequest {
            key: key.to_owned().into(),
            ..PutRequest::default()
        });
        assert!(self.replica(at).takes(&command));
        self.replica(at).propose(&command, Asker::Local(answer));
        self.settle();
        receiver
    }

    fn has(&mut self, id: u64, key: &str) -> bool {
        let request = RangeRequest {
            key: key.to_owned().into(),
            ..RangeRequest::default()
        };
        let found = self.replica(id).reader().range(&request).unwrap();
        found.count == 1
    }
}

fn is_done(answer: &mut Pending) -> bool {
    matches!(answer.try_recv(), Ok(Ok(_)))
}

#[test]
fn a_leader_takes_back_who_has_lost_its_end() {
    let mut cluster = Cluster::new(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    let before = cluster.replica(2).index();
    cluster.lose_power(2);
    cluster.start(2);
    assert!(cluster.replica(2).index() < before, "it has lost something");
    assert!(cluster.returns(2));
    cluster.until(|cluster| !cluster.returns(2));
    assert!(cluster.replica(2).index() >= before);
    assert!(cluster.has(2, "e"));
    assert!(is_done(&mut cluster.put(1, "f")), "it counts again");
}

#[test]
fn a_member_without_its_end_elects_nobody_who_lacks_it() {
    let mut cluster = Cluster::new(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(2);
    cluster.cut.clear();
    cluster.part(&[1]);
    cluster.start(2);
    cluster.long();
    assert!(cluster.returns(2), "the only other one who has it is away");
    let others = [cluster.replica(2).leads(), cluster.replica(3).leads()];
    assert_eq!(others, [false, false]);
    cluster.cut.clear();
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees() && !cluster.returns(2));
    for id in 1..=3 {
        assert!(cluster.has(id, "e"), "member {id}");
    }
}

/// Members 1 and 2 have an entry, 2 loses it, 3 confirms it: is it committed?
fn counts_the_former_life(mutant: Option<Mutant>) -> bool {
    let mut cluster = Cluster::with(5, mutant);
    cluster.part(&[3, 4, 5]);
    let mut answer = cluster.put(1, "e");
    assert!(!is_done(&mut answer), "two of five have it");
    let end = cluster.replica(2).index();
    assert_eq!(end, cluster.replica(1).index());
    cluster.lose_power(2);
    // What it says is heard, and it hears nothing.
    cluster.cut.insert((1, 2));
    cluster.start(2);
    assert!(cluster.replica(2).index() < end);
    cluster.tick();
    cluster.cut.remove(&(1, 3));
    cluster.cut.remove(&(3, 1));
    for _ in 0..3 {
        cluster.tick();
    }
    assert_eq!(cluster.replica(3).index(), end, "it has confirmed it");
    is_done(&mut answer)
}

#[test]
fn what_a_former_life_has_confirmed_does_not_count() {
    assert!(!counts_the_former_life(None));
    assert!(counts_the_former_life(Some(Mutant::KeepsItsMatch)));
}

#[test]
fn all_lose_power_and_what_one_device_had_survives() {
    let mut cluster = Cluster::new(3);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.flush(2);
    (1..=3).for_each(|id| cluster.lose_power(id));
    cluster.start(1);
    cluster.start(3);
    cluster.long();
    assert_eq!(cluster.leader(), 0, "who has it is not there");
    cluster.start(2);
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
    for id in 1..=3 {
        assert!(cluster.has(id, "e") && !cluster.returns(id), "member {id}");
    }
}

#[test]
fn killed_processes_lose_nothing_and_need_nobody_s_word() {
    let mut cluster = Cluster::new(3);
    assert!(is_done(&mut cluster.put(1, "e")));
    (1..=3).for_each(|id| cluster.kill(id));
    for id in 1..=2 {
        cluster.start(id);
        assert!(!cluster.returns(id));
    }
    cluster.until(|cluster| cluster.leader() != 0 && cluster.agrees());
    assert!(cluster.has(1, "e") && cluster.has(2, "e"));
}

#[test]
fn a_restart_does_not_make_whole() {
    for durability in [Durability::Os, Durability::Durable] {
        let mut cluster = Cluster::new(3);
        cluster.part(&[2]);
        cluster.lose_power(2);
        cluster.machines[1].durability = durability;
        cluster.start(2);
        assert!(cluster.returns(2), "{durability:?}");
        cluster.kill(2);
        cluster.start(2);
        assert!(cluster.returns(2), "killed on its way, {durability:?}");
        cluster.replica(2).fail(Error::Stopped);
        cluster.replica(2).machine().close().unwrap();
        cluster.start(2);
        assert!(cluster.returns(2), "stopped on its way, {durability:?}");
        cluster.cut.clear();
        cluster.until(|cluster| !cluster.returns(2));
        cluster.kill(2);
        cluster.start(2);
        assert!(!cluster.returns(2), "{durability:?}");
    }
}

#[test]
fn a_log_that_was_closed_has_lost_nothing() {
    let mut cluster = Cluster::new(3);
    cluster.replica(2).fail(Error::Stopped);
    cluster.replica(2).machine().close().unwrap();
    cluster.lose_power(2);
    cluster.start(2);
    assert!(!cluster.returns(2));
}

#[test]
fn where_one_never_comes_back_somebody_decides() {
    let mut cluster = Cluster::new(3);
    (1..=3).for_each(|id| cluster.lose_power(id));
    cluster.start(1);
    cluster.start(2);
    cluster.long();
    assert_eq!(cluster.leader(), 0);
    for id in 1..=2 {
        cluster.kill(id);
        cluster.machines[id as usize - 1].accepts = true;
        cluster.start(id);
        assert!(!cluster.returns(id));
    }
    cluster.until(|cluster| cluster.leader() != 0);
    for id in 1..=2 {
        cluster.kill(id);
        cluster.machines[id as usize - 1].accepts = false;
        cluster.start(id);
        assert!(!cluster.returns(id), "once is enough");
    }
}

#[test]
fn who_has_applied_what_was_given_up_ends_with_the_reason() {
    let mut cluster = Cluster::new(3);
    cluster.part(&[3]);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(2);
    cluster.machines[1].accepts = true;
    cluster.cut.clear();
    cluster.part(&[1]);
    cluster.start(2);
    cluster.until(|cluster| cluster.leader() > 1);
    let leader = cluster.leader();
    assert!(is_done(&mut cluster.put(leader, "f")));
    cluster.cut.clear();
    for _ in 0..LONG_TICKS {
        cluster.tick();
    }
    let failure = cluster.replica(1).failure().unwrap().to_string();
    assert!(
        failure.contains("what this member has applied was lost elsewhere"),
        "{failure}"
    );
}

#[test]
fn alone_there_is_nobody_to_ask() {
    let mut cluster = Cluster::new(1);
    assert!(is_done(&mut cluster.put(1, "e")));
    cluster.lose_power(1);
    cluster.start(1);
    assert!(!cluster.returns(1));
    cluster.until(|cluster| cluster.leader() == 1);
    assert!(!cluster.has(1, "e"), "within the window");
}
