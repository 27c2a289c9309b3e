//! Damaged input for every decoder, with cargo-fuzz.
//!
//! The targets live in `fuzz/`, outside the workspace, because they need a
//! nightly compiler. The same decoders meet random damage in the ordinary
//! tests too; this verb looks longer and follows coverage.

use crate::process::{Outcome, capture, root, run as run_command};

#[derive(clap::Args)]
pub struct Options {
    /// One target only, of those in `fuzz/fuzz_targets` [default: all]
    target: Option<String>,
    /// How long, for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub fn run(options: &Options) -> Outcome {
    if capture(&mut fuzz(&["--version"])).is_err() {
        return Err(
            "SKIPPED: fuzzing needs `rustup toolchain install nightly` and \
                    `cargo install cargo-fuzz`"
                .into(),
        );
    }
    let list = capture(&mut fuzz(&["list"]))?;
    let is_asked = |target: &&str| options.target.as_deref().is_none_or(|only| only == *target);
    let targets: Vec<&str> = list.lines().filter(is_asked).collect();
    if targets.is_empty() {
        return Err(format!("no such target; there are: {}", list.replace('\n', " ")).into());
    }
    let seconds = format!("-max_total_time={}", options.seconds);
    for target in targets {
        run_command(&mut fuzz(&["run", target, "--", &seconds]))?;
    }
    Ok(())
}

fn fuzz(arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new("cargo");
    command
        .args(["+nightly", "fuzz"])
        .args(arguments)
        .current_dir(root());
    command
}
