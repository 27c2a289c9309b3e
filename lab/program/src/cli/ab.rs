//! `ab`: B against A, beside a copy of A.

use super::finish::Measurement;
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
    let measurement = Measurement {
        verb: "ab".into(),
        title: format!("{} against {}: {}", options.b, options.a, workload.name),
        points: Point::of(&workload),
        arms: triple(&options.a, &options.b),
        pairs: PAIRS,
    };
    measurement.run(&options.measure)
}

/// The three sides of a comparison: A, its copy, B.
pub fn triple(a: &TargetSpec, b: &TargetSpec) -> Vec<Arm> {
    vec![
        Arm::of(ARM_A, a),
        Arm::of(ARM_A_AGAIN, a),
        Arm::of(ARM_B, b),
    ]
}
