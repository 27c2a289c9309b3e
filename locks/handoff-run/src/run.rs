//! `handoff run`: from the arguments to an exit code.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use handoff::hints::Page;

use crate::arguments::{Arguments, Sched};
use crate::failure::{Failure, NOT_EXECUTABLE, UNPROVEN};
use crate::kernel::InKernel;
use crate::library::{self, Library};
use crate::{child, program, scheduling};

/// Runs the program; returns the exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let (name, rest) = arguments
        .command
        .split_first()
        .expect("clap asks for a program");
    let found = program::find(name)?;
    let mut command = Command::new(&found);
    command.arg0(name).args(rest);
    if arguments.no_preload {
        return run_natively(arguments, &mut command, &found);
    }
    let library = Library::find(arguments.library.as_deref())?;
    program::check(&found)?;
    let in_kernel = InKernel::load(arguments)?;
    // Threads write hints only if a monitor or a scheduler reads them.
    let hinted = in_kernel.as_ref().filter(|_| arguments.wants_hints());
    let greeted = match hinted {
        Some(in_kernel) => in_kernel.page()?,
        None => own_page()?,
    };
    let (page, place) = (&greeted.page, &greeted.place);
    library.try_out(page, place)?;
    library.preload_into(&mut command, place, std::env::var_os("LD_PRELOAD"));
    if arguments.stat {
        command.env("HANDOFF_STAT", "1");
    }
    let before = page.greetings();
    start_by(arguments.sched)?;
    let status = start(&mut command, &found)?;
    unload(in_kernel, arguments.stat)?;
    let now = page.greetings();
    judge(
        name,
        status,
        (now.0 - before.0, now.1 - before.1),
        arguments.stat,
    )
}

/// Runs the program without the library: there are no hints, and the run fails only if the
/// scheduler was removed.
fn run_natively(arguments: &Arguments, command: &mut Command, found: &Path) -> Result<u8, Failure> {
    let in_kernel = InKernel::load(arguments)?;
    start_by(arguments.sched)?;
    let status = start(command, found)?;
    unload(in_kernel, arguments.stat)?;
    Ok(child::exit_code(status))
}

/// Unloads what was loaded into the kernel, and prints its counts if `stat`.
fn unload(in_kernel: Option<InKernel>, stat: bool) -> Result<(), Failure> {
    let Some(in_kernel) = in_kernel else {
        return Ok(());
    };
    let counts = in_kernel.unload()?;
    if stat {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "handoff: {counts}");
    }
    Ok(())
}

/// The page in which the library greets.
pub(crate) struct Greeted {
    pub(crate) page: Page,
    /// Its path for other processes.
    pub(crate) place: String,
    /// Keeps the path valid, if this process has made the page.
    pub(crate) _file: Option<OwnedFd>,
}

/// A page without slots, for the greeting alone.
fn own_page() -> Result<Greeted, Failure> {
    let (page, file) = Page::create(0).map_err(|error| {
        Failure::not_started(
            format_args!("cannot make the page for the handshake: {error}"),
            "It takes memfd_create and a shared mapping; a sandbox may forbid them.",
        )
    })?;
    Ok(Greeted {
        page,
        place: format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()),
        _file: Some(file),
    })
}

fn start_by(sched: Sched) -> Result<(), Failure> {
    match sched {
        Sched::None | Sched::Fifo | Sched::Hint => Ok(()),
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

/// The program's exit code, if the library has greeted with its locks in use.
fn judge(
    name: &OsString,
    status: ExitStatus,
    (attached, aside): (u32, u32),
    stat: bool,
) -> Result<u8, Failure> {
    let name = name.display();
    if attached > 0 {
        if stat {
            // Standard error may be closed.
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
        "The library works, so the cause is the program: it may have ended before the\n\
         library was loaded, have rights of its own, or use another C library than glibc.\n\
         `handoff run --no-preload` runs it with its own locks.",
    ))
}
