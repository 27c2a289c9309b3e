//! Kinds of faults, and the random choice of them.

use clap::ValueEnum;
use environment::randomness::Random;

/// A kind of fault. Its line of help is its name in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// kill -9, one member
    Kill,
    /// kill -9, the leader
    KillLeader,
    /// kill -9, all members
    KillAll,
    /// SIGTERM and start
    Stop,
    /// pause, below the election timeout
    PauseShortly,
    /// pause, beyond the election timeout
    PauseLong,
    /// pause, the leader
    PauseLeader,
    /// cut off, one member
    CutOff,
    /// cut off, the leader
    CutOffLeader,
    /// cut one way: hears nothing
    Deafen,
    /// cut one way: says nothing
    Silence,
    /// cut one way between two
    CutOneWay,
    /// delay on all links
    Delay,
    /// slow disk
    SlowDisk,
    /// full disk
    FullDisk,
    /// no file descriptor
    NoDescriptor,
    /// clocks faster or slower
    ClockRate,
    /// wall clock jumps
    WallJump,
    /// leader moved
    MoveLeader,
    /// member added, any removed
    ReplaceMember,
    /// member added, the leader removed
    ReplaceLeader,
}

impl Kind {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help());
        help.expect("each kind has a line of help").to_string()
    }
}

/// Faults that cannot be injected on this machine, with the reason.
#[derive(Clone, Debug, Default)]
pub struct Missing(Vec<(Kind, &'static str)>);

impl Missing {
    /// Excludes kinds for the reason `why`.
    pub fn leave_out(&mut self, kinds: &[Kind], why: &'static str) {
        for kind in kinds {
            eprintln!("NOT TRIED: {}: {why}", kind.name());
        }
        self.0.extend(kinds.iter().map(|kind| (*kind, why)));
    }

    /// Excludes all kinds that are not in `only`, unless `only` is empty.
    pub fn keep_only(&mut self, only: &[Kind]) {
        let unwanted = |kind: &Kind| !only.is_empty() && !only.contains(kind);
        let unwanted = Kind::value_variants().iter().copied().filter(unwanted);
        self.0
            .extend(unwanted.map(|kind| (kind, "not among --only")));
    }

    /// Why a kind is excluded.
    pub fn why(&self, kind: Kind) -> Option<&'static str> {
        let mut all = self.0.iter();
        all.find(|(missing, _)| *missing == kind).map(|it| it.1)
    }

    /// Draws one to three kinds, to be injected at about the same time.
    pub fn draw(&self, random: &mut Random) -> Vec<Kind> {
        let possible = Kind::value_variants().iter().copied();
        let possible: Vec<Kind> = possible.filter(|kind| self.why(*kind).is_none()).collect();
        if possible.is_empty() {
            return Vec::new();
        }
        let many = [1, 1, 2, 2, 2, 3][random.below(6) as usize];
        (0..many).map(|_| *random.pick(&possible)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_kinds_are_drawn() {
        let mut missing = Missing::default();
        missing.keep_only(&[Kind::Kill]);
        let mut random = Random::from_seed(7);
        assert!(missing.draw(&mut random).iter().all(|it| *it == Kind::Kill));
        missing.leave_out(&[Kind::Kill], "a test");
        assert_eq!(missing.draw(&mut random), []);
    }

    #[test]
    fn a_seed_draws_the_same_faults_and_no_excluded_one() {
        let missing = Missing(vec![(Kind::FullDisk, "no root")]);
        let draw = || {
            let mut random = Random::from_seed(7);
            let rounds = (0..200).flat_map(|_| missing.draw(&mut random));
            rounds.collect::<Vec<_>>()
        };
        let drawn = draw();
        assert_eq!(drawn, draw());
        assert!(!drawn.contains(&Kind::FullDisk));
        assert!(
            Kind::value_variants()[..14]
                .iter()
                .all(|kind| drawn.contains(kind))
        );
    }
}
