//! `selftest`: the lab's proof of itself.

use crate::selftest::verb;

#[derive(clap::Args)]
pub struct Options {
    /// Of the simulated experiments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(options: &Options) -> super::Outcome {
    let (text, exit) = verb::selftest(options.seed);
    print_text!("{text}");
    Ok(exit)
}
