//! Tests that the judge detects members that break a rule, without which passing runs would
//! prove nothing.

use std::panic::catch_unwind;

use cluster::Mutant;
use simulator::{Faults, Work, run};

/// Number of seeds among which one must show the broken rule.
const SEEDS: u64 = 2000;
/// Number of seeds that must pass with honest members, unless `INKSTONE_SIMULATION_SEEDS`
/// sets another.
const SEEDS_KEPT: u64 = 100;

/// Frequent cuts of the network: most broken rules show with isolated leaders.
const CUTS: Faults = Faults {
    cut_permille: 12,
    // The membership is fixed, so that the other faults happen more often.
    membership_permille: 0,
    ..Faults::MANY
};

/// Isolated leaders read under leases, with clocks of different speeds.
const LEASES: Faults = Faults {
    membership_permille: 0,
    isolate_permille: 4,
    drift_permille: 45,
    lease_reads: true,
    ..Faults::MANY
};

const ISOLATION_AND_DELAYS: Faults = Faults {
    membership_permille: 0,
    isolate_permille: 6,
    late_permille: 150,
    crash_permille: 0,
    ..Faults::MANY
};

const NOTHING: Faults = Faults {
    membership_permille: 0,
    isolate_permille: 4,
    work: Work::Nothing,
    ..Faults::MANY
};

const RENEWALS: Faults = Faults {
    isolate_permille: 4,
    work: Work::Leases,
    ..Faults::NONE
};

const LEASES_AND_CRASHES: Faults = Faults {
    strand_permille: 4,
    restart_milliseconds_max: 40,
    ..LEASES
};

const LEASES_AND_DELAYS: Faults = Faults {
    late_permille: 300,
    ..LEASES
};

const LEASES_AND_SLOW_DISKS: Faults = Faults {
    slow_disk_permille: 10,
    ..LEASES
};

const LEASES_AND_TRANSFERS: Faults = Faults {
    transfer_permille: 20,
    ..LEASES
};

fn is_caught(mutant: Mutant) {
    is_caught_in(mutant, CUTS);
}

fn is_caught_in(mutant: Mutant, scene: Faults) {
    let faults = Faults {
        mutant: Some(mutant),
        ..scene
    };
    let caught = (0..SEEDS).find(|&seed| catch_unwind(|| run(seed, 3, 4000, faults)).is_err());
    let seed = caught.unwrap_or_else(|| panic!("no check detects {mutant:?} in {SEEDS} runs"));
    eprintln!("{mutant:?} is detected with seed {seed}");
}

#[test]
fn judge_detects_an_accepted_torn_tail() {
    is_caught(Mutant::AcceptsATornTail);
}

#[test]
fn judge_detects_an_acknowledgement_before_the_flush() {
    is_caught(Mutant::AcknowledgesBeforeTheFlush);
}

#[test]
fn judge_detects_a_value_that_one_member_applies_differently() {
    is_caught(Mutant::AppliesAnotherValue);
}

#[test]
fn judge_detects_a_forgotten_vote() {
    is_caught(Mutant::ForgetsItsVote);
}

#[test]
fn judge_detects_a_read_without_confirmation() {
    is_caught(Mutant::ReadsWithoutConfirmation);
}

#[test]
fn judge_detects_a_lease_renewal_without_confirmation() {
    is_caught_in(Mutant::RenewsWithoutConfirmation, RENEWALS);
}

#[test]
fn judge_detects_a_leader_that_serves_before_its_first_entry() {
    is_caught(Mutant::LeadsBeforeItsFirstEntry);
}

#[test]
fn judge_detects_an_answer_without_an_entry() {
    is_caught_in(Mutant::AnswersWithoutAnEntry, NOTHING);
}

#[test]
fn judge_detects_a_snapshot_installed_over_newer_entries() {
    let scene = Faults {
        membership_permille: Faults::MANY.membership_permille,
        ..CUTS
    };
    is_caught_in(Mutant::InstallsOverNewerEntries, scene);
}

#[test]
fn judge_detects_a_skipped_entry() {
    is_caught(Mutant::SkipsAnEntry);
}

#[test]
fn judge_detects_answers_of_an_earlier_incarnation() {
    is_caught(Mutant::NumbersFromOneInEachIncarnation);
}

#[test]
fn judge_detects_a_vote_too_early_after_a_restart() {
    is_caught_in(Mutant::VotesAtOnceAfterARestart, LEASES_AND_CRASHES);
}

#[test]
fn judge_detects_a_lease_counted_from_the_answer() {
    is_caught_in(Mutant::LeaseFromTheReceiveTime, LEASES_AND_DELAYS);
}

#[test]
fn judge_detects_lease_reads_during_a_transfer_of_the_lead() {
    is_caught_in(Mutant::KeepsItsLeaseInATransfer, LEASES_AND_TRANSFERS);
}

#[test]
fn judge_detects_a_lease_read_behind_a_follower() {
    is_caught_in(Mutant::LeaseBehindFollowers, LEASES_AND_SLOW_DISKS);
}

/// Raft trusts its voters: a wrong message that is harmless from a learner makes histories
/// diverge when it comes from a voter.
#[test]
fn judge_detects_a_voter_with_bad_memory() {
    let faults = Faults {
        bad_memory_permille: 100,
        bad_memory_votes: true,
        ..CUTS
    };
    let caught = (0..SEEDS).find(|&seed| catch_unwind(|| run(seed, 2, 4000, faults)).is_err());
    let seed = caught.unwrap_or_else(|| panic!("no check fails in {SEEDS} runs"));
    eprintln!("a voter with bad memory is detected with seed {seed}");
}

#[test]
fn honest_members_pass_in_the_same_scenes() {
    let scenes = [
        CUTS,
        LEASES,
        ISOLATION_AND_DELAYS,
        NOTHING,
        RENEWALS,
        LEASES_AND_CRASHES,
        LEASES_AND_DELAYS,
        LEASES_AND_SLOW_DISKS,
        LEASES_AND_TRANSFERS,
    ];
    let asked = std::env::var("INKSTONE_SIMULATION_SEEDS").ok();
    let seeds = asked.and_then(|text| text.parse().ok());
    let seeds = seeds.unwrap_or(SEEDS_KEPT);
    for scene in scenes {
        for seed in 0..seeds {
            eprintln!("seed {seed} of {scene:?}");
            run(seed, 3, 4000, scene);
        }
    }
}
