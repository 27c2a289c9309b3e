//! A walk from a seed: steps that make sense one after the other, as long as the
//! systems answer as the model expects.
//!
//! ```text
//!   majority up    kill, start, update ... restart at the new address, add, start,
//!                  promote, remove, move-leader, reads and writes at any member
//!   majority down  one or two calls that must fail, then starts in any order
//! ```

use std::fmt;

use environment::randomness::Random;

use super::{
    answer::Expected,
    model::Model,
    step::{Address, At, Call, Ending, Role, SLOTS, Slot, Step},
};

/// Steps of a walk without what its end adds.
const STEPS_MIN: u64 = 8;
const STEPS_MAX: u64 = 16;
const VOTERS_MIN: u64 = 3;

/// How many voters begin, and what happens to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    pub seed: u64,
    pub voters: usize,
    /// Addresses that the steps name are below.
    pub addresses: Address,
    pub steps: Vec<Step>,
}

impl fmt::Display for Walk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        let (seed, voters, steps) = (self.seed, self.voters, steps.join("; "));
        write!(formatter, "seed {seed}, {voters} voters: {steps}")
    }
}

/// The walk of a seed; `length` instead of a length that the seed decides.
pub fn walk(seed: u64, length: Option<usize>) -> Walk {
    let mut random = Random::from_seed(seed);
    let voters = (VOTERS_MIN + random.below(SLOTS as u64 + 1 - VOTERS_MIN)) as usize;
    let drawn = STEPS_MIN + random.below(STEPS_MAX + 1 - STEPS_MIN);
    let length = length.unwrap_or(drawn as usize);
    let mut generator = Generator {
        random,
        model: Model::new(voters),
        steps: Vec::new(),
        addresses: voters,
        calls_without_majority: 0,
    };
    while generator.steps.len() < length {
        let step = generator.draw();
        generator.push(step);
    }
    generator.bring_all_back();
    Walk {
        seed,
        voters,
        addresses: generator.addresses,
        steps: generator.steps,
    }
}

/// Moves the model as if the systems answered what it expects.
fn advance(model: &mut Model, step: Step) {
    let mut done = true;
    if let Step::Call(call, at) = step {
        let expected = model.expects(call, at);
        done = expected == Expected::Done;
        // Without a majority an addition is refused, and the others are never answered.
        let is_open = expected == Expected::NoMajority && call.changes_members();
        if is_open && !matches!(call, Call::Add(..)) {
            model.in_doubt = Some(call);
        }
    }
    model.apply(step, done);
    if model.has_majority() {
        model.settle(true);
    }
}

struct Generator {
    random: Random,
    model: Model,
    steps: Vec<Step>,
    /// Addresses that the steps name are below.
    addresses: Address,
    /// Of the present time without a majority.
    calls_without_majority: u64,
}

impl Generator {
    fn push(&mut self, step: Step) {
        assert!(
            self.model.allows(step),
            "the generator draws {step} only where it makes sense: {:?}",
            self.model
        );
        advance(&mut self.model, step);
        self.steps.push(step);
        // A refused call names an address that the model has not taken.
        self.addresses = self.addresses.max(self.model.fresh_address() + 1);
    }

    fn draw(&mut self) -> Step {
        loop {
            let drawn = match self.model.has_majority() {
                true => self.with_majority(),
                false => self.without_majority(),
            };
            if let Some(step) = drawn.filter(|step| self.model.allows(*step)) {
                return step;
            }
        }
    }

    fn with_majority(&mut self) -> Option<Step> {
        self.calls_without_majority = 0;
        if self.random.chance(1, 2)
            && let Some(step) = self.finish()
        {
            return Some(step);
        }
        // Weights in percent.
        match self.random.below(100) {
            0..20 => self.kill(),
            20..25 => self.restart(self.model.slots(|it| it.up())),
            25..45 => self.update(),
            45..57 => self.add(),
            // Any member: a voter is no learner.
            57..60 => self.promote(self.model.slots(|_| true)),
            60..73 => self.remove(),
            73..78 => self.move_leader(),
            78..88 => Some(self.client_call()),
            88..93 => self.wrong_call(),
            93..97 => self.pick(self.model.haunted_slots()).map(Step::Haunt),
            _ => Some(Step::Check),
        }
    }

    /// What an earlier step has begun: a member is down, has another address, or is a
    /// learner.
    fn finish(&mut self) -> Option<Step> {
        match self.random.below(4) {
            0 | 1 => self.start(),
            2 => self.move_waiting(),
            _ => self.promote(self.model.slots(|it| !it.voter)),
        }
    }

    /// Calls fail; at most two, as each takes as long as a server's patience.
    fn without_majority(&mut self) -> Option<Step> {
        if self.calls_without_majority < 2 && self.random.chance(1, 2) {
            self.calls_without_majority += 1;
            return match self.random.below(6) {
                0 => self.add(),
                1 => self.update(),
                2 => self.remove_for_majority(),
                _ => Some(self.client_call()),
            };
        }
        self.start().or_else(|| self.move_waiting())
    }

    /// A member that is down; the others alone can be a majority again.
    fn remove_for_majority(&mut self) -> Option<Step> {
        let slot = self.pick(self.model.slots(|it| it.voter && !it.up()))?;
        (self.model.voters() >= 3).then(|| self.ask(Call::Remove(Some(slot))))
    }

    /// One kill in three may take the majority away.
    fn kill(&mut self) -> Option<Step> {
        let slot = self.pick(self.model.slots(|it| it.up()))?;
        let is_voter = self.model.member(slot).is_some_and(|it| it.voter);
        let step = match is_voter && self.random.chance(1, 3) {
            true => Step::KillLeader(slot),
            false => Step::Kill(slot),
        };
        let mut after = self.model.clone();
        after.apply(step, true);
        (after.has_majority() || self.random.chance(1, 3)).then_some(step)
    }

    fn start(&mut self) -> Option<Step> {
        let mut down = self.model.slots(|it| !it.up());
        // A member with a removal in doubt waits for the outcome.
        down.retain(|slot| self.model.allows(Step::Start(*slot)));
        self.pick(down).map(Step::Start)
    }

    /// Seldom a second member that runs at an address that the others no longer know.
    fn update(&mut self) -> Option<Step> {
        let is_one_waiting = !self.model.slots(|it| it.waits_to_move()).is_empty();
        let spares = is_one_waiting && self.random.chance(2, 3);
        let slots = self.model.slots(|it| !(spares && it.up()));
        let slot = self.pick(slots)?;
        let member = self.model.member(slot)?;
        let address = match member.listens {
            Some(back) if member.waits_to_move() && self.random.chance(1, 4) => back,
            _ => self.address(),
        };
        Some(self.ask(Call::Update(Some(slot), address)))
    }

    /// Now and then one that another member had.
    fn address(&mut self) -> Address {
        let vacant = self.model.vacant_addresses();
        match self.random.chance(1, 3) {
            true => self.pick(vacant).unwrap_or(self.model.fresh_address()),
            false => self.model.fresh_address(),
        }
    }

    /// Restarts a member at the address that it has been given.
    fn restart(&mut self, slots: Vec<Slot>) -> Option<Step> {
        let slot = self.pick(slots)?;
        let ending = *self.random.pick(&[Ending::Killed, Ending::Asked]);
        Some(Step::Restart(slot, ending))
    }

    fn move_waiting(&mut self) -> Option<Step> {
        self.restart(self.model.slots(|it| it.waits_to_move()))
    }

    fn add(&mut self) -> Option<Step> {
        let slot = self.pick(self.model.empty_slots())?;
        let role = match self.random.chance(1, 2) {
            true => Role::Learner,
            false => Role::Voter,
        };
        let address = self.address();
        Some(self.ask(Call::Add(slot, role, address)))
    }

    fn promote(&mut self, slots: Vec<Slot>) -> Option<Step> {
        let slot = self.pick(slots)?;
        Some(self.ask(Call::Promote(Some(slot))))
    }

    fn remove(&mut self) -> Option<Step> {
        let slot = self.pick(self.model.slots(|_| true))?;
        let can_lead = self.model.voters_up().contains(&slot);
        let call = match can_lead && self.random.chance(1, 3) {
            true => Call::RemoveLeader(slot),
            false => Call::Remove(Some(slot)),
        };
        Some(self.ask(call))
    }

    fn move_leader(&mut self) -> Option<Step> {
        let to = self.pick(self.model.slots(|_| true))?;
        let at = match self.random.chance(1, 4) {
            true => At::Follower,
            false => At::Leader,
        };
        Some(Step::Call(Call::MoveLeader(to), at))
    }

    fn client_call(&mut self) -> Step {
        let call = *self.random.pick(&[Call::Put, Call::Get, Call::List]);
        let up = self.model.slots(|it| it.up());
        Step::Call(call, self.pick(up).map_or(At::Leader, At::Slot))
    }

    /// What etcd refuses by its look at the member list.
    fn wrong_call(&mut self) -> Option<Step> {
        let members = self.model.slots(|_| true);
        let (slot, of) = (self.pick(members.clone())?, self.pick(members)?);
        let call = match self.random.below(5) {
            0 => Call::Update(None, self.model.fresh_address()),
            1 => Call::Promote(None),
            2 => Call::AddTaken(of),
            3 if slot != of => Call::UpdateTaken(slot, of),
            _ => Call::Remove(None),
        };
        Some(self.ask(call))
    }

    fn ask(&mut self, call: Call) -> Step {
        let up = self.model.slots(|it| it.up());
        let at = match self.random.below(3) {
            0 => At::Leader,
            1 => At::Follower,
            _ => self.pick(up).map_or(At::Leader, At::Slot),
        };
        Step::Call(call, at)
    }

    fn bring_all_back(&mut self) {
        while let Some(step) = self.start().or_else(|| self.move_waiting()) {
            self.push(step);
        }
        self.push(Step::Check);
    }

    fn pick(&mut self, slots: Vec<usize>) -> Option<usize> {
        (!slots.is_empty()).then(|| *self.random.pick(&slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every model that the walk goes through, with the step that follows.
    fn stages(walk: &Walk) -> Vec<(Model, Step)> {
        let mut model = Model::new(walk.voters);
        let mut stages = Vec::new();
        for step in &walk.steps {
            stages.push((model.clone(), *step));
            advance(&mut model, *step);
        }
        stages
    }

    #[test]
    fn a_seed_gives_the_same_walk_again_and_another_seed_another() {
        assert_eq!(walk(7, None), walk(7, None));
        assert_ne!(walk(7, None).steps, walk(8, None).steps);
    }

    #[test]
    fn a_walk_never_removes_its_last_voter_and_ends_with_all_members_up() {
        for seed in 0..500 {
            let walk = walk(seed, None);
            let stages = stages(&walk);
            for (model, step) in &stages {
                assert!(model.voters() > 0, "seed {seed}");
                assert!(model.allows(*step), "seed {seed}: {step}");
            }
            let (last, step) = stages.last().unwrap();
            assert_eq!(*step, Step::Check);
            assert!(last.slots(|it| !it.up() || it.waits_to_move()).is_empty());
        }
    }

    #[test]
    fn walks_together_hold_every_kind_of_step() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let walk = walk(seed, None);
            for (model, step) in stages(&walk) {
                kinds.insert(match step {
                    Step::KillLeader(_) => "kill the leader",
                    Step::Kill(_) => "kill",
                    Step::Start(_) if !model.has_majority() => "start without a majority",
                    Step::Start(_) => "start",
                    Step::Restart(..) => "restart",
                    Step::Call(..) if !model.has_majority() => "call without a majority",
                    Step::Call(call, _) => call.kind(),
                    Step::Haunt(_) => "start a removed member",
                    Step::Check => "check",
                });
            }
        }
        assert_eq!(kinds.len(), 23, "{kinds:?}");
    }

    #[test]
    fn a_length_can_be_asked_for() {
        let walk = walk(1, Some(3));
        assert!(walk.steps.len() >= 4, "three steps and a check");
        assert!((3..=SLOTS).contains(&walk.voters));
    }
}
