//! What is measured: scenes of steps, each a call of etcd's benchmark.

use crate::puts;

/// Steps on fresh servers.
pub struct Scene {
    pub name: &'static str,
    pub members: usize,
    pub steps: Vec<Step>,
}

/// The member that the benchmark's clients connect to.
#[derive(Clone, Copy)]
pub enum Target {
    Leader,
    AllMembers,
}

/// One call of the benchmark.
pub struct Step {
    pub name: &'static str,
    pub target: Target,
    /// Requests that it makes.
    pub operations: u64,
    /// Arguments after the flags of every call.
    pub arguments: Vec<String>,
    /// False for preparing steps.
    pub is_measured: bool,
}

/// Bytes of every value that is put.
pub const VALUE_BYTES: usize = 256;
/// What a Kubernetes page asks of a range of this many keys.
const RANGE_KEYS: u64 = 65_536;
const MEMORY_KEYS: u64 = 1_000_000;

/// Every scene, each step's work divided by `divide`.
pub fn all(divide: u64) -> Vec<Scene> {
    let of = |operations: u64| (operations / divide).max(1);
    let point = puts::key(0);
    vec![
        Scene {
            name: "puts and point reads",
            members: 1,
            steps: vec![
                put("put, 1 client", of(4_000), 1, 1),
                put("put, 100 clients", of(100_000), 100, 10),
                put("put, 1000 clients", of(100_000), 1000, 100),
                range(
                    "linearizable point read, 1 client",
                    of(20_000),
                    1,
                    1,
                    "l",
                    &[&point],
                ),
                range(
                    "linearizable point read, 100 clients",
                    of(100_000),
                    100,
                    10,
                    "l",
                    &[&point],
                ),
                range(
                    "serializable point read, 100 clients",
                    of(100_000),
                    100,
                    10,
                    "s",
                    &[&point],
                ),
            ],
        },
        Scene {
            name: "limit 1 of 65,536 keys",
            members: 1,
            steps: vec![
                preparation(put("fill", of(RANGE_KEYS), 100, 10)),
                range(
                    "range limit=1, 1 client",
                    of(1_000),
                    1,
                    1,
                    "l",
                    &["", "--prefix", "--limit=1"],
                ),
                range(
                    "range limit=1, 100 clients",
                    of(4_000),
                    100,
                    10,
                    "l",
                    &["", "--prefix", "--limit=1"],
                ),
            ],
        },
        Scene {
            name: "memory after 1,000,000 keys",
            members: 1,
            steps: vec![put(
                "put 1,000,000 keys, 1000 clients",
                of(MEMORY_KEYS),
                1000,
                100,
            )],
        },
        Scene {
            name: "three members",
            members: 3,
            steps: three_members(divide),
        },
    ]
}

/// The first four are the rows that other Raft stores publish.
fn three_members(divide: u64) -> Vec<Step> {
    let of = |operations: u64| (operations / divide).max(1);
    let point = puts::key(0);
    let read = |name, consistency| range(name, of(60_000), 100, 10, consistency, &[&point]);
    vec![
        put("three: put, 1 client", of(4_000), 1, 1),
        put("three: put, 100 clients", of(40_000), 100, 10),
        read("three: linearizable read, 100 clients", "l"),
        read("three: serializable read, 100 clients", "s"),
        everywhere(put(
            "three: put, 100 clients, all members",
            of(40_000),
            100,
            10,
        )),
        everywhere(read("three: linearizable read, all members", "l")),
    ]
}

fn everywhere(step: Step) -> Step {
    Step {
        target: Target::AllMembers,
        ..step
    }
}

fn preparation(step: Step) -> Step {
    Step {
        is_measured: false,
        ..step
    }
}

fn put(name: &'static str, operations: u64, clients: u64, connections: u64) -> Step {
    let own = [
        "put".to_owned(),
        format!("--val-size={VALUE_BYTES}"),
        "--sequential-keys".to_owned(),
        // Distinct keys: as many as there are puts.
        format!("--key-space-size={operations}"),
    ];
    step(name, operations, clients, connections, own.into())
}

fn range(
    name: &'static str,
    operations: u64,
    clients: u64,
    connections: u64,
    consistency: &str,
    what: &[&str],
) -> Step {
    let mut own = vec!["range".to_owned(), format!("--consistency={consistency}")];
    own.extend(what.iter().map(|word| (*word).to_owned()));
    step(name, operations, clients, connections, own)
}

fn step(
    name: &'static str,
    operations: u64,
    clients: u64,
    connections: u64,
    own: Vec<String>,
) -> Step {
    let mut arguments = own;
    arguments.push(format!("--total={operations}"));
    arguments.push(format!("--clients={clients}"));
    arguments.push(format!("--conns={connections}"));
    Step {
        name,
        target: Target::Leader,
        operations,
        arguments,
        is_measured: true,
    }
}
