//! State that the handle and the network thread share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use environment::Clock;
use environment::randomness::Random;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::doorbell::Doorbell;
use crate::greet::Identity;
use crate::greetings::Greetings;
use crate::intake::Intake;
use crate::member::Member;
use crate::{Handler, Lane, Limits, PeerSecret, Seldom};

pub(crate) struct Shared {
    pub identity: Identity,
    pub release: String,
    pub agreement: String,
    /// See [`crate::PeersOptions::addresses`].
    pub addresses: Vec<String>,
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
    pub handler: Arc<dyn Handler>,
    pub runtime: Handle,
    pub doorbell: Doorbell,
    pub table: RwLock<Table>,
    /// Counts of received frames by sender, including senders that are not in the table.
    received: Mutex<HashMap<u64, Arc<Received>>>,
    /// Incoming connections by sender and lane; a new one ends its predecessor through the
    /// `Notify`.
    incoming: Mutex<HashMap<(u64, Lane), Arc<Notify>>>,
    pub greetings: Arc<Greetings>,
    pub intake: Arc<Intake>,
    /// See [`crate::PeersOptions::secret`].
    pub secret: Option<PeerSecret>,
    /// Becomes true when [`crate::Peers::stop`] is called.
    pub stopping: watch::Sender<bool>,
    /// Rate limit for warnings about refused senders.
    pub refusals: Seldom,
    random: Mutex<Random>,
}

#[derive(Default)]
pub(crate) struct Table {
    pub members: HashMap<u64, Arc<Member>>,
    /// True after [`crate::Peers::stop`]: no member can be added.
    pub stopped: bool,
}

/// The parts of [`Shared`] that come from the options.
pub(crate) struct Given {
    pub identity: Identity,
    pub release: String,
    pub agreement: String,
    pub addresses: Vec<String>,
    pub secret: Option<PeerSecret>,
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
    pub handler: Arc<dyn Handler>,
}

impl Shared {
    pub fn new(given: Given, runtime: Handle, random: Random) -> Shared {
        Shared {
            identity: given.identity,
            release: given.release,
            agreement: given.agreement,
            addresses: given.addresses,
            greetings: Arc::new(Greetings::new(given.limits.greetings_max)),
            intake: Arc::new(Intake::new(
                given.limits.receiving_bytes_max,
                given.limits.silence_max,
                runtime.clone(),
            )),
            secret: given.secret,
            limits: given.limits,
            clock: given.clock,
            handler: given.handler,
            runtime,
            doorbell: Doorbell::default(),
            table: RwLock::default(),
            received: Mutex::default(),
            incoming: Mutex::default(),
            stopping: watch::Sender::new(false),
            refusals: Seldom::default(),
            random: Mutex::new(random),
        }
    }

    pub fn member(&self, id: u64) -> Option<Arc<Member>> {
        self.read_table().members.get(&id).cloned()
    }

    pub fn is_stopped(&self) -> bool {
        self.read_table().stopped
    }

    pub fn read_table(&self) -> RwLockReadGuard<'_, Table> {
        self.table
            .read()
            .expect("no code panics while it holds this lock")
    }

    pub fn write_table(&self) -> RwLockWriteGuard<'_, Table> {
        self.table
            .write()
            .expect("no code panics while it holds this lock")
    }

    pub fn random_below(&self, bound: u64) -> u64 {
        let mut random = self
            .random
            .lock()
            .expect("no code panics while it holds this lock");
        random.below(bound)
    }

    /// Counts of the frames that `from` sends.
    pub fn received_from(&self, from: u64) -> Arc<Received> {
        Arc::clone(self.lock_received().entry(from).or_default())
    }

    /// Locks the table of incoming connections.
    pub fn incoming(&self) -> MutexGuard<'_, HashMap<(u64, Lane), Arc<Notify>>> {
        self.incoming
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// Removes the counts of a sender that is neither in the table nor connected.
    pub fn forget_received(&self, from: u64) {
        if self.member(from).is_some() {
            return;
        }
        let mut received = self.lock_received();
        let idle = received
            .get(&from)
            .is_some_and(|received| received.connected().is_empty());
        if idle {
            received.remove(&from);
        }
    }

    fn lock_received(&self) -> MutexGuard<'_, HashMap<u64, Arc<Received>>> {
        self.received
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

/// Counts of the frames from one sender.
#[derive(Default)]
pub(crate) struct Received {
    frames: AtomicU64,
    bytes: AtomicU64,
    /// Lanes with an open incoming connection.
    connected: Mutex<HashSet<Lane>>,
}

impl Received {
    pub fn count(&self, lane: Lane, bytes: usize) {
        assert_ne!(
            lane,
            Lane::Snapshot,
            "frames of streams are not counted here"
        );
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Frames and bytes so far.
    pub fn totals(&self) -> (u64, u64) {
        let frames = self.frames.load(Ordering::Relaxed);
        (frames, self.bytes.load(Ordering::Relaxed))
    }

    pub fn connected(&self) -> MutexGuard<'_, HashSet<Lane>> {
        self.connected
            .lock()
            .expect("no code panics while it holds this lock")
    }
}
