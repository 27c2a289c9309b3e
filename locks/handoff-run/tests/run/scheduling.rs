//! `--sched batch`: the program has the policy and the slices.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::called::{handoff, of};

const SLICE_NANOS: u64 = 20_000_000;

/// Bytes of the kernel's `sched_attr`, of which we look at the policy and the runtime.
type Attributes = [u8; 48];

fn policy_and_slice(process: i32) -> (i32, u64) {
    let mut attributes: Attributes = [0; 48];
    // SAFETY: room of that size for the answer.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            process,
            attributes.as_mut_ptr(),
            attributes.len(),
            0,
        )
    };
    assert_eq!(outcome, 0);
    let policy = i32::from_le_bytes(attributes[4..8].try_into().unwrap());
    let slice = u64::from_le_bytes(attributes[24..32].try_into().unwrap());
    (policy, slice)
}

fn start(sched: &str) -> Child {
    handoff()
        .args(["--sched", sched, "--", "sh", "-c", "echo $$; read word"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Policy and slice of a program that waits for input; none if the run was refused.
fn of_a_program(sched: &str) -> Option<(i32, u64)> {
    let mut child = start(sched);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let seen = line.trim().parse().ok().map(policy_and_slice);
    drop(child.stdin.take());
    let ended = of(&child.wait_with_output().unwrap());
    if seen.is_none() {
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(ended.error.contains("6.12"), "{ended:?}");
    }
    seen
}

#[test]
fn batch_has_long_slices() {
    let Some(seen) = of_a_program("batch") else {
        eprintln!("SKIPPED: this kernel has no slices per thread");
        return;
    };
    assert_eq!(seen, (libc::SCHED_BATCH, SLICE_NANOS));
}

#[test]
fn none_changes_nothing() {
    assert_eq!(of_a_program("none"), Some(policy_and_slice(0)));
}
