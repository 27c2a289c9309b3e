//! `inkstone completions`: prints a script that completes the verbs and flags in a shell.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use crate::called_as::Name;
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
    /// The name under which the binary is called
    #[arg(long, value_enum, default_value_t = Name::Inkstone, value_name = "NAME")]
    name: Name,
}

/// Writes the script for the verbs of `all` to stdout.
pub(crate) fn run(arguments: &Arguments, all: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    let (mut command, name) = (arguments.name.command(all), arguments.name.text());
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
