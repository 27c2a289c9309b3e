//! `noise`: a target beside itself. The differences found are the noise of this machine;
//! no comparison on it can resolve smaller ones.

use super::finish::Measurement;
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
    let measurement = Measurement {
        verb: "noise".into(),
        title: format!("{} beside itself: {}", options.target, workload.name),
        points: Point::of(&workload),
        arms: [ARM_A, ARM_A_AGAIN]
            .map(|name| Arm::of(name, &options.target))
            .into(),
        pairs: PAIRS,
    };
    measurement.run(&options.measure)
}
