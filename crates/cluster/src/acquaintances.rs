//! The members that the connections know, and let in.
//!
//! ```text
//!   belongs to the cluster     the members that this member has applied, and those that
//!                              these have vouched for
//!   waits for a snapshot       its contacts: the members that it was given at its start,
//!                              and those that they have vouched for
//! ```
//!
//! A member that waits has applied nothing, and one that was down may have missed
//! much: members that were added meanwhile may lead. A sender of unknown id is not let
//! in because it says that it is one of them. The known members are asked, at the
//! addresses that they are known under; a sender that one of their rosters names is let
//! in when it comes again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::{Clock, Instant};
use peers::{PeerSecret, Peers};
use revisions::{Member, Members};

use crate::Roster;
use crate::transport::address;

/// So long who is asked may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two times of asking: a member that is asked may not have heard yet. Each
/// time that nothing new is heard doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest of these pauses: strangers may come as often as they like.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// The table of the connections, and who belongs into it.
pub(crate) struct Acquaintances {
    peers: Peers,
    cluster_id: u64,
    member_id: u64,
    secret: Option<PeerSecret>,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// While this member waits for a snapshot.
    contacts: Vec<Member>,
    /// The members that this one has applied.
    members: Vec<Member>,
    /// Ids that never return.
    removed: BTreeSet<u64>,
    /// Members that a known member's roster names, and that are not applied here.
    vouched_for: Vec<Member>,
    /// Ids that the connections know.
    table: BTreeSet<u64>,
    /// This member belongs to the cluster.
    belongs: bool,
    is_asking: bool,
    ask_at: Instant,
    pause: Duration,
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
        (contacts, secret): (Vec<Member>, Option<PeerSecret>),
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
            secret,
            clock,
            known: Mutex::new(known),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the members, as far as this one has applied.
    pub fn set_members(&self, members: &Members) {
        let mut known = self.known();
        known.belongs = members.get(self.member_id).is_some();
        known.members = members.iter().cloned().collect();
        known.removed = members.removed().collect();
        known.pause = PAUSE_MIN;
        self.fill_table(&mut known);
    }

    fn fill_table(&self, known: &mut Known) {
        let mut present = BTreeSet::new();
        for member in known.others(self.member_id) {
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

    /// Whether a sender is a member, as far as this one knows or is told by those that
    /// it knows. If not, they are asked; the sender comes again.
    pub fn admits(self: &Arc<Acquaintances>, sender: u64) -> bool {
        let mut known = self.known();
        if known.table.contains(&sender) {
            return true;
        }
        let now = self.clock.now();
        if known.removed.contains(&sender) || known.is_asking || now < known.ask_at {
            return false;
        }
        let others = known.others(self.member_id);
        let urls: Vec<String> = others.flat_map(|it| it.peer_urls.clone()).collect();
        if urls.is_empty() {
            return false;
        }
        let here = Arc::clone(self);
        let secret = self.secret.clone();
        match Roster::ask_aside(urls, PATIENCE, secret, move |told| here.learn(told)) {
            Ok(()) => known.is_asking = true,
            Err(error) => {
                known.wait(now);
                tracing::warn!(%error, "no thread to ask the members for a sender");
            }
        }
        false
    }

    /// What the known members know, the newest first.
    fn learn(&self, rosters: Vec<Roster>) {
        let mut known = self.known();
        known.is_asking = false;
        known.wait(self.clock.now());
        let mut rosters = rosters.into_iter();
        let Some(newest) = rosters.find(|roster| roster.cluster_id == self.cluster_id) else {
            return;
        };
        if known.learn(&newest) {
            known.pause = PAUSE_MIN;
            self.fill_table(&mut known);
        }
    }
}

impl Known {
    /// The members besides this one that belong into the table, each once: as it is
    /// applied here, or else as others say.
    fn others(&self, own_id: u64) -> impl Iterator<Item = &Member> {
        let contacts = self.contacts.iter().filter(|_| !self.belongs);
        let told = self.vouched_for.iter().chain(contacts);
        let told = told.filter(|member| !self.members.iter().any(|it| it.id == member.id));
        let mut seen = BTreeSet::from([own_id]);
        let all = self.members.iter().chain(told);
        all.filter(move |member| !self.removed.contains(&member.id) && seen.insert(member.id))
    }

    /// Takes over which members there are besides those applied here. False: nothing new.
    fn learn(&mut self, roster: &Roster) -> bool {
        let is_new = |member: &&Member| {
            let is_applied = self.members.iter().any(|it| it.id == member.id);
            !is_applied && !self.removed.contains(&member.id)
        };
        let told: Vec<Member> = roster.members.iter().filter(is_new).cloned().collect();
        let is_news = told != self.vouched_for;
        self.vouched_for = told;
        if !self.belongs {
            // The contacts of the start may have gone meanwhile.
            self.contacts.clear();
        }
        is_news
    }

    /// The members are asked again after a pause.
    fn wait(&mut self, now: Instant) {
        self.ask_at = now + self.pause;
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}
