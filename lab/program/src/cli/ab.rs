//! `ab`: B against A, beside a copy of A.

use super::finish::{finish, measure};
use super::options::{MeasureOptions, WorkloadOptions};
use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B};
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;

/// Default number of repetitions: with a spread of 5 % between runs, this many find a
/// difference of 6 % in four of five cases.
const PAIRS: usize = 8;

#[derive(clap::Args)]
pub struct Options {
    /// What is compared with: see `run`
    #[arg(value_name = "A")]
    a: TargetSpec,
    /// What is compared
    #[arg(value_name = "B")]
    b: TargetSpec,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    measure: MeasureOptions,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.workload.resolve()?;
    let arms = triple(&options.a, &options.b);
    let experiment = options
        .measure
        .experiment(Point::of(&workload), arms, PAIRS);
    let title = format!("{} against {}: {}", options.b, options.a, workload.name);
    let (record, folder) = measure("ab", &title, &options.measure, &experiment)?;
    finish(&record, &folder, options.measure.fail_on)
}

/// The three sides of a comparison: A, its copy, B.
pub fn triple(a: &TargetSpec, b: &TargetSpec) -> Vec<Arm> {
    let arm = |name: &str, target: &TargetSpec| Arm {
        name: name.to_owned(),
        target: target.clone(),
    };
    vec![arm(ARM_A, a), arm(ARM_A_AGAIN, a), arm(ARM_B, b)]
}
