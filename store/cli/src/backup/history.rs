//! A history that is being written: what the parts of `run` share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use backup::{Anchor, BackupSession, Error};
use etcd_api::etcdserverpb::ResponseHeader;
use tokio::sync::Notify;

use super::queue::TailQueue;
use super::said::Said;
use crate::client::Endpoints;
use crate::failure::Failure;

/// How often which thing is done.
#[derive(Debug)]
pub(super) struct Rhythm {
    /// Age at which changes are stored.
    pub tail_every: Duration,
    pub base_every: Duration,
    pub hash_every: Duration,
    pub keep: Duration,
    pub bases_min: usize,
}

/// How far the parts are.
#[derive(Debug)]
pub(super) struct Reached {
    /// The newest revision that was received, with its mark; `None`: nothing is to be proved.
    pub anchor: Cell<Option<Anchor>>,
    /// The newest revision that is stored.
    pub stored: Cell<i64>,
    /// The newest revision of the cluster that an answer named.
    pub seen: Cell<i64>,
    /// Number of the state of users in the newest base; 0: there is none.
    pub base_users: Cell<u64>,
    /// Number of the state of users that the cluster answered last; 0: it was not asked.
    pub cluster_users: Cell<u64>,
    /// Whether the cluster was asked for its leases.
    pub is_polled: Cell<bool>,
    /// Whether what waits is to be stored at once.
    pub ends: Cell<bool>,
}

impl Reached {
    /// Whether the newest base has the users that the cluster answered last.
    pub(super) fn has_users(&self) -> bool {
        self.cluster_users.get() != 0 && self.cluster_users.get() == self.base_users.get()
    }
}

/// Wakes parts.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// A base.
    pub base: Notify,
    /// A look whether objects can be merged.
    pub merge: Notify,
    /// A watch at the next endpoint.
    pub watch: Notify,
}

/// A history that is being written.
pub(super) struct HistoryWriter {
    pub endpoints: Rc<Endpoints>,
    pub cluster: u64,
    pub session: BackupSession,
    pub rhythm: Rhythm,
    pub queue: TailQueue,
    /// Leases that are known, with their seconds.
    pub leases: RefCell<BTreeMap<i64, i64>>,
    pub reached: Reached,
    pub wanted: Wanted,
    pub said: Said,
}

impl HistoryWriter {
    /// Says that the store did not do something, and that it is tried again.
    pub(super) fn notice(&self, error: &Error) {
        self.said
            .trouble("store", &format!("{error}; trying again"));
    }

    /// Refuses an answer of another cluster.
    pub(super) fn check(&self, header: Option<&ResponseHeader>) -> Result<(), Failure> {
        let header = header.copied().unwrap_or_default();
        if header.cluster_id != self.cluster {
            return Err(Failure::failed(
                format_args!(
                    "the server is of cluster {:x}, and this backup is of cluster {:x}",
                    header.cluster_id, self.cluster
                ),
                "Name endpoints of one cluster; another `backup run`, also to the same place, backs \
                 the other cluster up.",
            ));
        }
        let seen = &self.reached.seen;
        seen.set(seen.get().max(header.revision));
        Ok(())
    }
}

/// The failure for a place or an object.
pub(super) fn failure(error: Error) -> Failure {
    let remedy = match &error {
        Error::Store { .. } => {
            "Check the URL, the credentials in the environment and their rights."
        }
        Error::Late { .. } => "Check the network between here and the store.",
        Error::Different { .. } => {
            "The file was not written. Restore a revision that only another base needs (`backup list` \
             shows bases), and report this."
        }
        _ => "",
    };
    Failure::failed(error, remedy)
}
