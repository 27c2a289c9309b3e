//! `noise`: a target beside itself. What differs is what this machine makes out
//! of nothing, and no comparison can be finer.

use super::finish::{finish, measure};
use super::how::{How, What};
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
    what: What,
    #[command(flatten)]
    how: How,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.what.workload()?;
    let arm = |name: &str| Arm {
        name: name.to_owned(),
        target: options.target.clone(),
    };
    let arms = vec![arm(ARM_A), arm(ARM_A_AGAIN)];
    let experiment = options.how.experiment(Point::of(&workload), arms, PAIRS);
    let title = format!("{} beside itself: {}", options.target, workload.name);
    let (record, folder) = measure("noise", &title, &options.how, &experiment)?;
    finish(&record, &folder, options.how.fail_on)
}
