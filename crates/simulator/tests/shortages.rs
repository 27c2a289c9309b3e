//! Members that run out of room and of descriptors, beside everything else.

use simulator::{Faults, Verdict, run};

/// Shortages alone: whatever ends a member is one of them.
const SHORTAGES: Faults = Faults {
    shortage_permille: 6,
    ..Faults::NONE
};

const SHORTAGES_ON_BAD_DAYS: Faults = Faults {
    shortage_permille: 4,
    ..Faults::MANY
};

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

fn many(seeds: u64, faults: Faults) -> Verdict {
    let first = number("INKSTONE_SIMULATION_SEED", 0);
    let mut sum = Verdict::default();
    for seed in first..first + number("INKSTONE_SIMULATION_SEEDS", seeds) {
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
fn shortages_end_no_member_and_the_cluster_serves_again() {
    let sum = many(200, SHORTAGES);
    assert_eq!(sum.crashes, 0, "{sum:?}");
}

#[test]
fn nothing_is_lost_where_members_run_short_on_bad_days() {
    many(300, SHORTAGES_ON_BAD_DAYS);
}
