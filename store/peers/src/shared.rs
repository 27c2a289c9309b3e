//! State that the handle and the network thread share.

use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::LimitedWarnings;
use crate::doorbell::Doorbell;
use crate::greetings::Greetings;
use crate::intake::Intake;
use crate::local::Local;
use crate::member::Member;
use crate::senders::Senders;

pub(crate) struct Shared {
    pub local: Local,
    pub runtime: Handle,
    pub doorbell: Doorbell,
    pub table: RwLock<Table>,
    pub senders: Senders,
    pub greetings: Arc<Greetings>,
    pub intake: Arc<Intake>,
    /// Becomes true when [`crate::Peers::stop`] is called.
    pub stopping: watch::Sender<bool>,
    /// Rate limit for warnings about refused senders.
    pub refusals: LimitedWarnings,
}

#[derive(Default)]
pub(crate) struct Table {
    pub members: HashMap<u64, Arc<Member>>,
    /// True after [`crate::Peers::stop`]: no member can be added.
    pub stopped: bool,
}

impl Shared {
    pub fn new(local: Local, runtime: Handle) -> Shared {
        Shared {
            greetings: Arc::new(Greetings::new(local.limits.greetings_max)),
            intake: Arc::new(Intake::new(
                local.limits.receiving_bytes_max,
                local.limits.silence_max,
                runtime.clone(),
            )),
            local,
            runtime,
            doorbell: Doorbell::default(),
            table: RwLock::default(),
            senders: Senders::default(),
            stopping: watch::Sender::new(false),
            refusals: LimitedWarnings::default(),
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

    /// Removes the counts of a sender that is neither in the table nor connected.
    pub fn forget_received(&self, from: u64) {
        if self.member(from).is_none() {
            self.senders.forget_unless_connected(from);
        }
    }
}
