//! The verdict on one metric of one comparison.

use super::conclusion::{Conclusion, Refusal};
use super::metric::Metric;
use super::{Measured, arm};
use crate::statistics::log_ratio::{LogRatio, log_of_percent, log_ratio};
use crate::statistics::{Placed, PositionEffect, position_effect, sign_flip};

/// Least number of pairs for the sign-flip test: with fewer, no pattern is rare enough.
const SIGN_FLIP_PAIRS_MIN: usize = 6;

/// Minimum effect in percent: smaller effects count as "same".
const EFFECT_MIN_PERCENT: f64 = 2.0;

/// Share of the generator's own limit above which an arm gets no verdict.
pub const CEILING_SHARE_MAX: f64 = 0.5;

/// The minimum effect as a logarithm.
pub fn effect_min() -> f64 {
    log_of_percent(EFFECT_MIN_PERCENT)
}

/// The verdict on a metric. In all log-ratios, positive means that B is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub metric: Metric,
    pub conclusion: Conclusion,
    /// B against the geometric mean of A and its copy.
    pub effect: Option<LogRatio>,
    /// Effect that A against A does not exceed in 95 of 100 experiments with this many pairs.
    pub band: f64,
    /// The order effect that was subtracted, if it was significant.
    pub order: Option<PositionEffect>,
    /// Medians of A and of B, in the metric's unit.
    pub medians: [Option<f64>; 2],
}

/// Judges one metric. Groups without all three arms are left out.
pub fn judge(metric: &Metric, measured: &[Measured]) -> Verdict {
    let groups = complete(measured);
    let runs = || groups.iter().flatten();
    let nothing_at_all = !groups.is_empty() && runs().all(|run| run.value == 0.0);
    let without_effect = Verdict {
        metric: metric.clone(),
        conclusion: match nothing_at_all {
            true => Conclusion::Same,
            false => Conclusion::Refused(Refusal::NotMeasured),
        },
        effect: None,
        band: 0.0,
        order: None,
        medians: [arm::FIRST, arm::SECOND].map(|arm| median_of(&groups, arm)),
    };
    if runs().any(|run| !run.value.is_finite() || run.value <= 0.0) {
        return without_effect;
    }
    let order = found_order(&groups);
    let spent = order.as_ref().map_or(0, |order| order.logs.len() - 1);
    let logs = groups
        .iter()
        .map(|group| corrected(group, order.as_ref(), metric.sign()));
    let (control, effects): (Vec<f64>, Vec<f64>) = logs
        .map(|[first, copy, second]| (copy - first, second - f64::midpoint(first, copy)))
        .unzip();
    let Some((effect, control)) = log_ratio(&effects, spent).zip(log_ratio(&control, spent)) else {
        return without_effect;
    };
    let band = control.band();
    let signs = sign_flip(&effects).filter(|_| effects.len() >= SIGN_FLIP_PAIRS_MIN);
    let is_certain = effect.excludes_equal() && signs.is_none_or(|p| p <= 0.05);
    let conclusion = Conclusion::refused_by(&control)
        .unwrap_or_else(|| Conclusion::on(&effect, is_certain, band));
    Verdict {
        conclusion,
        effect: Some(effect),
        band,
        order,
        ..without_effect
    }
}

/// The triples that have all their arms, in the order of the arms.
fn complete(measured: &[Measured]) -> Vec<[Measured; arm::COUNT]> {
    let groups = measured.iter().map(|run| run.group + 1).max().unwrap_or(0);
    let mut slots: Vec<[Option<Measured>; arm::COUNT]> = vec![[None; arm::COUNT]; groups];
    for run in measured.iter().filter(|run| run.arm < arm::COUNT) {
        slots[run.group][run.arm] = Some(*run);
    }
    slots
        .into_iter()
        .filter_map(|[first, copy, second]| Some([first?, copy?, second?]))
        .collect()
}

fn median_of(groups: &[[Measured; arm::COUNT]], arm: usize) -> Option<f64> {
    let values: Vec<f64> = groups.iter().map(|group| group[arm].value).collect();
    crate::statistics::summary::median(&values)
}

/// The order effect, if it is significant and at least the minimum effect.
fn found_order(groups: &[[Measured; arm::COUNT]]) -> Option<PositionEffect> {
    let placed = groups.iter().enumerate().flat_map(|(group, runs)| {
        runs.iter().map(move |run| Placed {
            group,
            position: run.position,
            arm: run.arm,
            log: run.value.ln(),
        })
    });
    position_effect(&placed.collect::<Vec<_>>())
        .filter(|order| order.significant() && order.span() >= effect_min())
}

fn corrected(
    group: &[Measured; arm::COUNT],
    order: Option<&PositionEffect>,
    sign: f64,
) -> [f64; arm::COUNT] {
    group.map(|run| {
        let of_position = order.and_then(|order| order.logs.get(run.position));
        (run.value.ln() - of_position.unwrap_or(&0.0)) * sign
    })
}

#[cfg(test)]
mod tests {
    use super::super::metric::Better;
    use super::*;
    use crate::statistics::log_ratio::percent;

    /// Noise of about 1 % without a period that an order of arms could share.
    const NOISE: [f64; 8] = [0.0, 0.011, -0.009, 0.004, -0.012, 0.008, 0.002, -0.006];

    fn rate() -> Metric {
        Metric::new("throughput", Better::MoreIsFaster)
    }

    fn runs(factors: [f64; 3], noise: f64) -> Vec<Measured> {
        (0..8)
            .flat_map(|group| (0..3).map(move |arm| (group, arm)))
            .map(|(group, arm)| {
                let at = (group * 5 + arm * 3) % 8;
                Measured {
                    group,
                    position: (arm + group) % 3,
                    arm,
                    value: 1000.0 * factors[arm] * (NOISE[at] * noise).exp(),
                }
            })
            .collect()
    }

    #[test]
    fn clear_effects_have_a_direction() {
        let faster = judge(&rate(), &runs([1.0, 1.0, 1.2], 1.0));
        assert_eq!(faster.conclusion, Conclusion::Better, "{faster:?}");
        let latency = Metric::new("p99", Better::LessIsFaster);
        let slower = judge(&latency, &runs([1.0, 1.0, 1.2], 1.0));
        assert_eq!(slower.conclusion, Conclusion::Worse);
        assert!(slower.effect.unwrap().high < 0.0);
    }

    #[test]
    fn quiet_equals_are_the_same() {
        let verdict = judge(&rate(), &runs([1.0; 3], 1.0));
        assert_eq!(verdict.conclusion, Conclusion::Same, "{verdict:?}");
    }

    #[test]
    fn noisy_equals_are_inconclusive_and_need_more_pairs() {
        let verdict = judge(&rate(), &runs([1.0; 3], 8.0));
        let Conclusion::Inconclusive {
            further: Some(pairs),
        } = verdict.conclusion
        else {
            panic!("{verdict:?}");
        };
        assert!(pairs > 8);
    }

    #[test]
    fn a_copy_that_differs_refuses_the_verdict() {
        let verdict = judge(&rate(), &runs([1.0, 0.8, 1.2], 1.0));
        assert!(
            matches!(
                verdict.conclusion,
                Conclusion::Refused(Refusal::MachineCannotTell { percent }) if percent < -15.0
            ),
            "{verdict:?}"
        );
    }

    #[test]
    fn an_effect_below_the_minimum_is_the_same() {
        let verdict = judge(&rate(), &runs([1.0, 1.0, 1.012], 0.3));
        assert_eq!(verdict.conclusion, Conclusion::Same, "{verdict:?}");
    }

    #[test]
    fn three_triples_of_exact_counts_suffice() {
        let flushes = Metric::new("flushes per operation", Better::LessIsThriftier);
        let mut runs = runs([2.0, 2.0, 1.0], 0.0);
        runs.truncate(9);
        let verdict = judge(&flushes, &runs);
        assert_eq!(verdict.conclusion, Conclusion::Better, "{verdict:?}");
    }

    #[test]
    fn zero_on_both_sides_is_the_same_and_on_one_side_is_refused() {
        assert_eq!(
            judge(&rate(), &runs([0.0; 3], 1.0)).conclusion,
            Conclusion::Same
        );
        let one = judge(&rate(), &runs([1.0, 1.0, 0.0], 1.0));
        assert_eq!(one.conclusion, Conclusion::Refused(Refusal::NotMeasured));
        assert_eq!(
            judge(&rate(), &[]).conclusion,
            Conclusion::Refused(Refusal::NotMeasured)
        );
    }

    #[test]
    fn a_triple_with_a_missing_run_is_left_out() {
        let mut runs = runs([1.0, 1.0, 1.2], 1.0);
        runs.remove(4);
        let verdict = judge(&rate(), &runs);
        assert_eq!(verdict.effect.unwrap().pairs, 7);
    }

    #[test]
    fn an_order_effect_is_found_and_subtracted() {
        let mut runs = runs([1.0; 3], 0.5);
        for run in &mut runs {
            if run.position > 0 {
                run.value *= 0.7;
            }
        }
        let verdict = judge(&rate(), &runs);
        assert_eq!(verdict.conclusion, Conclusion::Same, "{verdict:?}");
        let order = verdict.order.unwrap();
        assert_eq!(order.extremes().0, 0);
        assert!((percent(-order.span()) + 30.0).abs() < 1.5, "{order:?}");
    }
}
