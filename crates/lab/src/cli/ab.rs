//! `ab`: B against A, beside a copy of A.

use super::finish::{finish, measure};
use super::how::{How, What};
use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B};
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;

/// At a spread of 5 % they find a difference of 6 % in four of five cases.
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
    what: What,
    #[command(flatten)]
    how: How,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.what.workload()?;
    let arms = triple(&options.a, &options.b);
    let experiment = options.how.experiment(Point::of(&workload), arms, PAIRS);
    let title = format!("{} against {}: {}", options.b, options.a, workload.name);
    let (record, folder) = measure("ab", &title, &options.how, &experiment)?;
    finish(&record, &folder, options.how.fail_on)
}

/// A, its copy, B.
pub fn triple(a: &TargetSpec, b: &TargetSpec) -> Vec<Arm> {
    let arm = |name: &str, target: &TargetSpec| Arm {
        name: name.to_owned(),
        target: target.clone(),
    };
    vec![arm(ARM_A, a), arm(ARM_A_AGAIN, a), arm(ARM_B, b)]
}
