//! `noise`: a target beside itself. The differences found are the noise of this machine;
//! no comparison on it can resolve smaller ones.

use super::ab::Beside;
use crate::record::{ARM_A, ARM_A_AGAIN};
use crate::schedule::Arm;
use crate::targets::TargetSpec;

#[derive(clap::Args)]
pub struct Options {
    /// See `run`
    #[arg(value_name = "TARGET")]
    target: TargetSpec,
    #[command(flatten)]
    beside: Beside,
}

pub fn run(options: &Options) -> super::Outcome {
    let Options { target, beside } = options;
    let arms = [ARM_A, ARM_A_AGAIN].map(|name| Arm::of(name, target));
    beside.run("noise", &format!("{target} beside itself"), arms.into())
}
