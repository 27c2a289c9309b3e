//! Runs of many seeds with many faults.

use crate::chosen::{number, seeds};
use simulator::{Faults, Verdict, run};

/// With at least this many seeds, every kind of event must occur.
const ENOUGH_SEEDS: u64 = 100;
/// The fastest clock runs 9.4 % faster than the slowest; a lease tolerates 10 %.
const DRIFT_PERMILLE: u64 = 45;

#[test]
fn a_run_without_faults_keeps_its_first_leader() {
    let verdict = run(1, 3, 3000, Faults::NONE);
    assert!(verdict.answers > 200, "{verdict:?}");
    assert_eq!((verdict.crashes, verdict.terms), (0, 1));
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 100..105 {
        let once = run(seed, 3, 1500, Faults::MANY);
        assert_eq!(once, run(seed, 3, 1500, Faults::MANY), "seed {seed}");
    }
}

#[test]
fn a_learner_with_bad_memory_delays_only_itself() {
    let mut sum = Verdict::default();
    for seed in seeds(60) {
        let faults = Faults {
            bad_memory_permille: 100,
            // The operator would promote the learner.
            membership_permille: 0,
            ..Faults::MANY
        };
        eprintln!("INKSTONE_SIMULATION_SEED={seed} INKSTONE_SIMULATION_SEEDS=1");
        let verdict = run(seed, 3, 3000, faults);
        assert!(verdict.answers > 0, "{verdict:?}");
        sum.flipped_frames += verdict.flipped_frames;
        sum.flipped_messages += verdict.flipped_messages;
    }
    eprintln!("{sum:?}");
    assert!(sum.flipped_messages > 0, "{sum:?}");
    assert!(sum.flipped_frames > sum.flipped_messages, "{sum:?}");
}

#[test]
fn a_hostile_peer_and_flipped_bits_do_no_harm() {
    let mut sum = Verdict::default();
    for seed in seeds(60) {
        let faults = Faults {
            hostile_permille: 400,
            flip_permille: 10,
            ..Faults::MANY
        };
        eprintln!("INKSTONE_SIMULATION_SEED={seed} INKSTONE_SIMULATION_SEEDS=1");
        let verdict = run(seed, 3, 3000, faults);
        sum.answers += verdict.answers;
        sum.hostile_frames += verdict.hostile_frames;
        sum.hostile_messages += verdict.hostile_messages;
    }
    eprintln!("{sum:?}");
    assert!(sum.answers > 0 && sum.hostile_messages > 0, "{sum:?}");
    assert!(sum.hostile_frames > sum.hostile_messages, "{sum:?}");
}

#[test]
fn no_write_is_lost_and_all_members_agree_with_many_faults() {
    let mut sum = Verdict::default();
    let steps = number("INKSTONE_SIMULATION_STEPS", 3000);
    let seeds = seeds(1000);
    for seed in seeds.clone() {
        let (members, transfer_permille) = if seed % 4 == 3 { (5, 15) } else { (3, 3) };
        let mut faults = Faults {
            transfer_permille,
            ..Faults::MANY
        };
        if seed % 3 == 0 {
            faults.lease_reads = true;
            faults.drift_permille = DRIFT_PERMILLE;
            faults.isolate_permille = 2;
            faults.strand_permille = 1;
        }
        eprintln!("INKSTONE_SIMULATION_SEED={seed} INKSTONE_SIMULATION_SEEDS=1");
        let verdict = run(seed, members, steps, faults);
        sum.answers += verdict.answers;
        sum.crashes += verdict.crashes;
        sum.terms += verdict.terms;
        sum.revisions += verdict.revisions;
        sum.stops += verdict.stops;
        sum.transfers += verdict.transfers;
        sum.renewals += verdict.renewals;
        sum.leases_ended += verdict.leases_ended;
        sum.joins += verdict.joins;
        sum.removals += verdict.removals;
        sum.snapshots += verdict.snapshots;
        sum.lease_reads += verdict.lease_reads;
    }
    eprintln!("{sum:?}");
    assert!(sum.answers > 0 && sum.terms > 0, "{sum:?}");
    if seeds.end - seeds.start < ENOUGH_SEEDS {
        return;
    }
    assert!(sum.transfers > 0 && sum.renewals > 0, "{sum:?}");
    assert!(
        sum.joins > 0 && sum.removals > 0 && sum.snapshots > 0,
        "{sum:?}"
    );
    assert!(sum.lease_reads > 0, "{sum:?}");
}
