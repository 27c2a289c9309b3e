//! When followers learn what is committed: members without threads, moved by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Asker, NodeOptions, ReadMode, Replica, ReplicaOptions};
use engine::Worker;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::PutRequest;
use revisions::{Command, Member};
use tokio::sync::oneshot;

const TICK: Duration = Duration::from_millis(100);

struct Cluster {
    replicas: Vec<Replica>,
    clock: SimulatedClock,
}

fn options(id: u64, clock: &SimulatedClock) -> ReplicaOptions {
    let mut machine = NodeOptions::new("/data").machine;
    machine.member_id = id;
    machine.initial_members = (1..=3)
        .map(|id| Member {
            id,
            name: id.to_string(),
            ..Member::default()
        })
        .collect();
    machine.engine.segment_bytes = 64 << 10;
    machine.engine.batch_bytes_max = 32 << 10;
    machine.engine.reserve_bytes = 0;
    machine.engine.worker = Worker::Caller;
    machine.engine.clock = Arc::new(clock.clone());
    ReplicaOptions {
        machine,
        heartbeat_interval: TICK,
        election_timeout: TICK * 10,
        strict_reconfiguration: true,
        read_mode: ReadMode::default(),
        entries_kept_max: 5000,
        bytes_kept_max: 64 << 20,
        snapshot_piece_bytes: 256 << 10,
        boot: None,
        accept_lost_tail: false,
        seed: id,
        mutant: None,
    }
}

impl Cluster {
    fn new() -> Cluster {
        let clock = SimulatedClock::stepped();
        let open = |id: u64| {
            let disk = Arc::new(SimulatedDisk::new(id));
            let options = options(id, &clock);
            Replica::open(disk, Path::new("/data"), options, Arc::new(clock.clone())).unwrap()
        };
        let mut cluster = Cluster {
            replicas: (1..=3).map(open).collect(),
            clock: clock.clone(),
        };
        while cluster.leader().is_none() || !cluster.all_applied() {
            clock.advance(TICK);
            cluster.settle();
        }
        cluster
    }

    fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(Replica::leads)
    }

    fn all_applied(&self) -> bool {
        let last = self.replicas.iter().map(Replica::index).max();
        let applied = |replica: &Replica| Some(replica.applied_index()) == last;
        self.replicas.iter().all(applied)
    }

    /// Until nobody has anything to say or to write, at this moment.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            quiet += 1;
            for at in 0..self.replicas.len() {
                let replica = &mut self.replicas[at];
                let engine = replica.reader().engine().clone();
                engine.work();
                replica.persisted(Ok(engine.durable()));
                replica.tick();
                replica.run();
                let output = replica.take_output();
                let from = replica.member_id();
                output.answers.into_iter().for_each(cluster::Answer::give);
                for (to, message) in output.messages {
                    self.replicas[to as usize - 1].receive(from, message);
                    quiet = 0;
                }
            }
        }
    }

    fn put(&mut self, at: usize) -> oneshot::Receiver<Result<revisions::Response, cluster::Error>> {
        let (answer, receiver) = oneshot::channel();
        let command = Command::Put(PutRequest {
            key: "key".into(),
            ..PutRequest::default()
        });
        assert!(self.replicas[at].takes(&command));
        self.replicas[at].propose(&command, Asker::Local(answer));
        self.settle();
        receiver
    }
}

#[test]
fn followers_are_told_a_moment_later_when_nothing_follows() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader().unwrap();
    let mut answer = cluster.put(leader);
    assert!(answer.try_recv().unwrap().is_ok(), "a majority has it");
    let due = cluster.replicas[leader].due().expect("it is to be told");
    assert!(!cluster.all_applied(), "nobody waits at the followers");
    let wait = due.saturating_since(environment::Clock::now(&cluster.clock));
    assert!(wait < TICK, "before any heartbeat");
    cluster.clock.advance(wait);
    cluster.settle();
    assert!(cluster.all_applied());
    assert_eq!(cluster.replicas[leader].due(), None);
}

#[test]
fn followers_are_told_with_the_next_entry() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader().unwrap();
    drop(cluster.put(leader));
    let first = cluster.replicas[leader].applied_index();
    drop(cluster.put(leader));
    for replica in &cluster.replicas {
        assert!(replica.applied_index() >= first, "{replica:?}");
    }
}

#[test]
fn followers_are_told_at_once_when_somebody_there_waits() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader().unwrap();
    let mut answer = cluster.put((leader + 1) % 3);
    assert!(
        answer.try_recv().unwrap().is_ok(),
        "without any time passing"
    );
    assert!(cluster.all_applied());
}
