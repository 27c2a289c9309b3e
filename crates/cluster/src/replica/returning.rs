//! A member that may have lost the end of what it has acknowledged, in a loss of power,
//! and how it comes back.
//!
//! ```text
//!              ┌── taken back: a leader forgets what it believed, names an index ──┐
//!   Returning ─┤   and this member's commit index reaches it                       ├─► Whole
//!              │                                                                   │
//!              └── heard everyone ──► votes for logs at the floor or above ────────┘
//!                                     until its own log is one
//! ```
//!
//! While it returns it neither votes nor stands; it takes entries and confirms them as
//! anyone does, for those it has.
//!
//! **Taken back.** What this member has helped to commit, it helped leaders of the terms
//! up to the one it had on its device, and its term is always on its device. A leader of
//! that term or a later one has all that was committed in terms before its own, in front
//! of its own first entry; and what it commits after it has forgotten this member's former
//! lives does not count on them. So it names its commit index, or its first entry where
//! that is not committed yet, and whoever has that much committed has all it had helped to
//! commit. It need not be sure that it still leads: entries of later terms were never
//! confirmed by the former lives.
//!
//! **Heard everyone.** First every other voter hears of this life, so that nobody can count
//! on the former ones any more; then each says where its log ends. What was committed with
//! this member's help, and any of those voters still has, lies at or below the greatest of
//! these ends: the floor. A log at the floor or above it, in the order that elections go by,
//! has all of that. Both rounds are needed: else a voter might answer, then help to commit
//! an entry together with a former life, of which its answer knows nothing.
//!
//! Every other voter: those of the configuration that this member has applied, and of the
//! ones that they have applied. Before a new voter counts for anything a leader has applied
//! that it votes, and has that on its device; so one of them knows. Who was removed need not
//! be heard where a voter says so: that one has applied the removal, and has all that
//! whoever was removed had a part in.
//!
//! The directory remembers that its member has not returned (`life_file.rs`): a restart in
//! between must not make it whole.

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

/// Between two words on what is waited for.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// A member on its way back.
#[derive(Debug, Default)]
pub(super) struct Returning {
    /// Its term when this life began.
    term: u64,
    /// The smallest index that a leader has named.
    owed: Option<u64>,
    /// Number of the last question.
    round: u64,
    /// Voters that have heard of this life.
    knowing: BTreeSet<u64>,
    /// When all had heard of it, this was the last question's number.
    known_since: Option<u64>,
    /// What voters answered to questions after that, the newest of each.
    ends: BTreeMap<u64, End>,
    /// By voter: who votes and who was removed, as far as it has applied. This
    /// member's own word is here, too.
    applied: BTreeMap<u64, (Vec<u64>, Vec<u64>)>,
    /// The greatest end, when all are here.
    floor: Option<End>,
    told_at: Option<Instant>,
}

impl Returning {
    fn new(term: u64) -> Returning {
        Returning {
            term,
            ..Returning::default()
        }
    }

    /// A voter has answered a question; who votes and who was removed, it says.
    fn heard(&mut self, voter: u64, round: u64, end: End, applied: (Vec<u64>, Vec<u64>)) {
        self.knowing.insert(voter);
        self.applied.insert(voter, applied);
        if self.known_since.is_some_and(|since| round > since) {
            self.ends.insert(voter, end);
        }
    }

    /// The voters that this member knows of, and those that any of them knows of.
    fn all(&self, own_id: u64) -> BTreeSet<u64> {
        let mut all = BTreeSet::from([own_id]);
        loop {
            let told = |voter| self.applied.get(voter).into_iter();
            let more = all.iter().flat_map(told).flat_map(|(voters, _)| voters);
            let more: BTreeSet<u64> = more.copied().collect();
            if more.is_subset(&all) {
                return all;
            }
            all.extend(more);
        }
    }

    /// Those of them that must be heard, and have not answered yet.
    fn silent(&self, all: &BTreeSet<u64>, own_id: u64) -> Vec<u64> {
        let told = |voter| self.applied.get(voter).into_iter();
        let gone = all.iter().flat_map(told).flat_map(|(_, removed)| removed);
        let gone: BTreeSet<u64> = gone.copied().collect();
        let is_silent = |voter: &u64| match self.known_since {
            None => !self.knowing.contains(voter),
            Some(_) => !self.ends.contains_key(voter),
        };
        let needed = all.difference(&gone).filter(|&&voter| voter != own_id);
        needed.copied().filter(is_silent).collect()
    }

    /// Goes on, where all have answered that must be heard.
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

    /// Nothing is missing any more.
    fn is_over(&self, committed: u64, own: End) -> bool {
        self.owed.is_some_and(|owed| committed >= owed)
            || self.floor.is_some_and(|floor| own >= floor)
    }
}

/// Whether members of a directory that this life found begin by returning.
pub(super) fn begin(options: &ReplicaOptions, life: &Life, term: u64) -> Option<Returning> {
    if !life.lacks_its_end() {
        return None;
    }
    if options.accept_lost_tail {
        tracing::warn!(
            "the end of the log may be lost, and what is left is taken for all there is, as asked"
        );
        return None;
    }
    Some(Returning::new(term))
}

impl Replica {
    /// At the start, before anything leaves. Alone in the cluster there is nobody who
    /// could give anything back; and who waits for its first snapshot has confirmed
    /// nothing.
    pub(super) fn begin_returning(&mut self) -> Result<(), Error> {
        if self.returning.is_some() {
            self.consensus.doubt();
            if self.consensus.waits() {
                self.returning = None;
            } else if self.voters().iter().all(|&voter| voter == self.member_id) {
                self.returning = None;
                tracing::warn!(
                    "since this member ran the power failed, the kernel was started anew, or files \
                     were damaged: what it had acknowledged last and is not in the log is lost"
                );
            }
        }
        self.life.begin(self.returning.is_none())
    }

    /// This member may lack what it has acknowledged, and neither votes nor stands.
    pub fn is_returning(&self) -> bool {
        self.returning.is_some()
    }

    /// Those with a vote, as far as this member has applied.
    fn voters(&self) -> Vec<u64> {
        let members = self.reader.members();
        members.voters().map(|voter| voter.id).collect()
    }

    /// All that must be heard, this member too, as far as is known.
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

    /// Whether this member may help to elect whoever asks.
    pub(super) fn may_vote_for(&self, request: &Message) -> bool {
        match &self.returning {
            Some(_) if self.breaks(Mutant::VotesWhileReturning) => true,
            Some(returning) => returning
                .floor
                .is_some_and(|floor| (request.log_term, request.index) >= floor),
            None => true,
        }
    }

    /// Whether this member may lead.
    pub(super) fn may_stand(&self) -> bool {
        self.returning.is_none() || self.breaks(Mutant::VotesWhileReturning)
    }

    /// Asks all voters, and whoever leads.
    pub(super) fn ask_around(&mut self, now: Instant) {
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
        self.tell_of_return(now, &silent);
    }

    /// People shall know what is waited for.
    fn tell_of_return(&mut self, now: Instant, silent: &[u64]) {
        let Some(returning) = &mut self.returning else {
            return;
        };
        let last = *returning.told_at.get_or_insert(now);
        if now < last + TOLD_EVERY {
            return;
        }
        returning.told_at = Some(now);
        let silent: Vec<String> = silent.iter().map(|id| format!("{id:x}")).collect();
        tracing::warn!(
            has_leader = self.leader != 0,
            not_heard = silent.join(","),
            "the end of this member's log may be lost (the power failed, or files were damaged): \
             it does not vote until a leader has given it back what was committed, or all voters were heard; where \
             one of them never comes back, see --accept-lost-tail"
        );
    }

    /// Another member returns. Whoever it is, it hears where this log ends; from a leader
    /// also how far it has to catch up.
    pub(super) fn tell_returning(
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

    /// A voter has said where its log ends.
    pub(super) fn voter_heard(
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

    /// A leader has forgotten the lives before this one.
    pub(super) fn welcomed(&mut self, life: u64, term: u64, index: u64) {
        if life == self.life.number()
            && let Some(returning) = &mut self.returning
            && term >= returning.term
        {
            let owed = returning.owed.map_or(index, |owed| owed.min(index));
            returning.owed = Some(owed);
        }
    }

    /// Looks whether this member is whole again.
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
                tracing::info!(committed, "this member has come back, and votes again");
            }
        }
    }

    /// Before an answer of the consensus leaves: it is this life's.
    pub(super) fn sign(&mut self, answer: &mut Message) {
        self.consensus.note_compared(answer);
        answer.context = self.life.number().to_le_bytes().to_vec().into();
    }

    /// Whether an answer of the consensus counts: not one of a life before the newest
    /// that is known. What is known of a member is known of one life.
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
                tracing::debug!(from, life, "an answer of another life than the newest");
                false
            }
        }
    }

    /// Asks a member which life it is in, where that is news or in doubt.
    fn ask_for_life(&mut self, member: u64, judged: Judged) {
        if judged == Judged::Current {
            return;
        }
        if let Some(number) = self.lives.question(member, self.clock.now()) {
            let question = PeerMessage::WhichLife { number };
            self.output.messages.push((member, question));
        }
    }

    /// Another member asks which life this one is in.
    pub(super) fn tell_life(&mut self, to: u64, number: u64) {
        let life = self.life.number();
        let answer = PeerMessage::ThisLife { number, life };
        self.output.messages.push((to, answer));
    }

    /// A member has said which life it is in. What was believed of another one is forgotten.
    pub(super) fn life_told(&mut self, from: u64, number: u64, life: u64) {
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

    /// Member 1, and who votes as it has applied.
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
    fn answers_count_when_everyone_knew_of_this_life_before() {
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
    fn whoever_has_the_greatest_end_itself_has_returned() {
        let mut returning = first_of(&[1, 2], &[]);
        returning.heard(2, 1, (4, 9), says(&[1, 2], &[]));
        look(&mut returning, (6, 1));
        returning.heard(2, 2, (4, 9), says(&[1, 2], &[]));
        look(&mut returning, (6, 1));
        assert!(returning.is_over(0, (6, 1)));
    }

    #[test]
    fn who_was_removed_need_not_be_heard() {
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
    fn what_this_member_has_applied_counts_too() {
        let mut returning = first_of(&[1, 2], &[3]);
        returning.heard(2, 1, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        returning.heard(2, 2, (4, 9), says(&[1, 2, 3], &[]));
        look(&mut returning, (4, 3));
        assert_eq!(returning.floor, Some((4, 9)));
    }

    #[test]
    fn a_voter_that_others_know_of_must_be_heard() {
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
