//! How a member returns that may have lost the last entries that it acknowledged, for
//! example in a loss of power.
//!
//! ```text
//!              ┌── welcomed: a leader forgets its former lives, names an index, ───┐
//!   Returning ─┤   and this member's commit index reaches it                       ├─► Whole
//!              │                                                                   │
//!              └── all voters answered ──► votes for logs at the floor or above ───┘
//!                                          until its own log is one
//! ```
//!
//! A returning member neither stands for election nor votes, except for logs at the floor
//! or above. It appends entries and confirms those that it has, as any member does.
//!
//! **Welcomed.** A member confirms entries only to leaders of terms up to its own, and its
//! term is always on its device. A leader of that term or a later one has in its log, in
//! front of its own first entry, all entries that were committed in earlier terms; and the
//! entries that it commits after it has forgotten this member's former lives do not rely
//! on their confirmations. So the leader names its commit index, or the index of its own
//! first entry if that is not committed yet. A member that has committed this index has
//! stored every committed entry that its former lives acknowledged. The leader need not be
//! sure that it still leads: the former lives never confirmed entries of later terms.
//!
//! **All voters answered.** First every other voter learns of this life, so that none
//! relies on the former ones any more; then each says where its log ends. Every entry that
//! was committed with this member's help, and that any of those voters still has, lies at
//! or below the greatest of these ends: the floor. A log at the floor or above it, in the
//! order of logs that decides elections, has all of these entries. Both rounds are needed:
//! with one, a voter might answer, and afterwards help to commit an entry together with a
//! former life, which its answer does not cover.
//!
//! The voters that have to answer are those of the configuration that this member has
//! applied, and of the configurations that those voters have applied. Before a new voter
//! counts for anything, a leader has applied the change that makes it a voter, and has the
//! change on its device; so one of the voters knows of it. A removed voter need not answer
//! if another voter reports its removal: that one has applied the removal, and so has all
//! entries that the removed voter helped to commit.
//!
//! The directory remembers that its member has not returned (`identity_files/life.rs`), so that a
//! restart in between does not make it whole.

mod life;
mod lives;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use environment::Instant;
use raft::eraftpb::Message;

use super::{Replica, ReplicaOptions};
use crate::peer_message::PeerMessage;
use crate::{Error, Mutant};

pub(super) use life::Life;
use lives::Judged;
pub(super) use lives::Lives;

/// Term and index of a log's last entry: the order that elections go by.
type End = (u64, u64);

/// Time between two log lines on what a returning member waits for.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The state of a member that returns.
#[derive(Debug, Default)]
pub(super) struct Returning {
    /// The member's term when this life began.
    term: u64,
    /// The smallest index that a leader has named in a `Welcome`.
    owed: Option<u64>,
    /// Number of the last question.
    round: u64,
    /// Voters that know of this life.
    knowing: BTreeSet<u64>,
    /// The last question's number when all voters knew of this life.
    known_since: Option<u64>,
    /// By voter: the end of its log, from its newest answer to a question after that.
    ends: BTreeMap<u64, End>,
    /// By member: the voters and the removed members in its applied configuration. This
    /// member's own configuration is included.
    applied: BTreeMap<u64, (Vec<u64>, Vec<u64>)>,
    /// The greatest end of a log, once all voters have answered.
    floor: Option<End>,
    /// When the last line was logged, or when the first tick came.
    logged_at: Option<Instant>,
}

impl Returning {
    fn new(term: u64) -> Returning {
        Returning {
            term,
            ..Returning::default()
        }
    }

    /// Takes a voter's answer to the question `round`: the end of its log, and the voters and
    /// removed members in its configuration.
    fn heard(&mut self, voter: u64, round: u64, end: End, applied: (Vec<u64>, Vec<u64>)) {
        self.knowing.insert(voter);
        self.applied.insert(voter, applied);
        if self.known_since.is_some_and(|since| round > since) {
            self.ends.insert(voter, end);
        }
    }

    /// All voters that have to answer, and this member: the voters that this member knows of,
    /// those that any of them knows of, and so on.
    fn all(&self, own_id: u64) -> BTreeSet<u64> {
        let mut all = BTreeSet::from([own_id]);
        loop {
            let applied = |voter| self.applied.get(voter).into_iter();
            let more = all.iter().flat_map(applied).flat_map(|(voters, _)| voters);
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
        let gone = all
            .iter()
            .flat_map(applied)
            .flat_map(|(_, removed)| removed);
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
    fn look(&mut self, all: &BTreeSet<u64>, own_id: u64, own: End) {
        if !self.silent(all, own_id).is_empty() {
            self.floor = None;
        } else if self.known_since.is_none() {
            self.known_since = Some(self.round);
        } else {
            let ends = all.iter().filter_map(|voter| self.ends.get(voter));
            self.floor = Some(ends.copied().fold(own, End::max));
        }
    }

    /// Whether the member is whole again.
    fn is_over(&self, committed: u64, own: End) -> bool {
        self.owed.is_some_and(|owed| committed >= owed)
            || self.floor.is_some_and(|floor| own >= floor)
    }
}

/// The state of returning at the start of a life; none if the directory lacks nothing, or
/// if the operator accepts the loss.
pub(super) fn begin(options: &ReplicaOptions, life: &Life, term: u64) -> Option<Returning> {
    if !life.lacks_its_end() {
        return None;
    }
    if options.accept_lost_tail {
        tracing::warn!(
            "the end of the log may be lost; this member takes what is left for the whole log, as \
             --accept-lost-tail asks"
        );
        return None;
    }
    Some(Returning::new(term))
}

impl Replica {
    /// Records at the start, before the first message is sent, whether this member returns. It
    /// does not if it is the only voter, because no other member could give anything back, nor
    /// if it waits for its first snapshot, because it has confirmed no entry.
    pub(super) fn begin_returning(&mut self) -> Result<(), Error> {
        if self.returning.is_some() {
            self.consensus.doubt();
            if self.consensus.waits() {
                self.returning = None;
            } else if self.voters().iter().all(|&voter| voter == self.member_id) {
                self.returning = None;
                tracing::warn!(
                    "since the last run of this member the power failed, the kernel was started \
                     again, or files were damaged: the last entries that it acknowledged are lost \
                     if they are not in the log"
                );
            }
        }
        self.life.begin(self.returning.is_none())
    }

    /// Whether this member may lack entries that it has acknowledged. Such a member does not
    /// stand for election, and votes only as the module's description says.
    pub fn is_returning(&self) -> bool {
        self.returning.is_some()
    }

    /// The voters in the configuration that this member has applied.
    fn voters(&self) -> Vec<u64> {
        let members = self.reader.members();
        members.voters().map(|voter| voter.id).collect()
    }

    /// All voters that have to answer, as far as this member knows, and this member. Empty if
    /// this member does not return.
    fn all_voters(&mut self) -> BTreeSet<u64> {
        let voters = self.voters();
        let Some(returning) = &mut self.returning else {
            return BTreeSet::new();
        };
        let known = returning.applied.values().flat_map(|(voters, _)| voters);
        let removed = known.copied().filter(|&id| self.reader.is_removed(id));
        let applied = (voters, removed.collect());
        returning.applied.insert(self.member_id, applied);
        returning.all(self.member_id)
    }

    /// Whether this member may vote for the candidate that sent `request`.
    pub(super) fn may_vote_for(&self, request: &Message) -> bool {
        match &self.returning {
            Some(_) if self.breaks(Mutant::VotesWhileReturning) => true,
            Some(returning) => returning
                .floor
                .is_some_and(|floor| (request.log_term, request.index) >= floor),
            None => true,
        }
    }

    /// Whether this member may stand for election.
    pub(super) fn may_stand(&self) -> bool {
        self.returning.is_none() || self.breaks(Mutant::VotesWhileReturning)
    }

    /// Sends the question of a returning member to all voters and to the leader.
    pub(super) fn ask_voters(&mut self, now: Instant) {
        let mut all = self.all_voters();
        let Some(returning) = &mut self.returning else {
            return;
        };
        returning.round += 1;
        let (term, index) = self.consensus.end();
        let silent = returning.silent(&all, self.member_id);
        let question = PeerMessage::Returning {
            life: self.life.number(),
            round: returning.round,
            term,
            index,
            voters: all.iter().copied().collect(),
        };
        all.extend(Some(self.leader).filter(|&leader| leader != 0));
        all.remove(&self.member_id);
        let questions = all.into_iter().map(|to| (to, question.clone()));
        self.output.messages.extend(questions);
        self.log_return(now, &silent);
    }

    /// Logs now and then what a returning member waits for.
    fn log_return(&mut self, now: Instant, silent: &[u64]) {
        let Some(returning) = &mut self.returning else {
            return;
        };
        let last = *returning.logged_at.get_or_insert(now);
        if now < last + LOG_EVERY {
            return;
        }
        returning.logged_at = Some(now);
        let silent: Vec<String> = silent.iter().map(|id| format!("{id:x}")).collect();
        tracing::warn!(
            has_leader = self.leader != 0,
            not_heard = silent.join(","),
            "the end of this member's log may be lost (the power failed, or files were damaged): \
             it does not vote until a leader has sent it the committed entries, or all voters \
             have answered; if one of them never comes back, see --accept-lost-tail"
        );
    }

    /// Answers the question of a returning member with the end of this member's log, and, from
    /// a leader, with the index up to which it has to catch up. The first question of a life
    /// makes this member forget what it knows of the former lives.
    pub(super) fn answer_returning(
        &mut self,
        to: u64,
        (life, round): (u64, u64),
        end: End,
        voters: &[u64],
    ) {
        let judged = self.lives.enter(to, life);
        self.ask_for_life(to, judged);
        match judged {
            Judged::Current => {}
            Judged::First | Judged::Later if self.breaks(Mutant::KeepsItsMatch) => {}
            Judged::First | Judged::Later => self.consensus.forget(to, Some(end.1)),
            Judged::Former => return,
            Judged::Impossible => {
                return self.warn_of(to, &format!("no directory was opened {life} times"));
            }
        }
        let (term, index) = self.consensus.end();
        let removed = voters.iter().filter(|&&id| self.reader.is_removed(id));
        let statement = PeerMessage::Statement {
            life,
            round,
            term,
            index,
            voters: self.voters(),
            removed: removed.copied().collect(),
        };
        self.output.messages.push((to, statement));
        if let Some(index) = self.consensus.owed() {
            let term = self.consensus.raft().term;
            let welcome = PeerMessage::Welcome { life, term, index };
            self.output.messages.push((to, welcome));
        }
    }

    /// Handles a voter's answer to a question of this member.
    pub(super) fn statement_received(
        &mut self,
        from: u64,
        (life, round): (u64, u64),
        end: End,
        applied: (Vec<u64>, Vec<u64>),
    ) {
        if life == self.life.number()
            && let Some(returning) = &mut self.returning
        {
            returning.heard(from, round, end, applied);
        }
    }

    /// Handles a leader's answer: it has forgotten the lives before this one, and this member
    /// is whole once it has committed `index`.
    pub(super) fn welcomed(&mut self, life: u64, term: u64, index: u64) {
        if life == self.life.number()
            && let Some(returning) = &mut self.returning
            && term >= returning.term
        {
            let owed = returning.owed.map_or(index, |owed| owed.min(index));
            returning.owed = Some(owed);
        }
    }

    /// Ends the return if this member is whole again.
    pub(super) fn tend_return(&mut self) {
        if self.returning.is_none() {
            return;
        }
        let (all, own) = (self.all_voters(), self.consensus.end());
        let committed = self.committed();
        if let Some(returning) = &mut self.returning {
            returning.look(&all, self.member_id, own);
            if returning.is_over(committed, own) {
                self.returning = None;
                self.life.is_whole();
                tracing::info!(committed, "this member has returned, and votes again");
            }
        }
    }

    /// Marks an answer to an append with the number of this life, before it is sent.
    pub(super) fn sign(&mut self, answer: &mut Message) {
        self.consensus.note_compared(answer);
        answer.context = self.life.number().to_le_bytes().to_vec().into();
    }

    /// Whether an answer to an append counts: its life is the newest that is known of its
    /// sender, or a later one. A later life makes this member forget what it knows of the
    /// former one.
    pub(super) fn is_of_this_life(&mut self, answer: &mut Message) -> bool {
        let life = lives::signed(&std::mem::take(&mut answer.context));
        if self.breaks(Mutant::KeepsItsMatch) {
            return true;
        }
        let from = answer.from;
        let judged = self.lives.enter(from, life);
        self.ask_for_life(from, judged);
        match judged {
            Judged::First | Judged::Current => true,
            Judged::Later => {
                self.consensus.forget(from, None);
                true
            }
            Judged::Former | Judged::Impossible => {
                tracing::debug!(
                    from,
                    life,
                    "an answer is dropped: its sender's newest known life is another one"
                );
                false
            }
        }
    }

    /// Asks a member for the number of its life, unless the one that was judged is the newest
    /// known.
    fn ask_for_life(&mut self, member: u64, judged: Judged) {
        if judged == Judged::Current {
            return;
        }
        if let Some(number) = self.lives.question(member, self.clock.now()) {
            let question = PeerMessage::WhichLife { number };
            self.output.messages.push((member, question));
        }
    }

    /// Answers another member's question for the number of this life.
    pub(super) fn answer_life(&mut self, to: u64, number: u64) {
        let life = self.life.number();
        let answer = PeerMessage::ThisLife { number, life };
        self.output.messages.push((to, answer));
    }

    /// Handles a member's answer to the question for its life. If this member took another
    /// life for the newest, it forgets what it knows of that one.
    pub(super) fn life_answered(&mut self, from: u64, number: u64, life: u64) {
        if self.lives.confirm(from, number, life) {
            let line = format!(
                "member {from:x} is in life {life}, and a message in its name had another: is its \
                 id used by a second process?"
            );
            self.warnings.warn(self.clock.now(), line);
            self.consensus.forget(from, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Member 1, with the voters and removed members in its configuration.
    fn first_of(voters: &[u64], removed: &[u64]) -> Returning {
        let mut returning = Returning::new(5);
        returning.round = 1;
        returning.applied.insert(1, says(voters, removed));
        returning
    }

    fn look(returning: &mut Returning, own: End) {
        let all = returning.all(1);
        returning.look(&all, 1, own);
    }

    fn says(voters: &[u64], removed: &[u64]) -> (Vec<u64>, Vec<u64>) {
        (voters.to_vec(), removed.to_vec())
    }

    #[test]
    fn answers_count_only_after_all_voters_knew_of_this_life() {
        let mut returning = first_of(&[1, 2, 3], &[]);
        let same = || says(&[1, 2, 3], &[]);
        returning.heard(2, 1, (4, 9), same());
        look(&mut returning, (3, 3));
        returning.round = 2;
        returning.heard(3, 1, (4, 8), same());
        returning.heard(2, 2, (4, 9), same());
        look(&mut returning, (3, 3));
        assert_eq!((returning.known_since, returning.floor), (Some(2), None));
        returning.heard(2, 2, (4, 9), same());
        returning.heard(3, 2, (4, 8), same());
        look(&mut returning, (3, 3));
        assert_eq!(returning.floor, None, "asked before all knew");
        returning.heard(2, 3, (4, 10), same());
        returning.heard(3, 3, (4, 8), same());
        look(&mut returning, (3, 3));
        assert_eq!(returning.floor, Some((4, 10)));
        assert!(!returning.is_over(0, (4, 9)));
        assert!(returning.is_over(0, (4, 10)));
        assert!(returning.is_over(0, (5, 1)));
    }

    #[test]
    fn a_member_is_whole_when_its_own_log_has_the_greatest_end() {
        let mut returning = first_of(&[1, 2], &[]);
        returning.heard(2, 1, (4, 9), says(&[1, 2], &[]));
        look(&mut returning, (6, 1));
        returning.heard(2, 2, (4, 9), says(&[1, 2], &[]));
        look(&mut returning, (6, 1));
        assert!(returning.is_over(0, (6, 1)));
    }

    #[test]
    fn a_removed_voter_need_not_answer() {
        let mut returning = first_of(&[1, 2, 3, 4], &[]);
        returning.heard(2, 1, (4, 9), says(&[1, 2, 3, 4], &[]));
        returning.heard(3, 1, (4, 9), says(&[1, 2, 3, 4], &[]));
        returning.heard(9, 1, (4, 9), says(&[1, 2, 3], &[4]));
        look(&mut returning, (4, 3));
        let all = returning.all(1);
        assert_eq!(returning.silent(&all, 1), [4], "9 does not vote");
        returning.heard(3, 1, (4, 9), says(&[1, 2, 3], &[4]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.known_since, Some(1));
        returning.heard(2, 2, (4, 9), says(&[1, 2, 3, 4], &[]));
        returning.heard(3, 2, (4, 9), says(&[1, 2, 3], &[4]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.floor, Some((4, 9)));
    }

    #[test]
    fn a_removal_that_this_member_has_applied_counts() {
        let mut returning = first_of(&[1, 2], &[3]);
        returning.heard(2, 1, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        returning.heard(2, 2, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.floor, Some((4, 9)));
    }

    #[test]
    fn a_voter_that_only_other_voters_know_of_must_answer() {
        let mut returning = first_of(&[1, 2], &[]);
        returning.heard(2, 1, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.known_since, None);
        returning.heard(3, 1, (4, 11), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        returning.heard(2, 2, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.floor, None);
        returning.heard(3, 2, (4, 11), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.floor, Some((4, 11)));
    }

    #[test]
    fn the_smallest_index_that_a_leader_names_is_enough() {
        let mut returning = Returning::new(5);
        assert!(!returning.is_over(100, (5, 100)));
        returning.owed = Some(40);
        assert!(!returning.is_over(39, (5, 100)));
        assert!(returning.is_over(40, (5, 100)));
    }
}
