//! Extracts the values to be judged from a record.

use std::collections::BTreeSet;

use super::comparison::{ArmReport, Comparison};
use super::heatmap::Cell as MapCell;
use super::judge::CEILING_SHARE_MAX;
use super::measures::{Measure, measures};
use super::{Measured, arm};
use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B, ARM_NULL, Cell, Outcome, Record, Run, TaintKind};

/// Names of the arms in records, in the order of [`arm`].
pub const ARM_NAMES: [&str; arm::COUNT] = [ARM_A, ARM_A_AGAIN, ARM_B];

/// Whether a record compares A with B.
pub fn compares(record: &Record) -> bool {
    record.runs.iter().any(|run| run.arm == ARM_B)
}

/// The comparison of one cell of a record.
pub fn comparison(record: &Record, cell: &Cell) -> Comparison {
    let runs: Vec<&Run> = record
        .runs
        .iter()
        .filter(|run| run.cell.name == cell.name)
        .collect();
    let counting: Vec<&Run> = runs.iter().copied().filter(|run| run.counts()).collect();
    let open_loop = counting.iter().any(|run| run.load.rate_offered.is_some());
    let ceiling = ceiling(&counting);
    let metrics = measures(open_loop)
        .into_iter()
        .map(|measure| {
            let measured = measured(&counting, &measure);
            (measure.metric, measured)
        })
        .filter(|(_, measured)| !measured.is_empty())
        .collect();
    Comparison {
        arms: ARM_NAMES.map(|name| arm_report(&runs, name, ceiling)),
        metrics,
        repeated: repeated(&runs),
    }
}

/// The best rate of the null target among these runs; `None` without one.
pub fn ceiling(runs: &[&Run]) -> Option<f64> {
    runs.iter()
        .filter(|run| run.arm == ARM_NULL)
        .map(|run| run.operations_per_second())
        .max_by(f64::total_cmp)
}

fn arm_report(runs: &[&Run], name: &str, ceiling: Option<f64>) -> ArmReport {
    let of_arm = || runs.iter().filter(|run| run.arm == name);
    let lost_writes = of_arm()
        .filter(|run| matches!(run.outcome, Outcome::Lost { .. }))
        .map(|run| {
            let verification = &run.verification;
            (verification.keys_missing + verification.keys_wrong).max(1)
        })
        .sum();
    ArmReport {
        name: match of_arm().next() {
            Some(run) => format!("{name} ({})", product(run)),
            None => name.to_owned(),
        },
        lost_writes,
        ceiling_share: of_arm()
            .filter(|run| run.counts())
            .filter_map(|run| ceiling_share(run, ceiling))
            .max_by(f64::total_cmp),
    }
}

/// Load of the generator in a run as a share of its own limit: of the null target's rate,
/// or, for servers, of the time of the client threads.
pub fn ceiling_share(run: &Run, ceiling: Option<f64>) -> Option<f64> {
    let of_rate = ceiling.map(|ceiling| run.operations_per_second() / ceiling);
    run.generator_share().or(of_rate)
}

/// Product and version of a run's target.
pub fn product(run: &Run) -> String {
    let target = &run.target;
    let product = match target.product.is_empty() {
        true => &target.name,
        false => &target.product,
    };
    match target.version.as_str() {
        "" => product.clone(),
        version => format!("{product} {version}"),
    }
}

/// The values of all arms, with the position of each run in its group.
fn measured(counting: &[&Run], measure: &Measure) -> Vec<Measured> {
    let arm_of = |run: &Run| ARM_NAMES.iter().position(|name| *name == run.arm);
    counting
        .iter()
        .filter_map(|run| {
            let arm = arm_of(run)?;
            let earlier = |other: &&&Run| {
                other.pair == run.pair && arm_of(other).is_some() && other.number < run.number
            };
            Some(Measured {
                group: run.pair as usize,
                position: counting.iter().filter(earlier).count(),
                arm,
                value: (measure.of)(run)?,
            })
        })
        .collect()
}

/// A text for each repeated group, with its disturbances.
fn repeated(runs: &[&Run]) -> Vec<String> {
    let mut reasons: Vec<(u32, u32, Vec<String>)> = Vec::new();
    for run in runs.iter().filter(|run| run.replaced) {
        let mut known = reasons.iter_mut();
        match known.find(|it| (it.0, it.1) == (run.pair, run.attempt)) {
            Some((.., taints)) => taints.extend(taints_of(run)),
            None => reasons.push((run.pair, run.attempt, taints_of(run))),
        }
    }
    let texts = reasons.into_iter().map(|(pair, _, taints)| {
        let taints = match taints.is_empty() {
            true => "not measured".to_owned(),
            false => taints.join(", "),
        };
        format!("triple {}: {taints}", pair + 1)
    });
    texts.collect()
}

/// The disturbances of a run, in words.
pub fn taints_of(run: &Run) -> Vec<String> {
    run.taints
        .iter()
        .map(|taint| {
            let percent = taint.value * 100.0;
            match taint.kind {
                TaintKind::Steal => format!("the host took {percent:.1} % of the processors"),
                TaintKind::ForeignLoad => format!("other programs used {percent:.0} %"),
                TaintKind::Throttling => format!("throttled {:.0} times", taint.value),
                TaintKind::Swap => format!("{:.0} pages swapped", taint.value),
                TaintKind::NotQuiet => format!("not quiet after {:.0} s", taint.value),
                TaintKind::NotSteady => format!("rate still moving by {percent:.0} %"),
            }
        })
        .collect()
}

/// Paired log-ratios of the throughput of a cell, for a map. Runs near the generator's own
/// limit are left out, because they would compare the generator with itself.
pub fn map_cell(record: &Record, cell: &Cell) -> MapCell {
    let runs: Vec<&Run> = record.valid_runs_of(cell).collect();
    let ceiling = ceiling(&runs);
    let rate = |pair: u32, arm: &str| {
        runs.iter()
            .find(|run| run.pair == pair && run.arm == arm)
            .filter(|run| {
                ceiling_share(run, ceiling).is_none_or(|share| share <= CEILING_SHARE_MAX)
            })
            .map(|run| run.operations_per_second())
            .filter(|rate| *rate > 0.0)
            .map(f64::ln)
    };
    let pairs: BTreeSet<u32> = runs.iter().map(|run| run.pair).collect();
    let mut found = MapCell::default();
    for pair in pairs {
        let (first, copy) = (rate(pair, ARM_A), rate(pair, ARM_A_AGAIN));
        let base = match (first, copy) {
            (Some(first), Some(copy)) => {
                found.controls.push(copy - first);
                Some(f64::midpoint(first, copy))
            }
            (first, copy) => first.or(copy),
        };
        if let (Some(base), Some(second)) = (base, rate(pair, ARM_B)) {
            found.effects.push(second - base);
        }
    }
    found
}
