//! `inkstone completions`: prints a script that completes the verbs and flags in a shell.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(inkstone completions bash)                     this bash session
  inkstone completions zsh > ~/.zfunc/_inkstone           zsh, for good
  inkstone completions fish > ~/.config/fish/completions/inkstone.fish")]
pub(crate) struct Arguments {
    /// The shell to write for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes the script to stdout.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = crate::CommandLine::command();
    clap_complete::generate(arguments.shell, &mut command, "inkstone", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
