//! `--sched batch`: the policy and the slices that the kernel gives the program.
//!
//! They are set for this process before it starts the program, which inherits them with all
//! its threads. Nothing has to be restored, because this process ends with the program.

use std::io;

use crate::failure::Failure;

const SLICE_NANOS: u64 = 20_000_000;

/// The kernel's `sched_attr` in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice in nanoseconds, for the fair policies; from Linux 6.12.
    runtime: u64,
    deadline: u64,
    period: u64,
}

const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(ATTRIBUTES_BYTES == 48);

/// Sets SCHED_BATCH, with which threads do not preempt others when they wake, and long slices.
pub(crate) fn batch() -> Result<(), Failure> {
    let refused = |error: io::Error| {
        Failure::not_started(
            format_args!("the kernel refuses SCHED_BATCH: {error}"),
            "It needs no rights, but a sandbox may forbid sched_setattr.",
        )
    };
    // The rest, such as the nice value, stays as it is.
    let mut attributes = current().map_err(refused)?;
    attributes.policy = libc::SCHED_BATCH.cast_unsigned();
    attributes.runtime = SLICE_NANOS;
    // SAFETY: for this thread; the kernel reads as many bytes as the size says.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome != 0 {
        return Err(refused(io::Error::last_os_error()));
    }
    if current().map_err(refused)?.runtime == SLICE_NANOS {
        return Ok(());
    }
    Err(Failure::not_started(
        "this kernel knows no slices of 20 ms",
        "They take Linux 6.12. For the policy alone: chrt --batch 0 handoff run -- PROGRAM",
    ))
}

fn current() -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: of this thread; the kernel writes at most `ATTRIBUTES_BYTES`.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            ATTRIBUTES_BYTES,
            0,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.size = ATTRIBUTES_BYTES;
    Ok(attributes)
}
