//! The `handoff` binary: starts a program with handoff's locks, and proves that it has them.
//!
//! ```text
//!   find the library ─► look at PROGRAM ─► try it ─► start PROGRAM ─► pass signals on ─► wait
//!                        static? setuid?     │         │ LD_PRELOAD, HANDOFF_PAGE         │
//!                                            ▼         ▼                                  ▼
//!                                  a copy of this   the library greets         without a greeting:
//!                                  process greets?  in the page                failure
//! ```
//!
//! A loader that cannot preload a library goes on without it. So a run counts only if the
//! library has *greeted*: counted its process in the page that this process has made.

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod elf;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod library;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod scheduling;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use arguments::{CommandLine, Verb};
    use clap::Parser;

    match CommandLine::try_parse() {
        Ok(line) => {
            let Verb::Run(arguments) = line.verb;
            std::process::ExitCode::from(run::run(&arguments).unwrap_or_else(|f| f.report()))
        }
        Err(error) => {
            // The reader may have left.
            let _ = error.print();
            let is_wrong_use = error.use_stderr();
            std::process::ExitCode::from(if is_wrong_use {
                failure::NOT_STARTED
            } else {
                0
            })
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: handoff works on Linux only");
    std::process::ExitCode::from(125)
}
