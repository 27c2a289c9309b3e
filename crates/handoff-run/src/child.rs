//! The program as a child: started, sent our signals, waited for.
//!
//! Signals are blocked and taken one by one, so that none is lost between the start
//! and the end. The child begins with the mask that we were started with.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use libc::{c_int, pid_t, siginfo_t, sigset_t};

/// What is passed on.
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
    // Whoever started us may have it ignored; then nobody would tell us of the end.
    // SAFETY: the default does nothing.
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

/// The program's own code, or as shells say it when a signal has killed it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| {
        let signal = status.signal();
        128 + signal.expect("what has ended without a code was killed")
    });
    u8::try_from(code).expect("codes and signals fit into a byte")
}

/// Sends the child what was sent to us.
fn forward(about: &siginfo_t, child: &Child) {
    // From the kernel: a key or the end of a terminal, whose programs all get it.
    let is_from_kernel = about.si_code > 0;
    let process = child.id().cast_signed();
    if about.si_signo == libc::SIGCHLD || is_from_kernel || sender(about) == process {
        return;
    }
    // It has not been waited for, so the number is still its own. If it has ended,
    // there is nobody to be told.
    // SAFETY: sends a signal.
    unsafe { libc::kill(process, about.si_signo) };
}

fn sender(about: &siginfo_t) -> pid_t {
    // SAFETY: signals that processes send say who did.
    unsafe { about.si_pid() }
}

/// The next signal; none if there was only an interruption.
fn next(taken: &sigset_t) -> io::Result<Option<siginfo_t>> {
    let mut about = MaybeUninit::<siginfo_t>::zeroed();
    // SAFETY: a set, and a place for the answer.
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
    // SAFETY: a place for a set, and signals that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        set.assume_init()
    }
}

/// Blocks these signals; the mask there was.
fn block(set: &sigset_t) -> io::Result<sigset_t> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: a set, and a place for another.
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
