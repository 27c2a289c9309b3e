//! Whom the connections know.
//!
//! ```text
//!   belongs to the cluster     the members that this member has applied
//!   waits for a snapshot       its contacts: those whom it was told of at its start,
//!                              and those whom they know when a stranger speaks
//! ```
//!
//! A member that waits has applied nothing, and members that were added after its
//! start may lead meanwhile. One that speaks belongs to the cluster, but says no
//! address: the contacts are asked who that is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::{Clock, Instant};
use peers::Peers;
use revisions::{Member, Members};

use crate::Roster;
use crate::transport::address;

/// So long who is asked may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two times of asking: whoever is asked may not have heard yet.
const PAUSE: Duration = Duration::from_millis(500);

/// The table of the connections, and who belongs into it.
pub(crate) struct Acquaintances {
    peers: Peers,
    cluster_id: u64,
    member_id: u64,
    clock: Arc<dyn Clock>,
    /// This member belongs to the cluster, or knows that it did: nobody need be asked.
    belongs: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    contacts: Vec<Member>,
    /// Whom the connections know.
    table: BTreeSet<u64>,
    is_asking: bool,
    ask_at: Instant,
}

impl std::fmt::Debug for Acquaintances {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Acquaintances")
            .field("member_id", &self.member_id)
            .field("table", &self.known().table)
            .finish_non_exhaustive()
    }
}

impl Acquaintances {
    pub fn new(
        peers: Peers,
        (cluster_id, member_id): (u64, u64),
        contacts: Vec<Member>,
        clock: Arc<dyn Clock>,
    ) -> Acquaintances {
        let known = Known {
            contacts,
            ..Known::default()
        };
        Acquaintances {
            peers,
            cluster_id,
            member_id,
            clock,
            belongs: AtomicBool::new(true),
            known: Mutex::new(known),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the members, as far as this one has applied.
    pub fn set_members(&self, members: &Members) {
        let belongs = members.get(self.member_id).is_some();
        self.belongs.store(belongs, Ordering::Relaxed);
        let mut known = self.known();
        let contacts = known.contacts.iter().filter(|_| !belongs);
        let contacts = contacts.filter(|contact| !members.is_removed(contact.id));
        let others: Vec<Member> = contacts.chain(members.iter()).cloned().collect();
        self.fill_table(&mut known, &others);
    }

    fn fill_table(&self, known: &mut Known, members: &[Member]) {
        let mut present = BTreeSet::new();
        for member in members.iter().filter(|it| it.id != self.member_id) {
            present.insert(member.id);
            let addresses = member.peer_urls.iter().filter_map(|url| address(url));
            if let Err(error) = self.peers.set_member(member.id, addresses.collect()) {
                tracing::warn!(member = format!("{:x}", member.id), %error, "no way to a member");
            }
        }
        for gone in known.table.difference(&present) {
            self.peers.remove_member(*gone);
            self.peers.turn_away(*gone);
        }
        known.table = present;
    }

    /// A member speaks. While this one waits for its first snapshot, it may be a
    /// stranger: then the others are asked for its address.
    pub fn meet(self: &Arc<Acquaintances>, from: u64) {
        if self.belongs.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.known();
        let now = self.clock.now();
        if known.table.contains(&from) || known.is_asking || now < known.ask_at {
            return;
        }
        let urls = known.contacts.iter().flat_map(|it| it.peer_urls.clone());
        let urls: Vec<String> = urls.collect();
        if urls.is_empty() {
            return;
        }
        let here = Arc::clone(self);
        match Roster::ask_aside(urls, PATIENCE, move |told| here.learn(told)) {
            Ok(()) => known.is_asking = true,
            Err(error) => {
                known.ask_at = now + PAUSE;
                tracing::warn!(%error, "no thread to ask who speaks");
            }
        }
    }

    /// What the contacts know, the newest first.
    fn learn(&self, rosters: Vec<Roster>) {
        let mut known = self.known();
        known.is_asking = false;
        known.ask_at = self.clock.now() + PAUSE;
        let mut rosters = rosters.into_iter();
        let newest = rosters.find(|roster| roster.cluster_id == self.cluster_id);
        let Some(newest) = newest.filter(|_| !self.belongs.load(Ordering::Relaxed)) else {
            return;
        };
        known.contacts = newest.members.clone();
        self.fill_table(&mut known, &newest.members);
    }
}
