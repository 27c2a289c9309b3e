//! State that the handle and the network thread share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use environment::Instant;
use environment::randomness::Random;
use tls::Greetings;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::doorbell::Doorbell;
use crate::intake::Intake;
use crate::member::Member;
use crate::senders::Senders;
use crate::{Handler, LimitedWarnings, PeersOptions};

pub(crate) struct Shared {
    /// Without the listeners.
    pub options: PeersOptions,
    pub handler: Arc<dyn Handler>,
    pub random: Mutex<Random>,
    pub runtime: Handle,
    pub doorbell: Doorbell,
    pub table: RwLock<Table>,
    pub senders: Senders,
    pub greetings: Arc<Greetings>,
    pub intake: Arc<Intake>,
    /// Becomes true when [`crate::Peers::stop`] is called.
    pub stopping: watch::Sender<bool>,
    /// Rate limit for warnings about refused senders.
    refusals: LimitedWarnings,
}

#[derive(Default)]
pub(crate) struct Table {
    pub members: HashMap<u64, Arc<Member>>,
    /// True after [`crate::Peers::stop`]: no member can be added.
    pub stopped: bool,
}

impl Shared {
    pub fn new(
        options: PeersOptions,
        handler: Arc<dyn Handler>,
        random: Random,
        runtime: Handle,
    ) -> Shared {
        let limits = &options.limits;
        Shared {
            greetings: Arc::new(Greetings::new(limits.greetings_max)),
            intake: Arc::new(Intake::new(
                limits.receiving_bytes_max,
                limits.silence_max,
                runtime.clone(),
            )),
            options,
            handler,
            random: Mutex::new(random),
            runtime,
            doorbell: Doorbell::default(),
            table: RwLock::default(),
            senders: Senders::default(),
            stopping: watch::Sender::new(false),
            refusals: LimitedWarnings::default(),
        }
    }

    pub fn now(&self) -> Instant {
        self.options.clock.now()
    }

    /// Logs a warning about a sender or a connection, not too often.
    pub fn warn(&self, line: String) {
        self.refusals.warn(self.now(), line);
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

    /// Removes the counts of a sender that is neither in the table nor connected.
    pub fn forget_received(&self, from: u64) {
        if self.member(from).is_none() {
            self.senders.forget_unless_connected(from);
        }
    }
}
