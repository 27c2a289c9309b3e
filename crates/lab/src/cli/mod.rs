//! What people type: one file for each verb.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "inkstone-lab",
    about = "Measures key-value stores side by side, and says when it cannot tell.",
    version,
    arg_required_else_help = true
)]
struct Arguments {}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let Arguments {} = Arguments::parse();
    ExitCode::SUCCESS
}
