//! Runs with shortages of disk space, quota and descriptors, alone and with other faults.

use crate::chosen;
use simulator::{Faults, Verdict, run};

/// Shortages alone, so that a member that fails does so because of one.
const SHORTAGES: Faults = Faults {
    shortage_permille: 6,
    ..Faults::NONE
};

const SHORTAGES_ON_BAD_DAYS: Faults = Faults {
    shortage_permille: 4,
    ..Faults::MANY
};

fn many(seeds: u64, faults: Faults) -> Verdict {
    let mut sum = Verdict::default();
    for seed in chosen::seeds(seeds) {
        eprintln!("INKSTONE_SIMULATION_SEED={seed} INKSTONE_SIMULATION_SEEDS=1");
        let verdict = run(seed, 3, 3000, faults);
        sum.answers += verdict.answers;
        sum.shortages += verdict.shortages;
        sum.crashes += verdict.crashes;
    }
    eprintln!("{sum:?}");
    assert!(sum.answers > 0 && sum.shortages > 0, "{sum:?}");
    sum
}

#[test]
fn shortages_end_no_member_and_the_cluster_recovers() {
    let sum = many(200, SHORTAGES);
    assert_eq!(sum.crashes, 0, "{sum:?}");
}

#[test]
fn no_write_is_lost_with_shortages_and_many_faults() {
    many(300, SHORTAGES_ON_BAD_DAYS);
}
