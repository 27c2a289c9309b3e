//! `inkstone-lab-peers`: the laboratory, and the engines that Inkstone is
//! measured against.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::cli::main_with(&lab_peers::offers())
}
