//! `noise`: a target beside itself. The differences found are the noise of this machine;
//! no comparison on it can resolve smaller ones.

use super::finish::{finish, measure};
use super::options::{MeasureOptions, WorkloadOptions};
use crate::record::{ARM_A, ARM_A_AGAIN};
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;

const PAIRS: usize = 8;

#[derive(clap::Args)]
pub struct Options {
    /// See `run`
    #[arg(value_name = "TARGET")]
    target: TargetSpec,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    measure: MeasureOptions,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.workload.resolve()?;
    let arm = |name: &str| Arm {
        name: name.to_owned(),
        target: options.target.clone(),
    };
    let arms = vec![arm(ARM_A), arm(ARM_A_AGAIN)];
    let experiment = options
        .measure
        .experiment(Point::of(&workload), arms, PAIRS);
    let title = format!("{} beside itself: {}", options.target, workload.name);
    let (record, folder) = measure("noise", &title, &options.measure, &experiment)?;
    finish(&record, &folder, options.measure.fail_on)
}
