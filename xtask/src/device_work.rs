use crate::process::Outcome;
#[derive(clap::Args)]
pub struct Options {}
pub fn run(_: &Options) -> Outcome {
    Ok(())
}
