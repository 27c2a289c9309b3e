//! The members that the connections know, their addresses, and which senders are admitted.
//!
//! ```text
//!   which members            where a member is reached, tried in this order
//!   ─────────────            ──────────────────────────────────────────────
//!   applied here             the peer URLs that are applied here
//!   in a member's list       the peer URLs in that list
//!   contacts, until the      the addresses that it announced itself, in the hello of a
//!   first are applied        connection that it opened
//! ```
//!
//! While a member was down, others may have moved to other addresses, and a member that it
//! does not know may have become the leader. A member that moved announces its new address.
//! An announcement counts only for its sender, and only as one more address. A sender with an
//! unknown id is not admitted on its own claim. This member asks the known members, and the
//! peer URLs that the operator listed; a sender that is in one of their member lists is admitted
//! when it connects again. With a peer secret, a sender has proved its membership better than
//! a member list could, and is reached at the addresses that it announced.
//! docs/decisions/0022-addresses-of-members.md

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Clock, Instant};
use peers::Peers;
use revisions::{Member, Members};

use crate::lock::lock;
use crate::transport::{address, url};
use crate::{MemberList, Network};

/// Time limit for a member's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// First pause between two questions about unknown senders: a member that is asked may not
/// have applied the change yet. The pause doubles each time that the answers have nothing
/// new.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause between questions about unknown senders, which may connect at any rate.
const STRANGER_PAUSE_MAX: Duration = Duration::from_secs(4);
/// Longest pause between questions about members that cannot be reached.
const SEARCH_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most unknown senders with the peer secret for which announced addresses are kept.
const NEWCOMERS_MAX: usize = 64;
/// Most addresses of one member that are tried.
const ADDRESSES_MAX: usize = 16;

/// The table of the connections, and the rules by which members get into it.
pub(crate) struct PeerTable {
    pub peers: Peers,
    member_id: u64,
    /// Without its listeners and contacts.
    network: Network,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Members to contact while this one waits for its first snapshot.
    contacts: Vec<Member>,
    /// The members that this one has applied.
    members: Vec<Member>,
    /// Ids of removed members, which are never used again.
    removed: BTreeSet<u64>,
    /// The members of the newest member list that a known member has sent.
    received: Vec<Member>,
    /// Addresses that senders announced as their own.
    announced: BTreeMap<u64, Vec<String>>,
    /// Ids that the connections know.
    table: BTreeSet<u64>,
    /// This member has applied that it belongs to the cluster.
    belongs: bool,
    is_asking: bool,
    strangers: Pause,
    search: Pause,
}

/// The time before which no further question is asked.
#[derive(Default)]
struct Pause {
    until: Instant,
    next: Duration,
}

impl Pause {
    fn begin(&mut self, now: Instant, max: Duration) {
        let pause = self.next.max(PAUSE_MIN);
        self.until = now + pause;
        self.next = (pause * 2).min(max);
    }

    fn reset(&mut self) {
        *self = Pause::default();
    }
}

impl PeerTable {
    pub fn new(
        peers: Peers,
        member_id: u64,
        mut network: Network,
        clock: Arc<dyn Clock>,
    ) -> PeerTable {
        let known = Known {
            contacts: std::mem::take(&mut network.contacts),
            ..Known::default()
        };
        PeerTable {
            peers,
            member_id,
            network,
            clock,
            known: Mutex::new(known),
        }
    }

    /// Takes over the members that this one has applied.
    pub fn set_members(&self, members: &Members) {
        let mut guard = lock(&self.known);
        let known = &mut *guard;
        known.belongs = members.get(self.member_id).is_some();
        known.members = members.iter().cloned().collect();
        known.removed = members.removed().collect();
        let removed = &known.removed;
        known.announced.retain(|id, _| !removed.contains(id));
        known.strangers.reset();
        known.search.reset();
        self.fill_table(known);
    }

    fn fill_table(&self, known: &mut Known) {
        let table = known.addresses(self.member_id, self.network.credentials.secret.is_some());
        for (id, addresses) in &table {
            if let Err(error) = self.peers.set_member(*id, addresses.clone()) {
                let member = format!("{id:x}");
                tracing::warn!(member, %error, "the addresses of a member cannot be used");
            }
        }
        for gone in known.table.iter().filter(|id| !table.contains_key(id)) {
            self.peers.remove_member(*gone);
            self.peers.disconnect(*gone);
        }
        known.table = table.into_keys().collect();
    }

    /// Takes the addresses that an admitted sender announces as its own. If it announced others
    /// before, it has moved, and connections to other addresses are closed.
    pub fn announced(&self, sender: u64, addresses: &[String]) {
        let mut known = lock(&self.known);
        if sender == self.member_id || known.removed.contains(&sender) {
            return;
        }
        let is_newcomer = !known.table.contains(&sender);
        if is_newcomer
            && (self.network.credentials.secret.is_none() || known.newcomers() >= NEWCOMERS_MAX)
        {
            return;
        }
        let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
        let former = known.announced.insert(sender, addresses.to_vec());
        if former.as_deref() == Some(addresses) {
            return;
        }
        self.fill_table(&mut known);
        if former.is_some() {
            self.peers.moved(sender, addresses);
        }
    }

    /// Ids of the other members that the connections know.
    pub fn members(&self) -> Vec<u64> {
        lock(&self.known).table.iter().copied().collect()
    }

    /// Whether a sender is a member, as far as this one knows. If not, the known members are
    /// asked; their answer counts when the sender connects again.
    pub fn admits(self: &Arc<PeerTable>, sender: u64) -> bool {
        let mut known = lock(&self.known);
        if known.table.contains(&sender) {
            return true;
        }
        let now = self.clock.now();
        if !known.removed.contains(&sender) && now >= known.strangers.until {
            self.ask(&mut known);
        }
        false
    }

    /// Asks the other members for the addresses of one that cannot be reached.
    pub fn out_of_reach(self: &Arc<PeerTable>, member: u64) {
        let mut known = lock(&self.known);
        let now = self.clock.now();
        if known.table.contains(&member) && now >= known.search.until {
            known.search.begin(now, SEARCH_PAUSE_MAX);
            self.ask(&mut known);
        }
    }

    /// Asks the known members, and the listed peer URLs, for their member lists.
    fn ask(self: &Arc<PeerTable>, known: &mut Known) {
        if known.is_asking {
            return;
        }
        let table = known.addresses(self.member_id, false);
        let addresses = table.into_values().flatten();
        let urls = addresses.map(|address| url(&address));
        let mut urls: Vec<String> = urls.chain(self.network.listed.iter().cloned()).collect();
        urls.sort_unstable();
        urls.dedup();
        if urls.is_empty() {
            return;
        }
        let here = Arc::clone(self);
        let credentials = self.network.credentials.clone();
        let asking = MemberList::ask_aside(urls, ANSWER_TIMEOUT, credentials, move |asked| {
            here.learn(asked.map_or_else(|_| Vec::new(), |(lists, _)| lists));
        });
        match asking {
            Ok(_) => known.is_asking = true,
            Err(error) => {
                known.strangers.begin(self.clock.now(), STRANGER_PAUSE_MAX);
                tracing::warn!(%error, "cannot start a thread to ask members for their member lists");
            }
        }
    }

    /// Takes over the newest of the member lists that arrived.
    fn learn(&self, lists: Vec<MemberList>) {
        let mut known = lock(&self.known);
        known.is_asking = false;
        known.strangers.begin(self.clock.now(), STRANGER_PAUSE_MAX);
        let mut lists = lists.into_iter();
        let Some(newest) = lists.find(|list| list.cluster_id == self.network.cluster_id) else {
            return;
        };
        if known.learn(newest) {
            known.strangers.reset();
            known.search.reset();
            self.fill_table(&mut known);
        }
    }
}

impl Known {
    /// The addresses of each member besides this one. If `trusts_newcomers`, unknown senders
    /// that announced addresses count as members.
    fn addresses(&self, own_id: u64, trusts_newcomers: bool) -> BTreeMap<u64, Vec<String>> {
        let mut table: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let contacts = self.contacts.iter().filter(|_| !self.belongs);
        for member in self.members.iter().chain(&self.received).chain(contacts) {
            let addresses = member.peer_urls.iter().filter_map(|url| address(url));
            table.entry(member.id).or_default().extend(addresses);
        }
        for (id, addresses) in &self.announced {
            if trusts_newcomers || table.contains_key(id) {
                let known = table.entry(*id).or_default();
                known.extend(addresses.iter().cloned());
            }
        }
        table.retain(|id, _| *id != own_id && !self.removed.contains(id));
        table.values_mut().for_each(|addresses| {
            let mut seen = BTreeSet::new();
            addresses.retain(|address| seen.insert(address.clone()));
            addresses.truncate(ADDRESSES_MAX);
        });
        table
    }

    /// Number of senders of which only their announcements are known.
    fn newcomers(&self) -> usize {
        let named = || {
            self.members
                .iter()
                .chain(&self.received)
                .chain(&self.contacts)
        };
        let is_new = |id: &&u64| !named().any(|member| member.id == **id);
        self.announced.keys().filter(is_new).count()
    }

    /// Takes over a member list; returns whether it has anything new.
    fn learn(&mut self, list: MemberList) -> bool {
        let is_news = self.received != list.members;
        self.received = list.members;
        if !self.belongs {
            // The contacts of the start may have left the cluster since then.
            self.contacts.clear();
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, port: u16) -> Member {
        Member {
            id,
            peer_urls: vec![format!("http://h:{port}")],
            ..Member::default()
        }
    }

    fn known() -> Known {
        Known {
            members: vec![member(1, 1), member(2, 2), member(3, 3)],
            belongs: true,
            ..Known::default()
        }
    }

    fn reached(known: &Known, trusts_newcomers: bool) -> Vec<(u64, String)> {
        let table = known.addresses(1, trusts_newcomers).into_iter();
        table.map(|(id, all)| (id, all.join(" "))).collect()
    }

    #[test]
    fn applied_addresses_come_first_and_announced_ones_last() {
        let mut known = known();
        assert!(known.learn(MemberList {
            members: vec![member(1, 11), member(2, 22), member(3, 3), member(4, 4)],
            ..MemberList::default()
        }));
        known
            .announced
            .insert(2, vec!["h:222".into(), "h:2".into()]);
        let expected = [(2, "h:2 h:22 h:222"), (3, "h:3"), (4, "h:4")];
        let expected = expected.map(|(id, all)| (id, all.to_owned()));
        assert_eq!(reached(&known, false), expected);
    }

    #[test]
    fn an_announcement_of_an_unknown_sender_counts_only_with_the_secret() {
        let mut known = known();
        known.announced.insert(9, vec!["h:9".into()]);
        assert_eq!(reached(&known, false).len(), 2);
        assert_eq!(reached(&known, true)[2], (9, "h:9".to_owned()));
        assert_eq!(known.newcomers(), 1);
        known.removed.insert(9);
        assert_eq!(reached(&known, true).len(), 2);
    }

    #[test]
    fn contacts_count_until_this_member_belongs() {
        let mut known = Known {
            contacts: vec![member(5, 5)],
            ..Known::default()
        };
        assert_eq!(reached(&known, false), [(5, "h:5".to_owned())]);
        known.belongs = true;
        assert_eq!(reached(&known, false), []);
    }

    #[test]
    fn the_addresses_of_one_member_are_bounded() {
        let mut known = known();
        let many = (0..100).map(|port| format!("h:{port}"));
        known.announced.insert(2, many.collect());
        assert_eq!(known.addresses(1, false)[&2].len(), ADDRESSES_MAX);
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let mut pause = Pause::default();
        let now = Instant::default();
        let mut seen = Vec::new();
        for _ in 0..6 {
            pause.begin(now, STRANGER_PAUSE_MAX);
            seen.push(pause.until.saturating_since(now).as_millis());
        }
        assert_eq!(seen, [250, 500, 1000, 2000, 4000, 4000]);
        pause.reset();
        pause.begin(now, STRANGER_PAUSE_MAX);
        assert_eq!(pause.until.saturating_since(now), PAUSE_MIN);
    }
}
