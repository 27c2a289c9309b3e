//! Three members, each with a directory of its own, for the tests.

#![expect(clippy::disallowed_methods, reason = "a member is given bound sockets")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use environment::Clock;
use environment::real::RealClock;
use inkstone::{Answer, Error, Node, NodeOptions, Remedy};

pub const NAMES: [&str; 3] = ["a", "b", "c"];

pub struct Three {
    addresses: Vec<String>,
    nodes: Vec<Option<Node>>,
    place: tempfile::TempDir,
}

impl Three {
    /// Three members, each of which may become the leader.
    pub fn start() -> Three {
        Three::start_with(|options, _| options)
    }

    /// Three members of which only the first stands for election within an hour, unless the
    /// lead is transferred.
    pub fn start_with_patience() -> Three {
        Three::start_with(|options, number| match number {
            0 => options,
            _ => options.election_timeout(Duration::from_secs(3600)),
        })
    }

    fn start_with(change: impl Fn(NodeOptions, usize) -> NodeOptions) -> Three {
        let listeners: Vec<_> = NAMES.iter().map(|_| listener()).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let mut three = Three {
            addresses: listeners.iter().map(address).collect(),
            nodes: Vec::new(),
            place: tempfile::tempdir().unwrap(),
        };
        let options = listeners
            .into_iter()
            .enumerate()
            .map(|(number, listener)| change(three.founding(number).listener(listener), number));
        let options: Vec<NodeOptions> = options.collect();
        // All start at the same time, because each asks the others first.
        three.nodes = std::thread::scope(|scope| {
            let start = |options: NodeOptions| scope.spawn(|| options.start().unwrap());
            let starting: Vec<_> = options.into_iter().map(start).collect();
            let started = starting.into_iter().map(|thread| thread.join().unwrap());
            started.map(Some).collect()
        });
        three
    }

    /// Options with the name of the member only, without founders.
    pub fn options(&self, number: usize) -> NodeOptions {
        self.named(NAMES[number])
    }

    /// Options of a member with this name, one of the three or another.
    pub fn named(&self, name: &str) -> NodeOptions {
        NodeOptions::new(name, self.place.path().join(name))
            .segment_bytes(1 << 20)
            .heartbeat_interval(Duration::from_millis(20))
            .election_timeout(Duration::from_millis(200))
    }

    /// Options of the first start, with all founders.
    pub fn founding(&self, number: usize) -> NodeOptions {
        let members = NAMES.iter().zip(&self.addresses);
        members.fold(self.options(number), |options, (name, address)| {
            options.founder(*name, address)
        })
    }

    pub fn directory(&self, number: usize) -> PathBuf {
        self.place.path().join(NAMES[number])
    }

    pub fn address(&self, number: usize) -> &str {
        &self.addresses[number]
    }

    pub fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().unwrap()
    }

    pub fn stop(&mut self, number: usize) {
        self.nodes[number].take().unwrap().stop();
    }

    /// Starts a member again without founders, from its directory.
    pub fn restart(&mut self, number: usize) {
        self.nodes[number] = Some(self.options(number).start().unwrap());
    }

    /// Index of the leader among the three, as member `asked` knows it.
    pub fn leader(&self, asked: usize) -> usize {
        let led = self.node(asked).wait_for_leader().wait().unwrap();
        let running = |number: &usize| self.nodes[*number].is_some();
        let mut numbers = (0..3).filter(running);
        let found = numbers.find(|&number| Some(self.node(number).id()) == led.leader);
        found.expect("the leader is one of the running members")
    }
}

pub fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A listening socket and its address.
pub fn door() -> (TcpListener, String) {
    let listener = listener();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Repeats `look` until it returns a value; panics after a time limit.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = look() {
            return found;
        }
        RealClock.sleep(Duration::from_millis(10));
    }
    panic!("{what}: not in time");
}

/// Repeats a call while the leader changes.
pub fn surely<T>(call: impl Fn() -> Result<T, Error>) -> T {
    for _ in 0..100 {
        match call() {
            Ok(outcome) => return outcome,
            Err(error) if [Remedy::LookFirst, Remedy::Retry].contains(&error.remedy()) => {
                eprintln!("again: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no leader was found");
}

pub fn put(node: &Node, key: &str, value: &str) -> i64 {
    surely(|| node.put(key.to_owned(), value.to_owned()).wait())
}

/// Reads a key linearizably.
pub fn get(node: &Node, key: &str) -> Option<String> {
    let found = surely(|| node.get(key).wait());
    found.map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
}

/// The outcome of an answer that must arrive within a time limit.
pub fn in_time<T>(mut answer: Answer<'_, T>) -> Result<T, Error> {
    let outcome = answer.wait_at_most(Duration::from_secs(60));
    outcome.expect("the answer did not arrive in time")
}
