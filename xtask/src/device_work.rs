//! Flushes and bytes that one durable put costs the device.
//!
//! ```text
//!   image file ─► loop device ─► ext4 with a journal ─► server ◄─ clients
//!                     └── /sys/block/loopN/stat before and after
//! ```
//!
//! The measurement has its own device, so that no other program counts. One client must cost one
//! flush for each put and no more bytes than its group frame, rounded up to
//! blocks; many clients share flushes. The file system's periodic commits
//! are counted too: they are few, and within the tolerance over enough puts.

mod device;

use std::{path::PathBuf, time::Duration};

use crate::{
    group::Group,
    machine::Machine,
    process::{Outcome, inkstone_binary, is_root},
    puts,
};
use device::{Counters, LoopDevice};

/// Share of additional flushes above which the measurement fails.
const FLUSHES_TOLERANCE: f64 = 0.02;
const BLOCK_BYTES: u64 = 4096;

#[derive(clap::Args)]
pub struct Options {
    /// Puts of the one client, and of all clients together
    #[arg(long, default_value_t = 2000)]
    puts: u64,
    /// Clients of the second measurement
    #[arg(long, default_value_t = 32)]
    clients: u64,
    /// Members, each on its own device
    #[arg(long, default_value_t = 1)]
    members: usize,
    /// Bytes of each value
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// The server to measure; etcd's own binary works too [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    if !is_root() {
        return Err("SKIPPED: making a loop device and mounting it needs root".into());
    }
    let binary = inkstone_binary(options.binary.as_deref())?;
    let devices = (0..options.members.max(1))
        .map(|_| LoopDevice::create())
        .collect::<Outcome<Vec<_>>>()?;
    let data = |device: &LoopDevice| device.mount_point().join("data");
    let directories: Vec<PathBuf> = devices.iter().map(data).collect();
    let machine = Machine::here()?;
    println!(
        "{} at {} on {} ({})",
        binary.display(),
        machine.commit,
        machine.processor,
        machine.kernel
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let ours = binary.file_stem().is_none_or(|stem| stem != "etcd");
    let group = Group::start(&binary, &directories, &[])?;
    let url = group.leader().url();
    runtime.block_on(puts::puts(&url, 1, 200, options.value_bytes))?;
    group.settle()?;
    let alone = measure(&runtime, &devices, &group, 1, options)?;
    measure(&runtime, &devices, &group, options.clients, options)?;
    let group_leader = group.leader_number();
    group.stop()?;
    if ours {
        for (number, spent) in alone.iter().enumerate() {
            judge(spent, number == group_leader, options)?;
        }
    }
    Ok(())
}

/// Prints and returns the work of each device for `clients` clients together.
fn measure(
    runtime: &tokio::runtime::Runtime,
    devices: &[LoopDevice],
    group: &Group,
    clients: u64,
    options: &Options,
) -> Outcome<Vec<Counters>> {
    devices.iter().try_for_each(LoopDevice::wait_until_quiet)?;
    let counters = || {
        let counters = devices.iter().map(LoopDevice::counters);
        counters.collect::<Outcome<Vec<Counters>>>()
    };
    let before = counters()?;
    let url = group.leader().url();
    runtime.block_on(puts::puts(&url, clients, options.puts, options.value_bytes))?;
    // The pause lets the file system write what it still has to write for the puts.
    std::thread::sleep(Duration::from_millis(200));
    let spent = counters()?.into_iter().zip(before);
    let spent = spent.map(|(after, before)| after.since(before));
    let spent: Vec<Counters> = spent.collect();
    for (number, spent) in spent.iter().enumerate() {
        println!(
            "{clients:3} clients, {}: {:.4} flushes, {:.4} writes, {:.0} bytes for each of {} puts",
            if number == group.leader_number() {
                "leader  "
            } else {
                "follower"
            },
            per(spent.flushes, options.puts),
            per(spent.writes, options.puts),
            per(spent.written_bytes, options.puts),
            options.puts
        );
    }
    Ok(spent)
}

/// A follower that is a little behind takes several entries with one flush.
fn judge(spent: &Counters, leads: bool, options: &Options) -> Outcome {
    let flushes = per(spent.flushes, options.puts);
    let too_few = leads && flushes < 1.0 - FLUSHES_TOLERANCE;
    if too_few || flushes > 1.0 + FLUSHES_TOLERANCE {
        return Err(
            format!("one put of one client costs {flushes:.4} flushes instead of 1").into(),
        );
    }
    // Headers of frame and record, the key and the KeyValue's own fields.
    let frame_bytes = (options.value_bytes as u64 + 512).next_multiple_of(BLOCK_BYTES);
    let bytes = per(spent.written_bytes, options.puts);
    let allowed = frame_bytes as f64 * (1.0 + FLUSHES_TOLERANCE);
    if bytes > allowed {
        return Err(
            format!("one put of one client writes {bytes:.0} bytes, over {allowed:.0}").into(),
        );
    }
    println!("one put of one client: one flush, at most {frame_bytes} bytes");
    Ok(())
}

fn per(count: u64, puts: u64) -> f64 {
    count as f64 / puts as f64
}
