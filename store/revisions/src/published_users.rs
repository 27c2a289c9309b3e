//! The users and roles that request tasks read: beside the applied state, because they are asked
//! for with every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use auth::Auth;
use environment::Mutex;

use crate::Command;

/// The applied users and roles, for request tasks.
#[derive(Debug, Default)]
pub(crate) struct PublishedUsers {
    are_checked: AtomicBool,
    /// Grows with each change; odd while a batch that changes users is being applied. A read that
    /// finds another number after it than before it may have seen keys of one moment and users of
    /// another.
    version: AtomicU64,
    current: Mutex<Arc<Auth>>,
}

impl PublishedUsers {
    /// Announces a change, before the keys of its batch can be read.
    pub fn begin_change(&self) {
        self.version.fetch_or(1, Ordering::AcqRel);
    }

    /// Makes users readable, and ends a change.
    pub fn publish(&self, auth: &Arc<Auth>) {
        *self.current.lock() = Arc::clone(auth);
        self.are_checked.store(auth.is_enabled(), Ordering::Release);
        let version = self.version.load(Ordering::Acquire);
        self.version.store((version | 1) + 1, Ordering::Release);
    }

    /// Makes a command that this member itself asks for pass while users are checked. Without
    /// them it stays as it is, so that members of earlier releases understand it.
    pub fn own_command(&self, command: Command) -> Command {
        match self.are_checked.load(Ordering::Acquire) {
            true => command.by_member(),
            false => command,
        }
    }

    /// Whether users are checked: one load.
    pub fn are_checked(&self) -> bool {
        self.are_checked.load(Ordering::Acquire)
    }

    /// Number that changes with every change of the users; odd during one.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The users and roles.
    pub fn current(&self) -> Arc<Auth> {
        Arc::clone(&self.current.lock())
    }
}
