//! The program as a child process: starting it, passing signals on, waiting for its end.
//!
//! Signals are blocked in this process and taken one by one, so that none is lost between the
//! start and the end. The child begins with the signal mask that this process was started with.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use libc::{c_int, pid_t, siginfo_t, sigset_t};

/// Signals that are passed on.
const FORWARDED: [c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Starts the command and waits until it ends.
pub(crate) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    // The parent process may have set SIGCHLD to be ignored; then none would arrive.
    // SAFETY: the default action has no effect.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let taken = taken();
    let before = block(&taken)?;
    // SAFETY: it sets a mask, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || set_mask(&before)) };
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(about) = next(&taken)? {
            forward(&about, &child);
        }
    }
}

/// The program's exit code; 128 plus the signal's number, as in shells, if a signal killed it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| {
        let signal = status.signal();
        128 + signal.expect("a program without an exit code was killed by a signal")
    });
    u8::try_from(code).expect("exit codes and 128 plus a signal fit into a byte")
}

/// Sends the child a signal that another process has sent to this one.
fn forward(about: &siginfo_t, child: &Child) {
    // The kernel sends the signals of a terminal's keys and of its end to the child as well.
    let is_from_kernel = about.si_code > 0;
    let process = child.id().cast_signed();
    if about.si_signo == libc::SIGCHLD || is_from_kernel || sender(about) == process {
        return;
    }
    // The child has not been waited for, so the number is still its own. If it has ended, the
    // signal has no effect.
    // SAFETY: sends a signal.
    unsafe { libc::kill(process, about.si_signo) };
}

fn sender(about: &siginfo_t) -> pid_t {
    // SAFETY: a signal that a process has sent carries the process's number.
    unsafe { about.si_pid() }
}

/// The next signal; none if the wait was interrupted.
fn next(taken: &sigset_t) -> io::Result<Option<siginfo_t>> {
    let mut about = MaybeUninit::<siginfo_t>::zeroed();
    // SAFETY: a set, and room for the answer.
    if unsafe { libc::sigwaitinfo(taken, about.as_mut_ptr()) } < 0 {
        let error = io::Error::last_os_error();
        let is_interruption = error.kind() == io::ErrorKind::Interrupted;
        return if is_interruption {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: zeros are valid, and the kernel has written over them.
    Ok(Some(unsafe { about.assume_init() }))
}

fn taken() -> sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: room for a set, and signals that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        set.assume_init()
    }
}

/// Blocks these signals; returns the mask before.
fn block(set: &sigset_t) -> io::Result<sigset_t> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: a set, and room for another.
    checked(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, before.as_mut_ptr()) })?;
    // SAFETY: zeros are valid, and the mask was written over them.
    Ok(unsafe { before.assume_init() })
}

fn set_mask(mask: &sigset_t) -> io::Result<()> {
    // SAFETY: a set.
    checked(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) })
}

fn checked(error: c_int) -> io::Result<()> {
    if error == 0 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(error))
}
