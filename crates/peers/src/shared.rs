//! What the handle and the network thread both see.

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
    /// Connections that came in, by sender; what a member of the table sent
    /// before it was in the table counts as well.
    received: Mutex<HashMap<u64, Arc<Received>>>,
    /// The newest connection of each sender and lane replaces its elder.
    incoming: Mutex<HashMap<(u64, Lane), Arc<Notify>>>,
    pub greetings: Arc<Greetings>,
    pub intake: Arc<Intake>,
    /// What all members know and no stranger does.
    pub secret: Option<PeerSecret>,
    /// True once [`crate::Peers::stop`] was called.
    pub stopping: watch::Sender<bool>,
    /// Warnings of senders that were refused; a stranger that comes again and again
    /// is named seldom.
    pub refusals: Seldom,
    random: Mutex<Random>,
}

#[derive(Default)]
pub(crate) struct Table {
    pub members: HashMap<u64, Arc<Member>>,
    /// Nobody is let in any more.
    pub stopped: bool,
}

/// The parts of [`Shared`] that the caller decides.
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
            .expect("nobody panics with this lock held")
    }

    pub fn write_table(&self) -> RwLockWriteGuard<'_, Table> {
        self.table
            .write()
            .expect("nobody panics with this lock held")
    }

    pub fn random_below(&self, bound: u64) -> u64 {
        let mut random = self
            .random
            .lock()
            .expect("nobody panics with this lock held");
        random.below(bound)
    }

    /// The accounts of what `from` sends.
    pub fn received_from(&self, from: u64) -> Arc<Received> {
        Arc::clone(self.lock_received().entry(from).or_default())
    }

    /// The connections that came in.
    pub fn incoming(&self) -> MutexGuard<'_, HashMap<(u64, Lane), Arc<Notify>>> {
        self.incoming
            .lock()
            .expect("nobody panics with this lock held")
    }

    /// Closes the accounts of one who is neither in the table nor connected.
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
            .expect("nobody panics with this lock held")
    }
}

/// What came from one member.
#[derive(Default)]
pub(crate) struct Received {
    frames: AtomicU64,
    bytes: AtomicU64,
    /// Lanes on which a connection came in and has not ended.
    connected: Mutex<HashSet<Lane>>,
}

impl Received {
    pub fn count(&self, lane: Lane, bytes: usize) {
        assert_ne!(lane, Lane::Snapshot, "streams count for themselves");
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
            .expect("nobody panics with this lock held")
    }
}
