//! The cluster as a walk believes it to be: which slots have members, which
//! of them vote, and which have a process that runs.
//!
//! The generator moves a model by what it expects; the walk moves one by what the
//! systems answered. The expectations restate etcd's rules: the server refuses a
//! change with which too few members would be connected or started.

use etcd_api::Error;

use super::{
    answer::Expected,
    step::{Address, At, Call, SLOTS, Step, Target},
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

    fn started_at(&mut self, address: Address) {
        (self.started, self.listens) = (true, Some(address));
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

    pub fn member(&self, slot: usize) -> Option<Member> {
        self.members[slot]
    }

    /// Slots of the members of which this is true.
    pub fn slots(&self, is: impl Fn(Member) -> bool) -> Vec<usize> {
        let holds = |slot: &usize| self.members[*slot].is_some_and(&is);
        (0..SLOTS).filter(holds).collect()
    }

    pub fn empty_slots(&self) -> Vec<usize> {
        (0..SLOTS)
            .filter(|slot| self.members[*slot].is_none())
            .collect()
    }

    /// Slots with a removed member that can be started once more.
    pub fn haunted_slots(&self) -> Vec<usize> {
        let is_free = |slot: &usize| self.remains[*slot].is_some_and(|it| self.is_vacant(it));
        (0..SLOTS).filter(is_free).collect()
    }

    /// Where the process of a removed member listens.
    pub fn remains(&self, slot: usize) -> Option<Address> {
        self.remains[slot]
    }

    /// An address that was never used.
    pub fn fresh_address(&self) -> Address {
        self.addresses
    }

    /// Addresses that were used, and are not any more.
    pub fn vacant_addresses(&self) -> Vec<Address> {
        (0..self.addresses)
            .filter(|it| self.is_vacant(*it))
            .collect()
    }

    fn is_vacant(&self, address: Address) -> bool {
        let listens =
            |slot: usize| self.members[slot].is_some_and(|it| it.listens == Some(address));
        self.is_unlisted(address) && !(0..SLOTS).any(listens)
    }

    /// A member may also be told to go back to where its process listens still.
    fn is_vacant_for(&self, slot: usize, address: Address) -> bool {
        let member = self.members[slot].expect("the slot has a member");
        let goes_back = member.listens == Some(address);
        self.is_unlisted(address) && (goes_back || self.is_vacant(address))
    }

    /// No member list has it, whatever comes of a change in doubt.
    fn is_unlisted(&self, address: Address) -> bool {
        let doubtful = match self.in_doubt {
            Some(Call::Update { address, .. } | Call::Add { address, .. }) => Some(address),
            _ => None,
        };
        self.slots(|it| it.address == address).is_empty() && doubtful != Some(address)
    }

    pub fn voters(&self) -> usize {
        self.slots(|it| it.voter).len()
    }

    pub fn voters_up(&self) -> Vec<usize> {
        self.slots(|it| it.voter && it.up())
    }

    pub fn has_majority(&self) -> bool {
        2 * self.voters_up().len() > self.voters()
    }

    /// False for a step that an answer before it has made senseless.
    pub fn allows(&self, step: Step) -> bool {
        let is = |slot: usize, test: fn(Member) -> bool| self.members[slot].is_some_and(test);
        match step {
            Step::Kill { slot, .. } | Step::Restart { slot, .. } => is(slot, |it| it.up()),
            Step::Start { slot } => {
                let knows_the_way = is(slot, |it| it.started) || self.answers_newcomers();
                is(slot, |it| !it.up()) && knows_the_way && !self.may_be_gone(slot)
            }
            Step::Haunt { slot } => self.haunted_slots().contains(&slot),
            Step::Check => self.has_majority() && self.in_doubt.is_none(),
            Step::Call { call, at } => self.allows_at(at) && self.allows_call(call),
        }
    }

    /// A newcomer asks for the members where the member list says they are.
    fn answers_newcomers(&self) -> bool {
        let answers = |it: Member| it.listens == Some(it.address);
        !self.slots(answers).is_empty()
    }

    /// Its removal is in doubt.
    fn may_be_gone(&self, slot: usize) -> bool {
        matches!(self.in_doubt, Some(Call::Remove { target, .. }) if target == Target::Slot(slot))
    }

    fn allows_at(&self, at: At) -> bool {
        match at {
            At::Slot(slot) => self.members[slot].is_some_and(|it| it.up()),
            At::Leader | At::Follower => !self.voters_up().is_empty(),
        }
    }

    fn allows_call(&self, call: Call) -> bool {
        let is_there = |slot: usize| self.members[slot].is_some();
        let is_free = !call.changes_members() || self.in_doubt.is_none();
        is_free
            && match call {
                Call::Put | Call::Get | Call::List => true,
                Call::Add { slot, address, .. } => !is_there(slot) && self.is_vacant(address),
                Call::AddTaken { of } => is_there(of),
                Call::UpdateTaken { slot, of } => is_there(slot) && is_there(of),
                Call::Update {
                    target: Target::Slot(slot),
                    address,
                } => is_there(slot) && self.is_vacant_for(slot, address),
                Call::Promote(Target::Slot(slot)) => self.knows_of_promotion(slot),
                Call::Update { .. } | Call::Promote(Target::Unknown) => true,
                Call::MoveLeader { to } => is_there(to),
                Call::Remove { target, leading } => match target {
                    Target::Slot(slot) => {
                        let member = self.members[slot];
                        let is_last = self.voters() == 1 && member.is_some_and(|it| it.voter);
                        let can_lead = member.is_some_and(|it| it.voter && it.up());
                        member.is_some() && !is_last && (can_lead || !leading)
                    }
                    Target::Unknown => true,
                },
            }
    }

    /// Whether a leader has heard of a member that is down depends on how long it leads.
    fn knows_of_promotion(&self, slot: usize) -> bool {
        self.members[slot].is_some_and(|it| it.up() || !(it.voter || it.started))
    }

    /// What etcd would answer.
    pub fn expects(&self, call: Call, at: At) -> Expected {
        let is_learner = |slot: usize| self.members[slot].is_some_and(|it| !it.voter);
        if matches!(at, At::Slot(slot) if is_learner(slot)) {
            return Expected::Refused(Error::NotSupportedForLearner);
        }
        if !self.has_majority() {
            return Expected::NoMajority;
        }
        match call {
            Call::Put | Call::Get | Call::List => Expected::Done,
            Call::Add { learner, .. } => self.expects_of_add(learner),
            Call::AddTaken { .. } => match self.expects_of_add(true) {
                Expected::Refused(Error::TooManyLearners) | Expected::Done => {
                    Expected::Refused(Error::PeerUrlExist)
                }
                refused => refused,
            },
            Call::Update {
                target: Target::Slot(_),
                ..
            } => Expected::Done,
            Call::Update { .. } => Expected::Refused(Error::MemberNotFound),
            Call::UpdateTaken { slot, of } if slot == of => Expected::Done,
            Call::UpdateTaken { .. } => Expected::Refused(Error::PeerUrlExist),
            Call::Promote(target) => self.expects_of_promote(target),
            Call::Remove { target, .. } => self.expects_of_remove(target),
            Call::MoveLeader { to } => self.expects_of_move_leader(to, at),
        }
    }

    /// etcd counts the newcomer as one that is not connected, a learner too, and
    /// refuses a second learner only after that.
    fn expects_of_add(&self, learner: bool) -> Expected {
        let voters = self.voters();
        let started = self.slots(|it| it.voter && it.started).len();
        let quorum = majority_of(voters + 1);
        if !learner && started < quorum && !(started == 1 && voters == 1) {
            return Expected::Refused(Error::MemberNotEnoughStarted);
        }
        if self.voters_up().len() < quorum && voters > 1 {
            return Expected::Refused(Error::Unhealthy);
        }
        if learner && !self.slots(|it| !it.voter).is_empty() {
            return Expected::Refused(Error::TooManyLearners);
        }
        Expected::Done
    }

    fn expects_of_promote(&self, target: Target) -> Expected {
        let Target::Slot(slot) = target else {
            return Expected::Refused(Error::MemberNotFound);
        };
        let started = self.slots(|it| it.voter && it.started).len() + 1;
        let quorum = majority_of(self.voters() + 1);
        match self.members[slot] {
            Some(member) if member.voter => Expected::Refused(Error::MemberNotLearner),
            Some(member) if !member.started => Expected::Refused(Error::LearnerNotReady),
            _ if started < quorum => Expected::Refused(Error::MemberNotEnoughStarted),
            _ => Expected::Done,
        }
    }

    fn expects_of_remove(&self, target: Target) -> Expected {
        let Target::Slot(slot) = target else {
            return Expected::Refused(Error::MemberNotFound);
        };
        let member = self.members[slot].expect("the target is a member");
        if !member.voter {
            return Expected::Done;
        }
        let voters = self.voters();
        let started = self.slots(|it| it.voter && it.started).len();
        if started - usize::from(member.started) < majority_of(voters - 1) {
            return Expected::Refused(Error::MemberNotEnoughStarted);
        }
        if member.up() && self.voters_up().len() - 1 < majority_of(voters - 1) {
            return Expected::Refused(Error::Unhealthy);
        }
        Expected::Done
    }

    fn expects_of_move_leader(&self, to: usize, at: At) -> Expected {
        match (at, self.members[to]) {
            (At::Leader, Some(member)) if !member.voter => {
                Expected::Refused(Error::BadLeaderTransferee)
            }
            (At::Leader, Some(member)) if member.up() => Expected::Done,
            (At::Follower, _) if self.voters_up().len() > 1 => Expected::Refused(Error::NotLeader),
            _ => Expected::Open,
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
            Step::Kill { slot, .. } => self.member_mut(slot).listens = None,
            Step::Start { slot } | Step::Restart { slot, .. } => {
                let member = self.member_mut(slot);
                member.started_at(member.address);
            }
            Step::Call { call, .. } if done => self.apply_call(call),
            Step::Call { .. } | Step::Haunt { .. } | Step::Check => {}
        }
    }

    fn apply_call(&mut self, call: Call) {
        match call {
            Call::Add {
                slot,
                learner,
                address,
            } => {
                self.members[slot] = Some(Member {
                    voter: !learner,
                    started: false,
                    address,
                    listens: None,
                });
                self.remains[slot] = None;
                self.note_address(address);
            }
            Call::Update {
                target: Target::Slot(slot),
                address,
            } => {
                self.member_mut(slot).address = address;
                self.note_address(address);
            }
            Call::Promote(Target::Slot(slot)) => self.member_mut(slot).voter = true,
            Call::Remove {
                target: Target::Slot(slot),
                ..
            } => {
                let member = self.members[slot].take();
                let started = member.filter(|it| it.started);
                self.remains[slot] = started.map(|it| it.listens.unwrap_or(it.address));
            }
            _ => {}
        }
    }

    fn note_address(&mut self, address: Address) {
        self.addresses = self.addresses.max(address + 1);
    }

    fn member_mut(&mut self, slot: usize) -> &mut Member {
        self.members[slot]
            .as_mut()
            .expect("steps are only done for members")
    }
}

fn majority_of(voters: usize) -> usize {
    voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(slot: usize) -> Call {
        Call::Remove {
            target: Target::Slot(slot),
            leading: false,
        }
    }

    fn kill(slot: usize) -> Step {
        Step::Kill {
            slot,
            leading: false,
        }
    }

    fn add(slot: usize, learner: bool) -> Call {
        let address = slot;
        Call::Add {
            slot,
            learner,
            address,
        }
    }

    fn done(call: Call) -> Step {
        let at = At::Leader;
        Step::Call { call, at }
    }

    #[test]
    fn a_majority_of_voters_is_counted_without_learners() {
        let mut model = Model::new(3);
        model.apply(done(add(3, true)), true);
        model.apply(Step::Start { slot: 3 }, true);
        model.apply(kill(0), true);
        assert!(model.has_majority());
        model.apply(kill(1), true);
        assert!(!model.has_majority(), "a learner does not vote");
        assert_eq!(model.expects(Call::Put, At::Slot(2)), Expected::NoMajority);
    }

    #[test]
    fn a_change_is_refused_while_too_few_members_are_connected() {
        let mut model = Model::new(3);
        let at = At::Leader;
        assert_eq!(model.expects(add(3, false), at), Expected::Done);
        assert_eq!(model.expects(remove(1), at), Expected::Done);
        model.apply(kill(2), true);
        let unhealthy = Expected::Refused(Error::Unhealthy);
        assert_eq!(model.expects(add(3, true), at), unhealthy);
        assert_eq!(model.expects(remove(1), at), unhealthy);
        assert_eq!(model.expects(remove(2), at), Expected::Done);
    }

    #[test]
    fn a_voter_that_never_started_counts_against_the_next_change() {
        let mut model = Model::new(3);
        model.apply(done(add(3, false)), true);
        model.apply(kill(2), true);
        assert!(!model.has_majority());
        model.apply(Step::Start { slot: 2 }, true);
        let at = At::Follower;
        let expected = model.expects(add(4, false), at);
        assert_eq!(expected, Expected::Done, "three of five are connected");
        let mut model = Model::new(2);
        model.apply(done(add(2, false)), true);
        let few = Expected::Refused(Error::MemberNotEnoughStarted);
        assert_eq!(model.expects(add(3, false), at), few);
        assert_eq!(model.expects(remove(0), at), few);
    }

    #[test]
    fn a_learner_is_promoted_once_it_runs() {
        let mut model = Model::new(3);
        let promote = Call::Promote(Target::Slot(3));
        let at = At::Follower;
        model.apply(done(add(3, true)), true);
        let early = Expected::Refused(Error::LearnerNotReady);
        assert_eq!(model.expects(promote, at), early);
        model.apply(Step::Start { slot: 3 }, true);
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
        let (target, address) = (Target::Slot(0), 1);
        model.apply(done(Call::Update { target, address }), true);
        model.apply(done(add(2, false)), true);
        assert!(!model.allows(Step::Start { slot: 2 }));
        let ending = super::super::step::Ending::Asked;
        model.apply(Step::Restart { slot: 0, ending }, true);
        assert!(model.allows(Step::Start { slot: 2 }));
    }

    #[test]
    fn an_update_waits_for_a_restart_only_where_the_member_runs() {
        let mut model = Model::new(3);
        model.apply(kill(0), true);
        for slot in [0, 1] {
            let (target, address) = (Target::Slot(slot), 3 + slot);
            model.apply(done(Call::Update { target, address }), true);
        }
        assert_eq!(model.slots(|it| it.waits_to_move()), [1]);
        assert_eq!(model.vacant_addresses(), [0], "1 is still listened at");
        let ending = super::super::step::Ending::Killed;
        model.apply(Step::Restart { slot: 1, ending }, true);
        assert!(model.slots(|it| it.waits_to_move()).is_empty());
        assert_eq!(model.vacant_addresses(), [0, 1]);
        assert_eq!(model.fresh_address(), 5);
    }

    #[test]
    fn a_removed_member_can_be_started_again_until_its_slot_or_address_is_taken() {
        let mut model = Model::new(3);
        model.apply(done(remove(2)), true);
        let haunt = Step::Haunt { slot: 2 };
        assert!(model.allows(haunt));
        let mut readdressed = model.clone();
        let (target, address) = (Target::Slot(0), 2);
        readdressed.apply(done(Call::Update { target, address }), true);
        assert!(!readdressed.allows(haunt), "another member has its address");
        model.apply(done(add(2, true)), true);
        assert!(!model.allows(haunt), "its directory is cleared away");
    }
}
