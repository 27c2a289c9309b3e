//! Kinds of faults, and the random choice of them.

use environment::randomness::Random;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// kill -9 of any member, and a start some time later.
    Kill,
    /// kill -9 of the leader, and a start some time later.
    KillLeader,
    /// kill -9 of all members at once, and a start some time later.
    KillAll,
    /// SIGTERM of any member, and a start once it has ended.
    Stop,
    /// SIGSTOP for less than an election timeout.
    PauseShortly,
    /// SIGSTOP for longer than the election timeout.
    PauseLong,
    /// SIGSTOP of the leader, for longer than the election timeout.
    PauseLeader,
    /// No bytes to and from a member.
    CutOff,
    /// No bytes to and from the leader.
    CutOffLeader,
    /// A member sends, and receives nothing.
    Deafen,
    /// A member receives, and sends nothing.
    Silence,
    /// No bytes from one member to one other.
    CutOneWay,
    /// All bytes between members are delayed.
    Delay,
    /// A member's writes take long.
    SlowDisk,
    /// A member's file system is full.
    FullDisk,
    /// A member's process may open no further file or connection.
    NoDescriptor,
    /// A member's clocks run faster or slower.
    ClockRate,
    /// A member's wall clock jumps.
    WallJump,
    /// The lead is handed over on demand.
    MoveLeader,
    /// A member is added, and any of them removed.
    ReplaceMember,
    /// A member is added, and the one that leads removed.
    ReplaceLeader,
}

impl Kind {
    pub const ALL: [Kind; 21] = [
        Kind::Kill,
        Kind::KillLeader,
        Kind::KillAll,
        Kind::Stop,
        Kind::PauseShortly,
        Kind::PauseLong,
        Kind::PauseLeader,
        Kind::CutOff,
        Kind::CutOffLeader,
        Kind::Deafen,
        Kind::Silence,
        Kind::CutOneWay,
        Kind::Delay,
        Kind::SlowDisk,
        Kind::FullDisk,
        Kind::NoDescriptor,
        Kind::ClockRate,
        Kind::WallJump,
        Kind::MoveLeader,
        Kind::ReplaceMember,
        Kind::ReplaceLeader,
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill -9, one member",
            Kind::KillLeader => "kill -9, the leader",
            Kind::KillAll => "kill -9, all members",
            Kind::Stop => "SIGTERM and start",
            Kind::PauseShortly => "pause, below the election timeout",
            Kind::PauseLong => "pause, beyond the election timeout",
            Kind::PauseLeader => "pause, the leader",
            Kind::CutOff => "cut off, one member",
            Kind::CutOffLeader => "cut off, the leader",
            Kind::Deafen => "cut one way: hears nothing",
            Kind::Silence => "cut one way: says nothing",
            Kind::CutOneWay => "cut one way between two",
            Kind::Delay => "delay on all links",
            Kind::SlowDisk => "slow disk",
            Kind::FullDisk => "full disk",
            Kind::NoDescriptor => "no file descriptor",
            Kind::ClockRate => "clocks faster or slower",
            Kind::WallJump => "wall clock jumps",
            Kind::MoveLeader => "leader moved",
            Kind::ReplaceMember => "member added, any removed",
            Kind::ReplaceLeader => "member added, the leader removed",
        }
    }
}

/// Faults that cannot be injected on this machine, with the reason.
#[derive(Clone, Debug, Default)]
pub struct Missing(pub Vec<(Kind, &'static str)>);

impl Missing {
    /// Excludes a kind for the reason `why`.
    pub fn leave_out(&mut self, kind: Kind, why: &'static str) {
        eprintln!("NOT TRIED: {}: {why}", kind.name());
        self.0.push((kind, why));
    }

    /// Excludes all kinds that are not in `only`, unless `only` is empty.
    pub fn keep_only(&mut self, only: &[Kind]) {
        let unwanted = |kind: &Kind| !only.is_empty() && !only.contains(kind);
        let unwanted = Kind::ALL.into_iter().filter(unwanted);
        self.0
            .extend(unwanted.map(|kind| (kind, "not among --only")));
    }

    /// Draws one to three kinds, to be injected at about the same time.
    pub fn draw(&self, random: &mut Random) -> Vec<Kind> {
        let possible: Vec<Kind> = Kind::ALL
            .into_iter()
            .filter(|kind| self.0.iter().all(|(missing, _)| missing != kind))
            .collect();
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
        missing.leave_out(Kind::Kill, "a test");
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
        assert!(Kind::ALL[..14].iter().all(|kind| drawn.contains(kind)));
    }
}
