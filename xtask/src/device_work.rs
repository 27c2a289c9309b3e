//! What one durable put costs the device, in flushes and bytes.
//!
//! ```text
//!   image file ─► loop device ─► ext4 with a journal ─► server ◄─ clients
//!                     └── /sys/block/loopN/stat before and after
//! ```
//!
//! A device of our own, so that nothing else counts. One client must cost one
//! flush for each put and no more bytes than its group frame, rounded up to
//! blocks; many clients share flushes. The file system's own periodic commit
//! comes on top: few, and within the tolerance over enough puts.

mod device;

use std::{path::PathBuf, time::Duration};

use crate::{
    machine::Machine,
    process::{Outcome, inkstone_binary, is_root},
    puts,
    server_process::Program,
};
use device::{Counters, LoopDevice};

/// More flushes than puts, and the measurement fails.
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
    let device = LoopDevice::create()?;
    let program = Program::new(&binary, &device.mount_point().join("data"));
    let machine = Machine::here()?;
    println!(
        "{} at {} on {} ({})",
        binary.display(),
        machine.commit,
        machine.processor,
        machine.kernel
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let ours = program.verb.is_some();
    let alone = {
        let mut server = program.start()?;
        runtime.block_on(puts::puts(&server.url(), 1, 200, options.value_bytes))?;
        let alone = measure(&runtime, &device, &server.url(), 1, options)?;
        measure(&runtime, &device, &server.url(), options.clients, options)?;
        server.stop()?;
        alone
    };
    if ours {
        judge(&alone, options)?;
    }
    Ok(())
}

/// Prints and gives back what `clients` cost the device together.
fn measure(
    runtime: &tokio::runtime::Runtime,
    device: &LoopDevice,
    url: &str,
    clients: u64,
    options: &Options,
) -> Outcome<Counters> {
    device.wait_until_quiet()?;
    let before = device.counters()?;
    runtime.block_on(puts::puts(url, clients, options.puts, options.value_bytes))?;
    // An idle moment: what the file system owes for the puts is counted too.
    std::thread::sleep(Duration::from_millis(200));
    let spent = device.counters()?.since(before);
    println!(
        "{clients:3} clients: {:.4} flushes, {:.4} writes, {:.0} bytes for each of {} puts",
        per(spent.flushes, options.puts),
        per(spent.writes, options.puts),
        per(spent.written_bytes, options.puts),
        options.puts
    );
    Ok(spent)
}

fn judge(spent: &Counters, options: &Options) -> Outcome {
    let flushes = per(spent.flushes, options.puts);
    if (flushes - 1.0).abs() > FLUSHES_TOLERANCE {
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
