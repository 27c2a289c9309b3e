//! The cluster as a walk believes it to be: which slots have members, which
//! of them vote, and which have a process that runs.
//!
//! The generator moves a model by what it expects; the walk moves one by what the
//! systems answered. The expectations restate etcd's rules: the server refuses a
//! change with which too few members would be connected or started.

use etcd_api::Error;

use super::{
    answer::Expected::{self, Done, NoMajority, Open, Refused},
    step::{Address, At, Call, Role, SLOTS, Slot, Step},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub voter: bool,
    /// It has run since it was added: it has a data directory, and a name.
    pub started: bool,
    /// In the member list; the next process listens there.
    pub address: Address,
    /// Where its process listens; `None`: it is down.
    pub listens: Option<Address>,
}

impl Member {
    pub fn up(&self) -> bool {
        self.listens.is_some()
    }

    /// The member list has an address at which its process does not listen yet.
    pub fn waits_to_move(&self) -> bool {
        self.listens.is_some_and(|it| it != self.address)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    members: [Option<Member>; SLOTS],
    /// The address of a removed member that has left its directory.
    remains: [Option<Address>; SLOTS],
    /// Addresses below have been used.
    addresses: Address,
    /// A change that was asked for without a majority: it may have been done, or be
    /// done yet.
    pub in_doubt: Option<Call>,
}

impl Model {
    /// This number of voters, all of them up, in the first slots.
    pub fn new(voters: usize) -> Model {
        let member = |slot| Member {
            voter: true,
            started: true,
            address: slot,
            listens: Some(slot),
        };
        Model {
            members: std::array::from_fn(|slot| (slot < voters).then(|| member(slot))),
            remains: [None; SLOTS],
            addresses: voters,
            in_doubt: None,
        }
    }

    pub fn member(&self, slot: Slot) -> Option<Member> {
        self.members[slot]
    }

    /// Whether the slot has a member of which this is true.
    fn is(&self, slot: Slot, test: impl Fn(Member) -> bool) -> bool {
        self.members[slot].is_some_and(test)
    }

    /// Slots of the members of which this is true.
    pub fn slots(&self, test: impl Fn(Member) -> bool) -> Vec<Slot> {
        (0..SLOTS).filter(|slot| self.is(*slot, &test)).collect()
    }

    /// Slots without a member.
    pub fn empty_slots(&self) -> Vec<Slot> {
        let is_empty = |slot: &Slot| self.members[*slot].is_none();
        (0..SLOTS).filter(is_empty).collect()
    }

    /// Slots with a removed member that can be started once more.
    pub fn haunted_slots(&self) -> Vec<Slot> {
        let is_free = |slot: &Slot| self.remains[*slot].is_some_and(|it| self.is_vacant(it));
        (0..SLOTS).filter(is_free).collect()
    }

    /// Where the process of a removed member listens.
    pub fn remains(&self, slot: Slot) -> Option<Address> {
        self.remains[slot]
    }

    /// An address that was never used.
    pub fn fresh_address(&self) -> Address {
        self.addresses
    }

    /// Addresses that were used, and are not any more.
    pub fn vacant_addresses(&self) -> Vec<Address> {
        let used = 0..self.addresses;
        used.filter(|it| self.is_vacant(*it)).collect()
    }

    fn is_vacant(&self, address: Address) -> bool {
        self.is_unlisted(address) && self.slots(|it| it.listens == Some(address)).is_empty()
    }

    /// No member list has it, whatever comes of a change in doubt.
    fn is_unlisted(&self, address: Address) -> bool {
        let doubtful = match self.in_doubt {
            Some(Call::Update(_, address) | Call::Add(_, _, address)) => Some(address),
            _ => None,
        };
        self.slots(|it| it.address == address).is_empty() && doubtful != Some(address)
    }

    pub fn voters(&self) -> usize {
        self.slots(|it| it.voter).len()
    }

    pub fn voters_up(&self) -> Vec<Slot> {
        self.slots(|it| it.voter && it.up())
    }

    fn voters_started(&self) -> usize {
        self.slots(|it| it.voter && it.started).len()
    }

    pub fn has_majority(&self) -> bool {
        2 * self.voters_up().len() > self.voters()
    }

    /// False for a step that an answer before it has made senseless.
    pub fn allows(&self, step: Step) -> bool {
        match step {
            Step::Kill(slot) | Step::KillLeader(slot) | Step::Restart(slot, _) => {
                self.is(slot, |it| it.up())
            }
            Step::Start(slot) => {
                // A newcomer asks for the members where the member list says they are.
                let answers = |it: Member| it.listens == Some(it.address);
                let is_answered = !self.slots(answers).is_empty();
                let may_be_gone = self.in_doubt.and_then(Call::removes) == Some(slot);
                self.is(slot, |it| !it.up() && (it.started || is_answered)) && !may_be_gone
            }
            Step::Haunt(slot) => self.haunted_slots().contains(&slot),
            Step::Check => self.has_majority() && self.in_doubt.is_none(),
            Step::Call(call, at) => {
                let is_free = !call.changes_members() || self.in_doubt.is_none();
                is_free && self.allows_at(at) && self.allows_call(call)
            }
        }
    }

    fn allows_at(&self, at: At) -> bool {
        match at {
            At::Slot(slot) => self.is(slot, |it| it.up()),
            At::Leader | At::Follower => !self.voters_up().is_empty(),
        }
    }

    fn allows_call(&self, call: Call) -> bool {
        let is_there = |slot: Slot| self.members[slot].is_some();
        match call {
            Call::Put | Call::Get | Call::List => true,
            Call::Update(None, _) | Call::Promote(None) | Call::Remove(None) => true,
            Call::Add(slot, _, address) => !is_there(slot) && self.is_vacant(address),
            Call::AddTaken(of) => is_there(of),
            Call::UpdateTaken(slot, of) => is_there(slot) && is_there(of),
            Call::Update(Some(slot), address) => {
                // A member may also be told to go back to where its process listens still.
                let goes_back = |it: Member| it.listens == Some(address);
                let is_free = self.is(slot, goes_back) || self.is_vacant(address);
                is_there(slot) && self.is_unlisted(address) && is_free
            }
            // Whether a leader has heard of a member that is down depends on how long it leads.
            Call::Promote(Some(slot)) => self.is(slot, |it| it.up() || !(it.voter || it.started)),
            Call::MoveLeader(to) => is_there(to),
            Call::Remove(Some(slot)) => self.is(slot, |it| !it.voter || self.voters() > 1),
            Call::RemoveLeader(slot) => {
                self.is(slot, |it| it.voter && it.up()) && self.voters() > 1
            }
        }
    }

    /// What etcd would answer.
    pub fn expects(&self, call: Call, at: At) -> Expected {
        if matches!(at, At::Slot(slot) if self.is(slot, |it| !it.voter)) {
            return Refused(Error::NotSupportedForLearner);
        }
        if !self.has_majority() {
            return NoMajority;
        }
        match call {
            Call::Put | Call::Get | Call::List | Call::Update(Some(_), _) => Done,
            Call::Add(_, role, _) => self.expects_of_add(role),
            Call::AddTaken(_) => match self.expects_of_add(Role::Learner) {
                Refused(Error::TooManyLearners) | Done => Refused(Error::PeerUrlExist),
                refused => refused,
            },
            Call::UpdateTaken(slot, of) if slot == of => Done,
            Call::UpdateTaken(..) => Refused(Error::PeerUrlExist),
            Call::Promote(Some(slot)) => self.expects_of_promote(slot),
            Call::Remove(Some(slot)) | Call::RemoveLeader(slot) => self.expects_of_remove(slot),
            Call::Update(None, _) | Call::Promote(None) | Call::Remove(None) => {
                Refused(Error::MemberNotFound)
            }
            Call::MoveLeader(to) => match (at, self.members[to]) {
                (At::Leader, Some(member)) if !member.voter => Refused(Error::BadLeaderTransferee),
                (At::Leader, Some(member)) if member.up() => Done,
                (At::Follower, _) if self.voters_up().len() > 1 => Refused(Error::NotLeader),
                _ => Open,
            },
        }
    }

    /// The same of a call that was made before and was not answered: it may have been done.
    pub fn expects_once_more(&self, call: Call, at: At, again: bool) -> Expected {
        match again {
            true => Done,
            false => self.expects(call, at),
        }
    }

    /// etcd counts the newcomer as one that is not connected, a learner too, and
    /// refuses a second learner only after that.
    fn expects_of_add(&self, role: Role) -> Expected {
        let (voters, started) = (self.voters(), self.voters_started());
        let quorum = majority_of(voters + 1);
        if role == Role::Voter && started < quorum && !(started == 1 && voters == 1) {
            Refused(Error::MemberNotEnoughStarted)
        } else if self.voters_up().len() < quorum && voters > 1 {
            Refused(Error::Unhealthy)
        } else if role == Role::Learner && !self.slots(|it| !it.voter).is_empty() {
            Refused(Error::TooManyLearners)
        } else {
            Done
        }
    }

    fn expects_of_promote(&self, slot: Slot) -> Expected {
        let started = self.voters_started() + 1;
        match self.members[slot] {
            Some(member) if member.voter => Refused(Error::MemberNotLearner),
            Some(member) if !member.started => Refused(Error::LearnerNotReady),
            _ if started < majority_of(self.voters() + 1) => Refused(Error::MemberNotEnoughStarted),
            _ => Done,
        }
    }

    fn expects_of_remove(&self, slot: Slot) -> Expected {
        let member = self.members[slot].expect("the target is a member");
        if !member.voter {
            return Done;
        }
        let quorum = majority_of(self.voters() - 1);
        if self.voters_started() - usize::from(member.started) < quorum {
            Refused(Error::MemberNotEnoughStarted)
        } else if member.up() && self.voters_up().len() - 1 < quorum {
            Refused(Error::Unhealthy)
        } else {
            Done
        }
    }

    /// Takes over what has come of the change in doubt.
    pub fn settle(&mut self, done: bool) {
        if let Some(call) = self.in_doubt.take()
            && done
        {
            self.apply_call(call);
        }
    }

    /// Moves on; `done`: a call was answered with success.
    pub fn apply(&mut self, step: Step, done: bool) {
        match step {
            Step::Kill(slot) | Step::KillLeader(slot) => self.member_mut(slot).listens = None,
            Step::Start(slot) | Step::Restart(slot, _) => {
                let member = self.member_mut(slot);
                (member.started, member.listens) = (true, Some(member.address));
            }
            Step::Call(call, _) if done => self.apply_call(call),
            Step::Call(..) | Step::Haunt(_) | Step::Check => {}
        }
    }

    fn apply_call(&mut self, call: Call) {
        match call {
            Call::Add(slot, role, address) => {
                self.members[slot] = Some(Member {
                    voter: role == Role::Voter,
                    started: false,
                    address,
                    listens: None,
                });
                self.remains[slot] = None;
            }
            Call::Update(Some(slot), address) => self.member_mut(slot).address = address,
            Call::Promote(Some(slot)) => self.member_mut(slot).voter = true,
            Call::Remove(Some(slot)) | Call::RemoveLeader(slot) => {
                let started = self.members[slot].take().filter(|it| it.started);
                self.remains[slot] = started.map(|it| it.listens.unwrap_or(it.address));
            }
            _ => {}
        }
        if let Call::Add(_, _, address) | Call::Update(Some(_), address) = call {
            self.addresses = self.addresses.max(address + 1);
        }
    }

    fn member_mut(&mut self, slot: Slot) -> &mut Member {
        let member = self.members[slot].as_mut();
        member.expect("steps are only done for members")
    }
}

fn majority_of(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(slot: Slot) -> Call {
        Call::Remove(Some(slot))
    }

    fn done(call: Call) -> Step {
        Step::Call(call, At::Leader)
    }

    #[test]
    fn a_majority_of_voters_is_counted_without_learners() {
        let mut model = Model::new(3);
        model.apply(done(Call::Add(3, Role::Learner, 3)), true);
        model.apply(Step::Start(3), true);
        model.apply(Step::Kill(0), true);
        assert!(model.has_majority());
        model.apply(Step::Kill(1), true);
        assert!(!model.has_majority(), "a learner does not vote");
        assert_eq!(model.expects(Call::Put, At::Slot(2)), Expected::NoMajority);
    }

    #[test]
    fn a_change_is_refused_while_too_few_members_are_connected() {
        let mut model = Model::new(3);
        let at = At::Leader;
        assert_eq!(
            model.expects(Call::Add(3, Role::Voter, 3), at),
            Expected::Done
        );
        assert_eq!(model.expects(remove(1), at), Expected::Done);
        model.apply(Step::Kill(2), true);
        let unhealthy = Expected::Refused(Error::Unhealthy);
        assert_eq!(model.expects(Call::Add(3, Role::Learner, 3), at), unhealthy);
        assert_eq!(model.expects(remove(1), at), unhealthy);
        assert_eq!(model.expects(remove(2), at), Expected::Done);
    }

    #[test]
    fn a_voter_that_never_started_counts_against_the_next_change() {
        let mut model = Model::new(3);
        model.apply(done(Call::Add(3, Role::Voter, 3)), true);
        model.apply(Step::Kill(2), true);
        assert!(!model.has_majority());
        model.apply(Step::Start(2), true);
        let at = At::Follower;
        let expected = model.expects(Call::Add(4, Role::Voter, 4), at);
        assert_eq!(expected, Expected::Done, "three of five are connected");
        let mut model = Model::new(2);
        model.apply(done(Call::Add(2, Role::Voter, 2)), true);
        let few = Expected::Refused(Error::MemberNotEnoughStarted);
        assert_eq!(model.expects(Call::Add(3, Role::Voter, 3), at), few);
        assert_eq!(model.expects(remove(0), at), few);
    }

    #[test]
    fn a_learner_is_promoted_once_it_runs() {
        let mut model = Model::new(3);
        let promote = Call::Promote(Some(3));
        let at = At::Follower;
        model.apply(done(Call::Add(3, Role::Learner, 3)), true);
        let early = Expected::Refused(Error::LearnerNotReady);
        assert_eq!(model.expects(promote, at), early);
        model.apply(Step::Start(3), true);
        assert_eq!(model.expects(promote, at), Expected::Done);
        model.apply(done(promote), true);
        let voter = Expected::Refused(Error::MemberNotLearner);
        assert_eq!(model.expects(promote, at), voter);
    }

    #[test]
    fn a_refused_call_changes_nothing_and_the_last_voter_stays() {
        let mut model = Model::new(2);
        let before = model.clone();
        model.apply(done(remove(1)), false);
        assert_eq!(model, before);
        model.apply(done(remove(1)), true);
        assert!(!model.allows(done(remove(0))));
    }

    #[test]
    fn a_newcomer_starts_only_where_a_member_can_be_asked() {
        let mut model = Model::new(1);
        model.apply(done(Call::Update(Some(0), 1)), true);
        model.apply(done(Call::Add(2, Role::Voter, 2)), true);
        assert!(!model.allows(Step::Start(2)));
        let ending = super::super::step::Ending::Asked;
        model.apply(Step::Restart(0, ending), true);
        assert!(model.allows(Step::Start(2)));
    }

    #[test]
    fn an_update_waits_for_a_restart_only_where_the_member_runs() {
        let mut model = Model::new(3);
        model.apply(Step::Kill(0), true);
        for slot in [0, 1] {
            model.apply(done(Call::Update(Some(slot), 3 + slot)), true);
        }
        assert_eq!(model.slots(|it| it.waits_to_move()), [1]);
        assert_eq!(model.vacant_addresses(), [0], "1 is still listened at");
        let ending = super::super::step::Ending::Killed;
        model.apply(Step::Restart(1, ending), true);
        assert!(model.slots(|it| it.waits_to_move()).is_empty());
        assert_eq!(model.vacant_addresses(), [0, 1]);
        assert_eq!(model.fresh_address(), 5);
    }

    #[test]
    fn a_removed_member_can_be_started_again_until_its_slot_or_address_is_taken() {
        let mut model = Model::new(3);
        model.apply(done(remove(2)), true);
        let haunt = Step::Haunt(2);
        assert!(model.allows(haunt));
        let mut readdressed = model.clone();
        readdressed.apply(done(Call::Update(Some(0), 2)), true);
        assert!(!readdressed.allows(haunt), "another member has its address");
        model.apply(done(Call::Add(2, Role::Learner, 2)), true);
        assert!(!model.allows(haunt), "its directory is cleared away");
    }
}
