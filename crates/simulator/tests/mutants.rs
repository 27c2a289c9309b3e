//! Members that break a rule are caught: else the simulation proves nothing.

use std::panic::catch_unwind;

use cluster::Mutant;
use simulator::{Faults, run};

/// Some seed of so many must show it.
const SEEDS: u64 = 2000;

/// The other members stay the same: so there is more of everything else.
fn is_caught(mutant: Mutant) {
    is_caught_among(mutant, 0);
}

fn is_caught_among(mutant: Mutant, membership_permille: u64) {
    let faults = Faults {
        mutant: Some(mutant),
        // Leaders that nobody hears are what most of them need.
        cut_permille: 12,
        membership_permille,
        ..Faults::MANY
    };
    let caught = (0..SEEDS).find(|&seed| catch_unwind(|| run(seed, 3, 4000, faults)).is_err());
    let seed = caught.unwrap_or_else(|| panic!("nobody notices {mutant:?} in {SEEDS} runs"));
    eprintln!("{mutant:?} is noticed with seed {seed}");
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
#[ignore = "too rare: it takes more seeds than this test tries"]
fn who_renews_without_confirmation_is_caught() {
    is_caught(Mutant::RenewsWithoutConfirmation);
}

#[test]
fn who_leads_before_its_first_entry_is_caught() {
    is_caught(Mutant::LeadsBeforeItsFirstEntry);
}

#[test]
fn who_answers_without_an_entry_is_caught() {
    is_caught(Mutant::AnswersWithoutAnEntry);
}

#[test]
fn who_installs_over_newer_entries_is_caught() {
    is_caught_among(
        Mutant::InstallsOverNewerEntries,
        Faults::MANY.membership_permille,
    );
}

#[test]
fn who_skips_an_entry_is_caught() {
    is_caught(Mutant::SkipsAnEntry);
}

#[test]
fn who_takes_an_earlier_life_s_answers_is_caught() {
    is_caught(Mutant::NumbersFromOneInEachLife);
}
