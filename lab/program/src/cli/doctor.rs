//! `doctor`: describes this machine, and measures durable writes on its device.

use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};

use super::folder::Folder;
use crate::doctor::{Floor, WAYS, environment, measure_floor};
use crate::record::{DeviceWork, Environment};
use crate::report::number::{bytes, time};
use crate::schedule::LoopFs;
use crate::schedule::run_directory::RunDirectory;
use crate::verdict::Exit;
use crate::workload::Span;

#[derive(clap::Args)]
pub struct Options {
    /// Where targets would keep their data [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    directory: Option<PathBuf>,
    /// A file system of its own, for exact counts: ext4:256M (needs root)
    #[arg(long, value_name = "KIND:SIZE")]
    loopfs: Option<LoopFs>,
    /// For each way of writing
    #[arg(long, value_name = "TIME", default_value = "1s")]
    longest: Span,
}

pub fn run(options: &Options) -> super::Outcome {
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let parent = Folder::make(&parent, "--directory")?;
    let outcome = at(parent.path(), options);
    parent.remove();
    outcome
}

fn at(parent: &Path, options: &Options) -> super::Outcome {
    let run_directory = RunDirectory::make(parent, options.loopfs, 4)?;
    let directory = run_directory.path();
    let mut machine = environment(&directory);
    machine.device = run_directory.device();
    show_machine(&machine);
    let longest = options.longest.as_duration();
    let mut floors = Vec::new();
    for (way, name) in WAYS {
        match measure_floor(way, &directory, machine.device.as_ref(), longest) {
            Ok(floor) => floors.push((name, floor)),
            Err(error) => print_line!("{name}: not here: {error}"),
        }
    }
    print_line!("\nOne durable write of 4 KiB, one writer:");
    print_line!("{}", floor_table(&floors));
    if machine
        .device
        .as_ref()
        .is_some_and(|device| !device.private)
    {
        print_line!("The device is shared: its flushes and bytes include those of others.");
    }
    for warning in &machine.warnings {
        print_line!("warning: {warning}");
    }
    Ok(Exit::Fine)
}

fn show_machine(machine: &Environment) {
    print_line!(
        "{}, {} cores, {}, {}",
        machine.processor,
        machine.cores,
        bytes(machine.memory_bytes as f64),
        machine.kernel
    );
    if !machine.virtualization.is_empty() {
        print_line!("virtualization: {}", machine.virtualization);
    }
    if !machine.governor.is_empty() {
        print_line!("governor: {}", machine.governor);
    }
    for limit in &machine.limits {
        print_line!("limit: {limit}");
    }
    let Some(device) = &machine.device else {
        print_line!("{}: no device", machine.file_system);
        return;
    };
    let answer = |yes: bool| if yes { "yes" } else { "no" };
    print_line!(
        "{} on {}: cache {}, FUA {}, scheduler {}, rotational {}, private {}",
        machine.file_system,
        device.name,
        device.cache,
        answer(device.forced_unit_access),
        device.scheduler,
        answer(device.rotational),
        answer(device.private),
    );
}

fn floor_table(floors: &[(&str, Floor)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "way",
        "writes",
        "min",
        "p50",
        "p99",
        "max",
        "flushes/write",
        "bytes/write",
    ]);
    for (name, floor) in floors {
        let latency = |nanoseconds: u64| time(nanoseconds as f64 / 1e3);
        let each = |count: fn(&DeviceWork) -> u64, digits: usize| {
            let device = floor.device.as_ref();
            device.map_or("–".to_owned(), |device| {
                format!("{:.digits$}", count(device) as f64 / floor.writes as f64)
            })
        };
        table.add_row([
            (*name).to_owned(),
            floor.writes.to_string(),
            latency(floor.latency.min()),
            latency(floor.latency.percentile(50.0)),
            latency(floor.latency.percentile(99.0)),
            latency(floor.latency.max()),
            each(|device| device.flushes, 2),
            each(|device| device.written_bytes, 0),
        ]);
    }
    table
}
