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
    beside: Beside,
}

/// Workload and measurement of targets that run beside each other.
#[derive(clap::Args)]
pub struct Beside {
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    measure: MeasureOptions,
}

pub fn run(options: &Options) -> super::Outcome {
    let Options { a, b, beside } = options;
    beside.run("ab", &format!("{b} against {a}"), triple(a, b))
}

impl Beside {
    /// Measures the sides under the workload; its name ends the title.
    pub fn run(&self, verb: &str, title: &str, arms: Vec<Arm>) -> super::Outcome {
        let workload = self.workload.resolve()?;
        let measurement = Measurement {
            verb: verb.into(),
            title: format!("{title}: {}", workload.name),
            points: Point::of(&workload),
            arms,
            pairs: PAIRS,
        };
        measurement.run(&self.measure)
    }
}

/// The three sides of a comparison: A, its copy, B.
pub fn triple(a: &TargetSpec, b: &TargetSpec) -> Vec<Arm> {
    vec![
        Arm::of(ARM_A, a),
        Arm::of(ARM_A_AGAIN, a),
        Arm::of(ARM_B, b),
    ]
}
