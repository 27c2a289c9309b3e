//! `inkstone-lab`: the laboratory as a command.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::cli::main()
}
