//! Losses of power of members that acknowledge writes in their page caches.

use std::panic::catch_unwind;

use crate::chosen;
use cluster::Mutant;
use simulator::{Faults, Keeping, Verdict, run};

/// Number of seeds among which one must show a broken rule.
const SEEDS: u64 = 2000;

/// With at least this many seeds, every kind of loss must occur.
const ENOUGH_SEEDS: u64 = 60;

/// At most a minority lacks acknowledged entries at any time.
const FEW: Faults = Faults {
    crash_permille: 3,
    kill_permille: 2,
    keeping: Keeping::CachedByMost,
    ..Faults::MANY
};

/// Any number of members loses power, also all at once.
const ANY: Faults = Faults {
    blackout_permille: 1,
    keeping: Keeping::CachedByAny,
    ..FEW
};

/// Leaders survive a loss of power of others, and crash a little later.
const LEADERS: Faults = Faults {
    crash_permille: 5,
    kill_permille: 3,
    cut_permille: 5,
    isolate_permille: 3,
    stop_permille: 0,
    restart_milliseconds_max: 60,
    membership_permille: 0,
    ..FEW
};

fn run_all(scene: &str, faults: Faults) -> Verdict {
    let seeds = chosen::seeds(ENOUGH_SEEDS);
    let mut sum = Verdict::default();
    for seed in seeds.clone() {
        eprintln!("{scene}: INKSTONE_SIMULATION_SEED={seed} INKSTONE_SIMULATION_SEEDS=1");
        let members = if seed % 3 == 2 { 5 } else { 3 };
        let mut faults = faults;
        if seed % 4 == 1 {
            faults.lease_reads = true;
        }
        if seed % 2 == 1 {
            faults.membership_permille = 0;
        }
        let verdict = run(seed, members, 3000, faults);
        sum.answers += verdict.answers;
        sum.crashes += verdict.crashes;
        sum.blackouts += verdict.blackouts;
        sum.returns += verdict.returns;
        sum.terms += verdict.terms;
        sum.revisions += verdict.revisions;
        sum.snapshots += verdict.snapshots;
    }
    eprintln!("{scene}: {sum:?}");
    if seeds.end - seeds.start >= ENOUGH_SEEDS {
        assert!(sum.answers > 0 && sum.returns > 0, "{sum:?}");
    }
    sum
}

#[test]
fn no_write_is_lost_while_a_minority_lacks_entries() {
    assert_eq!(run_all("few", FEW).blackouts, 0);
    assert_eq!(run_all("leaders", LEADERS).blackouts, 0);
}

#[test]
fn writes_that_were_on_a_device_survive_any_loss_of_power() {
    run_all("any", ANY);
}

fn is_caught(mutant: Mutant, scene: Faults) {
    let faults = Faults {
        mutant: Some(mutant),
        ..scene
    };
    let members = |seed| if seed % 2 == 1 { 5 } else { 3 };
    let caught =
        (0..SEEDS).find(|&seed| catch_unwind(|| run(seed, members(seed), 4000, faults)).is_err());
    let seed = caught.unwrap_or_else(|| panic!("no check detects {mutant:?} in {SEEDS} runs"));
    eprintln!("{mutant:?} is detected with seed {seed}");
}

#[test]
fn judge_detects_a_vote_while_entries_may_be_missing() {
    is_caught(Mutant::VotesWhileRejoining, LEADERS);
}

#[test]
fn judge_detects_a_match_index_kept_from_an_earlier_incarnation() {
    is_caught(Mutant::KeepsItsMatch, LEADERS);
}
