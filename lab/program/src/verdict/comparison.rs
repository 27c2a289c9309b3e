//! A whole comparison: several metrics of the same triples.

use super::conclusion::{Conclusion, Refusal};
use super::exit::{Exit, exit_of};
use super::judge::{CEILING_SHARE_MAX, Verdict, judge};
use super::metric::Metric;
use super::{Measured, arm};

/// Facts about an arm besides its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArmReport {
    /// Name in reports.
    pub name: String,
    /// Number of acknowledged writes that verification did not find.
    pub lost_writes: u64,
    /// The highest share of the generator's own limit that a run of the arm reached: of the
    /// null target's rate, or of the time of the threads that send requests to servers;
    /// `None` if neither is known.
    pub ceiling_share: Option<f64>,
}

/// Measured values of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// A, its copy, B.
    pub arms: [ArmReport; arm::COUNT],
    /// Every metric with its runs.
    pub metrics: Vec<(Metric, Vec<Measured>)>,
    /// Triples that were repeated, with the disturbances.
    pub repeated: Vec<String>,
}

/// Verdicts of a comparison.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// One verdict for each metric, in the comparison's order.
    pub verdicts: Vec<Verdict>,
    pub exit: Exit,
    /// Sentences about order effects and repeated triples.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// Judges every metric.
    pub fn judge(&self) -> Judgement {
        let refusal = self.refusal();
        let verdicts: Vec<Verdict> = self
            .metrics
            .iter()
            .map(|(metric, runs)| {
                let mut verdict = judge(metric, runs);
                if let Some(refusal) = &refusal {
                    refuse(&mut verdict, refusal);
                }
                verdict
            })
            .collect();
        Judgement {
            exit: exit_of(&verdicts),
            remarks: self.remarks(&verdicts),
            verdicts,
        }
    }

    /// A reason that makes all numbers of this comparison meaningless.
    fn refusal(&self) -> Option<Refusal> {
        if let Some(arm) = self.arms.iter().find(|arm| arm.lost_writes > 0) {
            return Some(Refusal::DataLost {
                arm: arm.name.clone(),
                writes: arm.lost_writes,
            });
        }
        self.arms.iter().find_map(|arm| {
            let share = arm.ceiling_share?;
            (share > CEILING_SHARE_MAX).then(|| Refusal::GeneratorIsTheLimit {
                arm: arm.name.clone(),
                share,
            })
        })
    }

    fn remarks(&self, verdicts: &[Verdict]) -> Vec<String> {
        let mut remarks: Vec<String> = verdicts.iter().filter_map(order_remark).collect();
        if !self.repeated.is_empty() {
            let count = self.repeated.len();
            remarks.push(format!(
                "{count} disturbed triple{} run again: {}.",
                if count == 1 { " was" } else { "s were" },
                self.repeated.join("; ")
            ));
        }
        remarks
    }
}

/// Refuses a verdict. Lost data also removes the numbers; a generator at its limit only the
/// conclusion.
fn refuse(verdict: &mut Verdict, refusal: &Refusal) {
    verdict.conclusion = Conclusion::Refused(refusal.clone());
    if matches!(refusal, Refusal::DataLost { .. }) {
        verdict.effect = None;
        verdict.medians = [None, None];
    }
}

/// A sentence about the order effect of a verdict, with positions and size; `None` without
/// one.
pub fn order_remark(verdict: &Verdict) -> Option<String> {
    let order = verdict.order.as_ref()?;
    let (most, least) = order.extremes();
    let percent = -crate::statistics::log_ratio::percent(-order.span());
    Some(format!(
        "Order effect: {} of runs in place {} is {percent:.0} % lower than in place {}, \
         whichever arm ran there ({}); it was taken off before comparing.",
        verdict.metric.name,
        least + 1,
        most + 1,
        match order.p {
            p if p < 0.0001 => "p < 0.0001".to_owned(),
            p => format!("p = {p:.4}"),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::metric::Better;
    use super::*;

    fn comparison(second: f64) -> Comparison {
        let metric = Metric::new("throughput", Better::MoreIsFaster).deciding();
        let runs = (0..6)
            .flat_map(|group| {
                [1.0, 1.0, second]
                    .into_iter()
                    .enumerate()
                    .map(move |(arm, factor)| Measured {
                        group,
                        position: (arm + group) % 3,
                        arm,
                        value: factor * (100.0 + ((group * 7 + arm * 5) % 4) as f64 / 10.0),
                    })
            })
            .collect();
        Comparison {
            arms: ["old", "old again", "new"].map(|name| ArmReport {
                name: name.to_owned(),
                ..ArmReport::default()
            }),
            metrics: vec![(metric, runs)],
            repeated: Vec::new(),
        }
    }

    #[test]
    fn a_slower_build_is_a_regression() {
        let judgement = comparison(0.8).judge();
        assert_eq!(judgement.exit, Exit::Regression);
        assert!(judgement.remarks.is_empty());
    }

    #[test]
    fn an_arm_that_lost_data_gets_no_number() {
        let mut comparison = comparison(1.5);
        comparison.arms[2].lost_writes = 3;
        let judgement = comparison.judge();
        assert_eq!(judgement.exit, Exit::Error);
        let verdict = &judgement.verdicts[0];
        assert_eq!((verdict.effect, verdict.medians), (None, [None, None]));
        assert!(verdict.conclusion.remark().unwrap().contains("new lost 3"));
    }

    #[test]
    fn an_arm_above_half_of_the_generators_limit_gets_no_verdict() {
        let mut comparison = comparison(1.5);
        comparison.arms[2].ceiling_share = Some(0.51);
        let judgement = comparison.judge();
        assert_eq!(judgement.exit, Exit::Inconclusive);
        assert!(judgement.verdicts[0].effect.is_some());
        comparison.arms[2].ceiling_share = Some(0.49);
        let judgement = comparison.judge();
        assert_eq!(judgement.exit, Exit::Fine);
    }

    #[test]
    fn repeated_triples_are_remarked() {
        let mut comparison = comparison(1.0);
        comparison.repeated = vec!["triple 3: steal 4 %".to_owned()];
        let judgement = comparison.judge();
        assert_eq!(
            judgement.remarks,
            ["1 disturbed triple was run again: triple 3: steal 4 %."]
        );
    }
}
