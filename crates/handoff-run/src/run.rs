//! `handoff run`: from the words typed to an exit code.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use handoff::hints::Page;

use crate::arguments::{Arguments, Sched};
use crate::failure::{Failure, NOT_EXECUTABLE, UNPROVEN};
use crate::library::{self, Library};
use crate::{child, program, scheduling};

/// Runs the program; its exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let (name, rest) = arguments
        .command
        .split_first()
        .expect("clap asks for a program");
    let found = program::find(name)?;
    let mut command = Command::new(&found);
    command.arg0(name).args(rest);
    if arguments.no_preload {
        start_by(arguments.sched)?;
        return Ok(child::exit_code(start(&mut command, &found)?));
    }
    let library = Library::find(arguments.library.as_deref())?;
    library.try_out()?;
    program::check(&found)?;
    let (page, file) = new_page()?;
    library.put_under(&mut command, &file, std::env::var_os("LD_PRELOAD"));
    if arguments.stat {
        command.env("HANDOFF_STAT", "1");
    }
    start_by(arguments.sched)?;
    let status = start(&mut command, &found)?;
    judge(name, status, page.greetings(), arguments.stat)
}

/// A page without slots: nobody reads hints here, so nobody shall write them.
pub(crate) fn new_page() -> Result<(Page, OwnedFd), Failure> {
    Page::create(0).map_err(|error| {
        Failure::not_started(
            format_args!("cannot make the page for the handshake: {error}"),
            "It takes memfd_create and a shared mapping; a sandbox may forbid them.",
        )
    })
}

fn start_by(sched: Sched) -> Result<(), Failure> {
    match sched {
        Sched::None => Ok(()),
        Sched::Batch => scheduling::batch(),
    }
}

fn start(command: &mut Command, found: &Path) -> Result<ExitStatus, Failure> {
    child::run(command).map_err(|error| {
        Failure::new(
            NOT_EXECUTABLE,
            format_args!("{} cannot be started: {error}", found.display()),
            "",
        )
    })
}

/// The program's exit code, if the library has proved to be loaded.
fn judge(
    name: &OsString,
    status: ExitStatus,
    (attached, aside): (u32, u32),
    stat: bool,
) -> Result<u8, Failure> {
    let name = name.display();
    if attached > 0 {
        if stat {
            // Nobody may be there to read it.
            let _ = writeln!(
                std::io::stderr(),
                "handoff: programs with the locks {attached}, standing aside {aside}"
            );
        }
        return Ok(child::exit_code(status));
    }
    if aside > 0 {
        return Err(Failure::new(
            UNPROVEN,
            format_args!("{name} ended ({status}), but with the C library's locks"),
            library::ASIDE,
        ));
    }
    Err(Failure::new(
        UNPROVEN,
        format_args!("{name} ended ({status}), but never loaded the library"),
        "The library works, so it is the program: it may have ended before it was\n\
         loaded, have rights of its own, or use another C library than glibc.\n\
         `handoff run --no-preload` runs it with its own locks.",
    ))
}
