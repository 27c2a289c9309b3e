//! Schedulers in a guest of their own: a kernel of Debian's with sched_ext, booted in
//! qemu, where they are loaded, crashed, and measured with LevelDB on top.
//!
//! ```text
//!   packages by name ──► kernel, busybox, qemu ─┐
//!   cargo build ───────► handoff & co. ─────────┼─► one archive ─► qemu ─► console ─► table
//!   the system's LevelDB ───────────────────────┘
//! ```
//!
//! Everything lands in `target/guest`; nothing is installed.

mod image;
mod machine;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    packages::{self, Source},
    process::{Outcome, cargo, root, run as run_command},
};
use image::Image;
use machine::Machine;
use table::{Place, Table};

const SUITES: &str = "trixie trixie-backports";
/// With sched_ext; mirrors drop old ones. The first that is there is taken.
const KERNELS: [&str; 3] = [
    "linux-image-6.16.12+deb13-cloud-amd64",
    "linux-image-6.17.13+deb13-cloud-amd64",
    "linux-image-6.18.15+deb13-cloud-amd64",
];
const LEVELDB: &str = "libleveldb.so.1d";
const LEVELDB_PACKAGE: &str = "libleveldb1d";
/// Programs that the guest runs, built here.
const PROGRAMS: [&str; 4] = [
    "handoff",
    "handoff-scheduler",
    "libhandoff_preload.so",
    "leveldb-bench",
];
const INIT: &str = include_str!("guest/init.sh");

/// Locks and scheduler of each combination, and its options of `handoff run`; the first is what
/// the others are compared with.
const COMBINATIONS: [(&str, &str, &str); 7] = [
    ("native", "default", "--no-preload"),
    ("native", "FIFO", "--no-preload --sched fifo"),
    ("native", "hint", "--no-preload --sched hint"),
    ("library", "default", ""),
    ("library", "FIFO", "--sched fifo"),
    ("library", "hint", "--sched hint"),
    ("library", "default, monitor", "--monitor"),
];

#[derive(clap::Args)]
pub struct Options {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "8,64,256")]
    threads: Vec<u64>,
    /// Operations of a run, by all threads together; few of them measure how threads start
    #[arg(long, default_value_t = 150_000)]
    operations: u64,
    /// Runs of each combination; the table has the median
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only fillrandom
    #[arg(long)]
    no_reads: bool,
    /// Only load, unload and crash
    #[arg(long)]
    no_table: bool,
    /// Minutes after which a guest that has not ended is a failure
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Show the guest's console
    #[arg(long)]
    console: bool,
}

/// Boots the guest and prints what it has measured.
pub fn run(options: &Options) -> Outcome {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("SKIPPED: the guest's kernel is for Linux on x86-64".into());
    }
    packages::check_machine()?;
    let folder = root().join("target/guest");
    let qemu = packages::unpacked(&folder.join("qemu"), &Source::System, &["qemu-system-x86"])?;
    let suites = Source::Suites(SUITES);
    let busybox = packages::unpacked(&folder.join("busybox"), &suites, &["busybox-static"])?;
    let busybox = busybox.join("usr/bin/busybox");
    let kernel = kernel(&folder, &suites)?;
    let image = folder.join("image");
    fs::write(&image, put_together(options, &folder, &busybox)?)?;
    let limit = Duration::from_secs(60 * options.minutes);
    let mut machine = Machine::boot(&qemu, &kernel, &image, limit)?;
    let expected = cells(options).len();
    let table = listen(&mut machine, options.console, expected)?;
    if table.runs() != expected {
        return Err(format!("{} runs of {expected} have figures", table.runs()).into());
    }
    if expected > 0 {
        println!("\n{}", table.text(&COMBINATIONS));
    }
    Ok(())
}

/// The first kernel that can be had.
fn kernel(folder: &Path, suites: &Source) -> Outcome<PathBuf> {
    let mut why = String::new();
    for name in KERNELS {
        let version = name.strip_prefix("linux-image-").unwrap_or(name);
        match packages::unpacked(&folder.join(version), suites, &[name]) {
            Ok(root) => return Ok(root.join("boot").join(format!("vmlinuz-{version}"))),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why.into())
}

/// Builds what the guest needs and puts it into one archive.
fn put_together(options: &Options, folder: &Path, busybox: &Path) -> Outcome<Vec<u8>> {
    for arguments in [
        "build --release -p handoff-preload -p handoff-run",
        "build --release --manifest-path lab/leveldb-bench/Cargo.toml --target-dir target",
        "xtask scheduler",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        run_command(&mut cargo(&arguments))?;
    }
    let release = root().join("target/release");
    let (leveldb, library_path) = leveldb(folder)?;
    let mut image = Image::default();
    for name in ["proc", "sys", "dev", "tmp"] {
        image.folder(name);
    }
    image.file("init", script(options).as_bytes());
    image.file("bin/busybox", &fs::read(busybox)?);
    for name in PROGRAMS {
        image.program(&format!("bin/{name}"), &release.join(name), "")?;
    }
    image.program(&format!("lib/{LEVELDB}"), &leveldb, &library_path)?;
    Ok(image.finish())
}

/// The system's LevelDB or its package, and where its libraries are.
fn leveldb(folder: &Path) -> Outcome<(PathBuf, String)> {
    let system = Path::new("/usr/lib/x86_64-linux-gnu").join(LEVELDB);
    if system.exists() {
        return Ok((system, String::new()));
    }
    let folder = folder.join("leveldb");
    let unpacked = packages::unpacked(&folder, &Source::System, &[LEVELDB_PACKAGE])?;
    let path = unpacked.join("usr/lib/x86_64-linux-gnu").join(LEVELDB);
    Ok((path, packages::library_path(&unpacked)))
}

/// The first process: what is the same in each guest, and a line for each run.
fn script(options: &Options) -> String {
    let mut script = INIT.to_owned();
    let bench = "leveldb-bench run --keys 100000 --directory /tmp";
    let operations = options.operations;
    if !options.no_table && !options.no_reads {
        script.push_str("leveldb-bench prepare --keys 100000 --database /tmp/prepared\n");
    }
    if !options.no_table {
        // The first run after the boot is slower than the others.
        script.push_str(&format!(
            "{bench} --benchmark fillrandom --threads 8 --operations {operations} >/dev/null\n"
        ));
    }
    for place in cells(options) {
        let Place {
            benchmark,
            threads,
            combination,
        } = place;
        let database = match benchmark.as_str() {
            "readrandom" => "--database /tmp/prepared",
            _ => "",
        };
        script.push_str(&format!(
            "echo cell {benchmark} {threads} {combination} $(handoff run {} -- {bench} \
             --benchmark {benchmark} --threads {threads} --operations {operations} {database} \
             2>&1)\n",
            COMBINATIONS[combination].2
        ));
    }
    script.push_str("echo guest: done\npoweroff -f\n");
    script
}

/// Every run in its order: all combinations in turn, again and again.
fn cells(options: &Options) -> Vec<Place> {
    if options.no_table {
        return Vec::new();
    }
    let benchmarks: &[&str] = match options.no_reads {
        true => &["fillrandom"],
        false => &["fillrandom", "readrandom"],
    };
    let mut cells = Vec::new();
    for _ in 0..options.rounds {
        for benchmark in benchmarks {
            for threads in &options.threads {
                cells.extend((0..COMBINATIONS.len()).map(|combination| Place {
                    benchmark: (*benchmark).to_owned(),
                    threads: *threads,
                    combination,
                }));
            }
        }
    }
    cells
}

/// Reads the console until the guest says that it is done.
fn listen(machine: &mut Machine, shows_console: bool, expected: usize) -> Outcome<Table> {
    let mut table = Table::default();
    while let Some(line) = machine.line()? {
        if let Some(why) = line.strip_prefix("guest: failed: ") {
            return Err(format!("in the guest: {why}").into());
        }
        if line == "guest: done" {
            return Ok(table);
        }
        if shows_console || line.starts_with("guest: ") {
            println!("{line}");
        }
        if let Some(cell) = line.strip_prefix("cell ") {
            if add(&mut table, cell).is_none() {
                return Err(format!("a run in the guest has no figures: {cell}").into());
            }
            println!("run {} of {expected}: {cell}", table.runs());
        }
    }
    Err("the guest has ended before it was done; --console shows what it said".into())
}

/// Adds a line of a benchmark, threads, a combination and JSON.
fn add(table: &mut Table, cell: &str) -> Option<()> {
    let mut words = cell.splitn(4, ' ');
    let place = Place {
        benchmark: words.next()?.to_owned(),
        threads: words.next()?.parse().ok()?,
        combination: words
            .next()?
            .parse()
            .ok()
            .filter(|n| *n < COMBINATIONS.len())?,
    };
    table.add(place, words.next()?)
}
