//! Members that break a rule are caught: else the simulation proves nothing.

use std::panic::catch_unwind;

use cluster::Mutant;
use simulator::{Faults, Work, run};

/// Some seed of so many must show it.
const SEEDS: u64 = 2000;
/// So many show that it was the broken rule, unless `INKSTONE_SIMULATION_SEEDS` asks
/// for more.
const SEEDS_KEPT: u64 = 100;

/// Leaders that nobody hears are what most of them need.
const CUTS: Faults = Faults {
    cut_permille: 12,
    // The members stay the same: so there is more of everything else.
    membership_permille: 0,
    ..Faults::MANY
};

/// Leaders that are cut off read under leases, by clocks that differ.
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
    let seed = caught.unwrap_or_else(|| panic!("nobody notices {mutant:?} in {SEEDS} runs"));
    eprintln!("{mutant:?} is noticed with seed {seed}");
}

#[test]
fn who_accepts_a_torn_tail_is_caught() {
    is_caught(Mutant::AcceptsATornTail);
}

#[test]
fn who_acknowledges_before_the_flush_is_caught() {
    is_caught(Mutant::AcknowledgesBeforeTheFlush);
}

#[test]
fn who_forgets_its_vote_is_caught() {
    is_caught(Mutant::ForgetsItsVote);
}

#[test]
fn who_reads_without_confirmation_is_caught() {
    is_caught(Mutant::ReadsWithoutConfirmation);
}

#[test]
fn who_renews_without_confirmation_is_caught() {
    is_caught_in(Mutant::RenewsWithoutConfirmation, RENEWALS);
}

#[test]
fn who_leads_before_its_first_entry_is_caught() {
    is_caught(Mutant::LeadsBeforeItsFirstEntry);
}

#[test]
fn who_answers_without_an_entry_is_caught() {
    is_caught_in(Mutant::AnswersWithoutAnEntry, NOTHING);
}

#[test]
fn who_installs_over_newer_entries_is_caught() {
    let scene = Faults {
        membership_permille: Faults::MANY.membership_permille,
        ..CUTS
    };
    is_caught_in(Mutant::InstallsOverNewerEntries, scene);
}

#[test]
fn who_skips_an_entry_is_caught() {
    is_caught(Mutant::SkipsAnEntry);
}

#[test]
fn who_takes_an_earlier_life_s_answers_is_caught() {
    is_caught(Mutant::NumbersFromOneInEachLife);
}

#[test]
fn who_votes_at_once_after_a_restart_is_caught() {
    is_caught_in(Mutant::VotesAtOnceAfterARestart, LEASES_AND_CRASHES);
}

#[test]
fn who_counts_a_lease_from_the_answer_is_caught() {
    is_caught_in(Mutant::LeaseFromTheReceiveTime, LEASES_AND_DELAYS);
}

#[test]
fn who_reads_on_when_the_lead_is_handed_over_is_caught() {
    is_caught_in(Mutant::KeepsItsLeaseInATransfer, LEASES_AND_TRANSFERS);
}

#[test]
fn who_shows_less_than_a_follower_has_shown_is_caught() {
    is_caught_in(Mutant::LeaseBehindFollowers, LEASES_AND_SLOW_DISKS);
}

/// Raft trusts its voters: what a learner says wrongly without harm parts histories when a
/// voter says it.
#[test]
fn a_voter_with_bad_memory_is_caught() {
    let faults = Faults {
        bad_memory_permille: 100,
        bad_memory_votes: true,
        ..CUTS
    };
    let caught = (0..SEEDS).find(|&seed| catch_unwind(|| run(seed, 2, 4000, faults)).is_err());
    let seed = caught.unwrap_or_else(|| panic!("the judge notices nothing in {SEEDS} runs"));
    eprintln!("a voter with bad memory is noticed with seed {seed}");
}

#[test]
fn members_that_keep_the_rules_pass_in_the_same_scenes() {
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
