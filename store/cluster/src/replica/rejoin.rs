//! How a member rejoins that may have lost the tail of its log, entries that it has
//! acknowledged, for example in a loss of power.
//!
//! ```text
//!              ┌── accepted: a leader forgets the former incarnations, names an ───┐
//!   Rejoining ─┤   index, and this member's commit index reaches it                ├─► whole
//!              │                                                                   │
//!              └── all voters answered ──► votes for logs at the floor or above ───┘
//!                                          until its own log is one
//! ```
//!
//! A rejoining member neither stands for election nor votes, except for logs at the floor
//! or above. It appends entries and confirms those that it has, as any member does.
//!
//! **Accepted by a leader.** A member confirms entries only to leaders of terms up to its own, and its
//! term is always on its device. A leader of that term or a later one has in its log, in
//! front of its own first entry, all entries that were committed in earlier terms; and the
//! entries that it commits after it has forgotten this member's former
//! incarnations do not rely on their confirmations. So the leader names its commit index, or the index of its own
//! first entry if that is not committed yet. A member that has committed this index has
//! stored every committed entry that its former incarnations acknowledged. The leader need not be
//! sure that it still leads: the former incarnations never confirmed entries of later terms.
//!
//! **All voters answered.** First every other voter learns of this incarnation, so that
//! none relies on the former ones any more; then each says where its log ends. Every entry that
//! was committed with this member's help, and that any of those voters still has, lies at
//! or below the greatest of these ends: the floor. A log at the floor or above it, in the
//! order of logs that decides elections, has all of these entries. Both rounds are needed:
//! with one, a voter might answer, and afterwards help to commit an entry together with a
//! former incarnation, which its answer does not cover.
//!
//! The voters that have to answer are those of the configuration that this member has
//! applied, and of the configurations that those voters have applied. Before a new voter
//! counts for anything, a leader has applied the change that makes it a voter, and has the
//! change on its device; so one of the voters knows of it. A removed voter need not answer
//! if another voter reports its removal: that one has applied the removal, and so has all
//! entries that the removed voter helped to commit.
//!
//! Invariant: a member that may lack acknowledged entries says so in its directory
//! (`identity_files/life.rs`) before it sends its first message, so that a restart in between does not
//! make it whole.

mod incarnation;
mod peer_incarnations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use environment::Instant;
use raft::eraftpb::Message;

use super::options::ReplicaOptions;
use super::replica_core::Core;
use crate::peer_message::{PeerMessage, RejoinAccepted, RejoinQuestion, RejoinReply};
use crate::{EntryId, Error, Mutant};

pub(super) use incarnation::Incarnation;
use peer_incarnations::{Judged, PeerIncarnations};

/// Time between two log lines on what a rejoining member waits for.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The known incarnations of this member and the others, and whether this member rejoins.
#[derive(Debug)]
pub(super) struct Rejoin {
    pub incarnation: Incarnation,
    /// Set while this member may lack entries that it has acknowledged.
    rejoining: Option<Rejoining>,
    peers: PeerIncarnations,
}

/// The state of a member that rejoins.
#[derive(Debug, Default)]
struct Rejoining {
    /// The member's term when this incarnation began.
    term: u64,
    /// The smallest index that a leader has named in a `RejoinAccepted`.
    accepted_at: Option<u64>,
    /// Number of the last question.
    round: u64,
    /// Voters that know of this incarnation.
    knowing: BTreeSet<u64>,
    /// The last question's number when all voters knew of this incarnation.
    known_since: Option<u64>,
    /// By voter: the end of its log, from its newest answer to a question after that.
    ends: BTreeMap<u64, EntryId>,
    /// By member: its applied configuration. This member's own is included.
    applied: BTreeMap<u64, Configuration>,
    /// The greatest end of a log, once all voters have answered.
    floor: Option<EntryId>,
    /// When the last line was logged, or when the first tick came.
    logged_at: Option<Instant>,
}

/// The configuration that a member has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Configuration {
    voters: Vec<u64>,
    /// Those removed members that this one has asked about.
    removed: Vec<u64>,
}

impl Rejoining {
    /// Takes a voter's answer to the question `round`.
    fn answered(&mut self, voter: u64, round: u64, end: EntryId, applied: Configuration) {
        self.knowing.insert(voter);
        self.applied.insert(voter, applied);
        if self.known_since.is_some_and(|since| round > since) {
            self.ends.insert(voter, end);
        }
    }

    /// All voters that have to answer, as far as this member knows, and this member.
    fn all_voters(&mut self, core: &Core) -> BTreeSet<u64> {
        let known = self.applied.values().flat_map(|it| &it.voters);
        let removed = known.copied().filter(|&id| core.reader.is_removed(id));
        let own = Configuration {
            voters: core.voters(),
            removed: removed.collect(),
        };
        self.applied.insert(core.member_id, own);
        self.all(core.member_id)
    }

    /// All voters that have to answer, and this member: the voters that this member knows of,
    /// those that any of them knows of, and so on.
    fn all(&self, own_id: u64) -> BTreeSet<u64> {
        let mut all = BTreeSet::from([own_id]);
        loop {
            let applied = |voter| self.applied.get(voter).into_iter();
            let more = all.iter().flat_map(applied).flat_map(|it| &it.voters);
            let more: BTreeSet<u64> = more.copied().collect();
            if more.is_subset(&all) {
                return all;
            }
            all.extend(more);
        }
    }

    /// The voters among `all` that still have to answer.
    fn silent(&self, all: &BTreeSet<u64>, own_id: u64) -> Vec<u64> {
        let applied = |voter| self.applied.get(voter).into_iter();
        let gone = all.iter().flat_map(applied).flat_map(|it| &it.removed);
        let gone: BTreeSet<u64> = gone.copied().collect();
        let is_silent = |voter: &u64| match self.known_since {
            None => !self.knowing.contains(voter),
            Some(_) => !self.ends.contains_key(voter),
        };
        let needed = all.difference(&gone).filter(|&&voter| voter != own_id);
        needed.copied().filter(is_silent).collect()
    }

    /// Enters the second round, or computes the floor, if all voters have answered that have
    /// to.
    fn advance(&mut self, all: &BTreeSet<u64>, own_id: u64, own: EntryId) {
        if !self.silent(all, own_id).is_empty() {
            self.floor = None;
        } else if self.known_since.is_none() {
            self.known_since = Some(self.round);
        } else {
            let ends = all.iter().filter_map(|voter| self.ends.get(voter));
            self.floor = Some(ends.copied().fold(own, EntryId::max));
        }
    }

    /// Whether the member is whole again.
    fn is_over(&self, committed: u64, own: EntryId) -> bool {
        self.accepted_at.is_some_and(|index| committed >= index)
            || self.floor.is_some_and(|floor| own >= floor)
    }

    /// Logs now and then what this member waits for.
    fn log(&mut self, now: Instant, has_leader: bool, silent: &[u64]) {
        let last = *self.logged_at.get_or_insert(now);
        if now < last + LOG_EVERY {
            return;
        }
        self.logged_at = Some(now);
        let silent: Vec<String> = silent.iter().map(|id| format!("{id:x}")).collect();
        tracing::warn!(
            has_leader,
            not_heard = silent.join(","),
            "the end of this member's log may be lost (the power failed, or files were damaged): \
             it does not vote until a leader has sent it the committed entries, or all voters \
             have answered; if one of them never comes back, see --accept-lost-tail"
        );
    }
}

impl Rejoin {
    /// The state at the start of an incarnation. The member rejoins if its directory may lack
    /// entries, unless the operator accepts the loss. `term` is the member's term.
    pub fn new(options: &ReplicaOptions, incarnation: Incarnation, term: u64) -> Rejoin {
        let has_lost_tail = incarnation.has_lost_tail;
        if has_lost_tail && options.accept_lost_tail {
            tracing::warn!(
                "the end of the log may be lost; this member takes what is left for the whole \
                 log, as --accept-lost-tail asks"
            );
        }
        let rejoins = has_lost_tail && !options.accept_lost_tail;
        let seed = options.seed.rotate_left(32);
        Rejoin {
            incarnation,
            rejoining: rejoins.then(|| Rejoining {
                term,
                ..Rejoining::default()
            }),
            peers: PeerIncarnations::new(seed, options.heartbeat_interval),
        }
    }

    /// Records at the start, before the first message is sent, whether this member rejoins. It
    /// does not if it is the only voter, because no other member could give anything back, nor
    /// if it waits for its first snapshot, because it has confirmed no entry.
    pub fn begin(&mut self, core: &mut Core) -> Result<(), Error> {
        if self.rejoining.is_some() {
            core.consensus.note_lost_tail();
            if core.consensus.waits() {
                self.rejoining = None;
            } else if core.voters().iter().all(|&voter| voter == core.member_id) {
                self.rejoining = None;
                tracing::warn!(
                    "since the last run of this member the power failed, the kernel was started \
                     again, or files were damaged: the last entries that it acknowledged are lost \
                     if they are not in the log"
                );
            }
        }
        self.incarnation.note(self.rejoining.is_none())
    }

    /// Whether this member may lack entries that it has acknowledged. Such a member does not
    /// stand for election, and votes only as the module's description says.
    pub fn is_under_way(&self) -> bool {
        self.rejoining.is_some()
    }

    /// Whether this member may vote for the candidate that sent `request`.
    pub fn may_vote_for(&self, core: &Core, request: &Message) -> bool {
        let end = EntryId::new(request.log_term, request.index);
        match &self.rejoining {
            Some(_) if core.breaks(Mutant::VotesWhileRejoining) => true,
            Some(rejoining) => rejoining.floor.is_some_and(|floor| end >= floor),
            None => true,
        }
    }

    /// Whether this member may stand for election.
    pub fn may_stand(&self, core: &Core) -> bool {
        self.rejoining.is_none() || core.breaks(Mutant::VotesWhileRejoining)
    }

    /// Sends the question of a rejoining member to all voters and to the leader.
    pub fn ask_voters(&mut self, core: &mut Core, now: Instant) {
        let Some(rejoining) = &mut self.rejoining else {
            return;
        };
        let mut all = rejoining.all_voters(core);
        rejoining.round += 1;
        let silent = rejoining.silent(&all, core.member_id);
        let question = RejoinQuestion {
            incarnation: self.incarnation.number,
            round: rejoining.round,
            end: core.end(),
            voters: all.iter().copied().collect(),
        };
        all.extend(Some(core.leader).filter(|&leader| leader != 0));
        all.remove(&core.member_id);
        for to in all {
            core.send(to, PeerMessage::Rejoin(question.clone()));
        }
        rejoining.log(now, core.leader != 0, &silent);
    }

    /// Answers the question of a rejoining member with the end of this member's log, and, from
    /// a leader, with the index up to which it has to catch up. The first question of an
    /// incarnation makes this member forget what it knows of the former ones.
    pub fn answer(&mut self, core: &mut Core, to: u64, question: &RejoinQuestion) {
        let RejoinQuestion {
            incarnation,
            round,
            end,
            ref voters,
        } = *question;
        let judged = self.peers.enter(to, incarnation);
        self.ask_for_incarnation(core, to, judged);
        match judged {
            Judged::Current => {}
            Judged::First | Judged::Later if core.breaks(Mutant::KeepsItsMatch) => {}
            Judged::First | Judged::Later => core.consensus.forget(to, Some(end.index)),
            Judged::Former => return,
            Judged::Impossible => {
                let what = format!("no directory was opened {incarnation} times");
                return core.warn_of(to, &what);
            }
        }
        let removed = voters.iter().filter(|&&id| core.reader.is_removed(id));
        let reply = RejoinReply {
            incarnation,
            round,
            end: core.end(),
            voters: core.voters(),
            removed: removed.copied().collect(),
        };
        core.send(to, PeerMessage::RejoinReply(reply));
        if let Some(index) = core.consensus.catch_up_index() {
            let accepted = RejoinAccepted {
                incarnation,
                term: core.raft().term,
                index,
            };
            core.send(to, PeerMessage::RejoinAccepted(accepted));
        }
    }

    /// Handles a voter's answer to a question of this member.
    pub fn answered(&mut self, from: u64, reply: RejoinReply) {
        if reply.incarnation == self.incarnation.number
            && let Some(rejoining) = &mut self.rejoining
        {
            let applied = Configuration {
                voters: reply.voters,
                removed: reply.removed,
            };
            rejoining.answered(from, reply.round, reply.end, applied);
        }
    }

    /// Handles a leader's answer: it has forgotten the incarnations before this one, and this
    /// member is whole once it has committed the index in the answer.
    pub fn accepted(&mut self, accepted: RejoinAccepted) {
        if accepted.incarnation == self.incarnation.number
            && let Some(rejoining) = &mut self.rejoining
            && accepted.term >= rejoining.term
        {
            let index = accepted.index;
            let least = rejoining.accepted_at.map_or(index, |it| it.min(index));
            rejoining.accepted_at = Some(least);
        }
    }

    /// Ends the rejoining if this member is whole again.
    pub fn tend(&mut self, core: &Core) {
        let Some(rejoining) = &mut self.rejoining else {
            return;
        };
        let all = rejoining.all_voters(core);
        let (committed, own) = (core.committed(), core.end());
        rejoining.advance(&all, core.member_id, own);
        if rejoining.is_over(committed, own) {
            self.rejoining = None;
            self.incarnation.record_whole();
            tracing::info!(committed, "this member has returned, and votes again");
        }
    }

    /// Marks an answer to an append with the number of this incarnation, before it is sent.
    pub fn sign(&self, core: &mut Core, answer: &mut Message) {
        core.consensus.note_compared(answer);
        answer.context = self.incarnation.number.to_le_bytes().to_vec().into();
    }

    /// Whether an answer to an append counts: its incarnation is the newest that is known of
    /// its sender, or a later one. A later one makes this member forget what it knows of the
    /// former one.
    pub fn counts(&mut self, core: &mut Core, answer: &mut Message) -> bool {
        let incarnation = peer_incarnations::signed(&std::mem::take(&mut answer.context));
        if core.breaks(Mutant::KeepsItsMatch) {
            return true;
        }
        let from = answer.from;
        let judged = self.peers.enter(from, incarnation);
        self.ask_for_incarnation(core, from, judged);
        match judged {
            Judged::First | Judged::Current => true,
            Judged::Later => {
                core.consensus.forget(from, None);
                true
            }
            Judged::Former | Judged::Impossible => {
                tracing::debug!(
                    from,
                    incarnation,
                    "an answer is dropped: its sender's newest known incarnation is another one"
                );
                false
            }
        }
    }

    /// Asks a member for the number of its incarnation, unless the one that was judged is the
    /// newest known.
    fn ask_for_incarnation(&mut self, core: &mut Core, member: u64, judged: Judged) {
        if judged == Judged::Current {
            return;
        }
        if let Some(number) = self.peers.question(member, core.now()) {
            core.send(member, PeerMessage::WhichIncarnation { number });
        }
    }

    /// Answers another member's question for the number of this incarnation.
    pub fn answer_which(&self, core: &mut Core, to: u64, number: u64) {
        let incarnation = self.incarnation.number;
        let answer = PeerMessage::ThisIncarnation {
            number,
            incarnation,
        };
        core.send(to, answer);
    }

    /// Handles a member's answer to the question for its incarnation. If this member took
    /// another one for the newest, it forgets what it knows of that one.
    pub fn which_answered(&mut self, core: &mut Core, from: u64, number: u64, incarnation: u64) {
        if self.peers.confirm(from, number, incarnation) {
            let line = format!(
                "member {from:x} is in life {incarnation}, and a message in its name had another: \
                 is its id used by a second process?"
            );
            core.warnings.warn(core.now(), line);
            core.consensus.forget(from, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Member 1, with the voters and removed members in its configuration.
    fn first_of(voters: &[u64], removed: &[u64]) -> Rejoining {
        let mut rejoining = Rejoining {
            term: 5,
            ..Rejoining::default()
        };
        rejoining.round = 1;
        rejoining.applied.insert(1, says(voters, removed));
        rejoining
    }

    fn advance(rejoining: &mut Rejoining, own: EntryId) {
        let all = rejoining.all(1);
        rejoining.advance(&all, 1, own);
    }

    fn end(term: u64, index: u64) -> EntryId {
        EntryId { term, index }
    }

    fn says(voters: &[u64], removed: &[u64]) -> Configuration {
        Configuration {
            voters: voters.to_vec(),
            removed: removed.to_vec(),
        }
    }

    #[test]
    fn answers_count_only_after_all_voters_knew_of_this_incarnation() {
        let mut rejoining = first_of(&[1, 2, 3], &[]);
        let same = || says(&[1, 2, 3], &[]);
        rejoining.answered(2, 1, end(4, 9), same());
        advance(&mut rejoining, end(3, 3));
        rejoining.round = 2;
        rejoining.answered(3, 1, end(4, 8), same());
        rejoining.answered(2, 2, end(4, 9), same());
        advance(&mut rejoining, end(3, 3));
        assert_eq!((rejoining.known_since, rejoining.floor), (Some(2), None));
        rejoining.answered(2, 2, end(4, 9), same());
        rejoining.answered(3, 2, end(4, 8), same());
        advance(&mut rejoining, end(3, 3));
        assert_eq!(rejoining.floor, None, "asked before all knew");
        rejoining.answered(2, 3, end(4, 10), same());
        rejoining.answered(3, 3, end(4, 8), same());
        advance(&mut rejoining, end(3, 3));
        assert_eq!(rejoining.floor, Some(end(4, 10)));
        assert!(!rejoining.is_over(0, end(4, 9)));
        assert!(rejoining.is_over(0, end(4, 10)));
        assert!(rejoining.is_over(0, end(5, 1)));
    }

    #[test]
    fn a_member_is_whole_when_its_own_log_has_the_greatest_end() {
        let mut rejoining = first_of(&[1, 2], &[]);
        rejoining.answered(2, 1, end(4, 9), says(&[1, 2], &[]));
        advance(&mut rejoining, end(6, 1));
        rejoining.answered(2, 2, end(4, 9), says(&[1, 2], &[]));
        advance(&mut rejoining, end(6, 1));
        assert!(rejoining.is_over(0, end(6, 1)));
    }

    #[test]
    fn a_removed_voter_need_not_answer() {
        let mut rejoining = first_of(&[1, 2, 3, 4], &[]);
        rejoining.answered(2, 1, end(4, 9), says(&[1, 2, 3, 4], &[]));
        rejoining.answered(3, 1, end(4, 9), says(&[1, 2, 3, 4], &[]));
        rejoining.answered(9, 1, end(4, 9), says(&[1, 2, 3], &[4]));
        advance(&mut rejoining, end(4, 3));
        let all = rejoining.all(1);
        assert_eq!(rejoining.silent(&all, 1), [4], "9 does not vote");
        rejoining.answered(3, 1, end(4, 9), says(&[1, 2, 3], &[4]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.known_since, Some(1));
        rejoining.answered(2, 2, end(4, 9), says(&[1, 2, 3, 4], &[]));
        rejoining.answered(3, 2, end(4, 9), says(&[1, 2, 3], &[4]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.floor, Some(end(4, 9)));
    }

    #[test]
    fn a_removal_that_this_member_has_applied_counts() {
        let mut rejoining = first_of(&[1, 2], &[3]);
        rejoining.answered(2, 1, end(4, 9), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        rejoining.answered(2, 2, end(4, 9), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.floor, Some(end(4, 9)));
    }

    #[test]
    fn a_voter_that_only_other_voters_know_of_must_answer() {
        let mut rejoining = first_of(&[1, 2], &[]);
        rejoining.answered(2, 1, end(4, 9), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.known_since, None);
        rejoining.answered(3, 1, end(4, 11), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        rejoining.answered(2, 2, end(4, 9), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.floor, None);
        rejoining.answered(3, 2, end(4, 11), says(&[1, 2, 3], &[]));
        advance(&mut rejoining, end(4, 3));
        assert_eq!(rejoining.floor, Some(end(4, 11)));
    }

    #[test]
    fn the_smallest_index_that_a_leader_names_is_enough() {
        let mut rejoining = Rejoining {
            term: 5,
            ..Rejoining::default()
        };
        assert!(!rejoining.is_over(100, end(5, 100)));
        rejoining.accepted_at = Some(40);
        assert!(!rejoining.is_over(39, end(5, 100)));
        assert!(rejoining.is_over(40, end(5, 100)));
    }
}
