//! Simulated records with known true effects and reproducible noise.

use std::collections::BTreeMap;

use lab::record::{
    ARM_A, ARM_A_AGAIN, ARM_B, ARM_NULL, Binary, BlockDevice, Cell, DeviceWork, Disturbance,
    DurabilityJudgement, Environment, FORMAT, Histogram, Interval, Judged, Kind, KindResult,
    LoadResult, Outcome, ProcessCosts, Record, Run, SearchStep, Space, SpaceSample, Steadiness,
    Taint, TaintKind, TargetIdentity, Verification,
};
use lab::report::number::counted;
use lab::workload::{Workload, parse};

/// One side of a simulated experiment.
#[derive(Clone, Copy)]
pub struct Arm {
    pub name: &'static str,
    pub product: &'static str,
    pub version: &'static str,
    /// Operations per second with one client, and with very many.
    pub rates: (f64, f64),
}

pub const A: Arm = Arm {
    name: ARM_A,
    product: "etcd",
    version: "3.7.3",
    rates: (900.0, 17_000.0),
};
pub const A_AGAIN: Arm = Arm {
    name: ARM_A_AGAIN,
    ..A
};
pub const B: Arm = Arm {
    name: ARM_B,
    product: "inkstone",
    version: "0.1.0",
    rates: (1_300.0, 29_000.0),
};
pub const NULL: Arm = Arm {
    name: ARM_NULL,
    product: "null",
    version: "1",
    rates: (900_000.0, 1_800_000.0),
};

/// Pseudo-random noise with mean 0 and standard deviation 1 that depends only on `parts`.
fn noise(parts: &[u64]) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |part: u64| {
        state = state.wrapping_add(part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 27;
        state = state.wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    for part in parts {
        next(*part);
    }
    next(1) + next(2) + next(3)
}

fn letters(text: &str) -> u64 {
    text.bytes().fold(7, |state: u64, byte| {
        state.wrapping_mul(131).wrapping_add(u64::from(byte))
    })
}

pub fn workload(clients: u32, value_bytes: f64, put: f64) -> Workload {
    let text = format!(
        "name = \"put\"\n[load]\nvalue = {{ length = \"fixed:{value_bytes}\" }}\n\
         [mix]\nput = {put}\nget = {}\n[clients]\nclients = {clients}\n",
        1.0 - put
    );
    parse("made-up.toml", &text).unwrap()
}

pub fn cell(name: &str, clients: u32, value_bytes: f64, ratio: Option<f64>) -> Cell {
    Cell {
        name: name.to_owned(),
        workload: "put".to_owned(),
        clients,
        connections: clients,
        value_bytes,
        rw_ratio: ratio,
    }
}

pub fn environment() -> Environment {
    Environment {
        date: "2026-11-21".into(),
        processor: "AMD EPYC".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.18.44".into(),
        virtualization: "kvm".into(),
        governor: String::new(),
        commit: "1a2b3c4d5e6f".into(),
        file_system: "ext4".into(),
        device: Some(BlockDevice {
            name: "loop0".into(),
            cache: "write back".into(),
            private: true,
            ..BlockDevice::default()
        }),
        limits: Vec::new(),
        warnings: vec!["2 cores: clients and servers share them".into()],
    }
}

/// A record with each arm in each cell and pair; `spread` is the noise of one run.
pub fn record(
    verb: &str,
    title: &str,
    cells: &[Cell],
    arms: &[Arm],
    pairs: u32,
    spread: f64,
) -> Record {
    let mut runs = Vec::new();
    for cell in cells {
        runs.push(run(cell, &NULL, 0, spread));
    }
    for pair in 0..pairs {
        for cell in cells {
            let turned = (0..arms.len()).map(|at| (at + pair as usize) % arms.len());
            runs.extend(turned.map(|at| run(cell, &arms[at], pair, spread)));
        }
    }
    for (number, run) in runs.iter_mut().enumerate() {
        run.number = number as u32;
    }
    Record {
        format: FORMAT,
        verb: verb.into(),
        title: title.into(),
        command_line: [
            "inkstone-lab",
            verb,
            "server:etcd",
            "server:inkstone",
            "-w",
            "put",
        ]
        .map(String::from)
        .to_vec(),
        tool: "0.1.0".into(),
        complete: true,
        incomplete_because: None,
        started_unix_ms: 1_795_272_899_763,
        seed: 3_846_102_980,
        environment: environment(),
        schedule: Vec::new(),
        runs,
    }
}

/// One simulated run.
pub fn run(cell: &Cell, arm: &Arm, pair: u32, spread: f64) -> Run {
    let place = [letters(&cell.name), letters(arm.name), u64::from(pair)];
    let clients = f64::from(cell.clients);
    let share = (clients - 1.0) / (clients + 24.0);
    let level = arm.rates.0 + (arm.rates.1 - arm.rates.0) * share;
    let slower = 1.0 + cell.value_bytes / 6000.0 + cell.rw_ratio.unwrap_or(0.0) / 9.0;
    let rate = level / slower * (1.0 + spread * noise(&place));
    let seconds = 10.0;
    let operations = (rate * seconds) as u64;
    let puts = match cell.rw_ratio {
        Some(ratio) => (operations as f64 / (1.0 + ratio)) as u64,
        None => operations,
    };
    let is_null = arm.name == ARM_NULL;
    let flushes = if is_null {
        0
    } else {
        (puts as f64 / clients.sqrt()) as u64
    };
    let user_bytes = puts * (cell.value_bytes as u64 + 16);
    let device = DeviceWork {
        device: "loop0".into(),
        flushes,
        written_bytes: (user_bytes as f64 * 1.3) as u64 + flushes * 4096,
        ..DeviceWork::default()
    };
    let put = cell.rw_ratio.map_or(1.0, |ratio| 1.0 / (1.0 + ratio));
    Run {
        cell: cell.clone(),
        arm: arm.name.into(),
        pair,
        attempt: 0,
        number: 0,
        replaced: false,
        target: identity(arm),
        workload: workload(cell.clients, cell.value_bytes, put),
        seed: 7,
        started_unix_ms: 1_795_272_900_451,
        outcome: Outcome::Measured,
        ceiling: None,
        load: load(cell, rate, seconds, (operations, puts), &place, spread),
        steadiness: Steadiness {
            steady: true,
            warmup_seconds: 6.0,
            last_change: 0.004,
        },
        client: costs(
            rate * 14e-6 * seconds * (1.0 + spread * noise(&place) / 2.0),
            40 << 20,
        ),
        server: (!is_null).then(|| {
            let resident = f64::from(66 << 20) * (1.0 + spread * noise(&place) / 4.0);
            costs(seconds * 0.9, resident as u64)
        }),
        device: Some(device.clone()),
        device_settled: Some(device),
        user_bytes_written: user_bytes,
        footprint_bytes: Some(if is_null { 0 } else { 192 << 20 }),
        space: Space::default(),
        disturbance: Disturbance::default(),
        taints: Vec::new(),
        verification: Verification {
            after: "closed and opened".into(),
            keys_checked: 100_000,
            ..Verification::default()
        },
        durability: DurabilityJudgement {
            judged: Judged::Durable,
            because: format!("{flushes} device flushes for {puts} acknowledged puts"),
        },
    }
}

fn identity(arm: &Arm) -> TargetIdentity {
    TargetIdentity {
        name: arm.product.into(),
        product: arm.product.into(),
        version: arm.version.into(),
        binary: Some(Binary {
            file_name: arm.product.into(),
            bytes: 25 << 20,
            sha1: "634ad91297fbe5b78aca39377ac4394bf827183f".into(),
        }),
        command: vec![arm.product.into(), "--name=one".into()],
        members: 1,
    }
}

fn costs(seconds: f64, resident: u64) -> ProcessCosts {
    ProcessCosts {
        cpu_user_seconds: seconds * 0.7,
        cpu_system_seconds: seconds * 0.3,
        resident_bytes: resident,
        resident_bytes_peak: resident,
        ..ProcessCosts::default()
    }
}

fn load(
    cell: &Cell,
    rate: f64,
    seconds: f64,
    (operations, puts): (u64, u64),
    place: &[u64; 3],
    spread: f64,
) -> LoadResult {
    let mean_ns = f64::from(cell.clients) / rate * 1e9;
    let mut times = Histogram::default();
    for at in 0..20_000 {
        let rest = 1.0 - (f64::from(at) + 0.5) / 20_000.0;
        times.record((mean_ns * (0.45 + 0.35 * rest.powf(-0.4))) as u64);
    }
    let kind = |operations: u64| KindResult {
        operations,
        response: times.clone(),
        ..KindResult::default()
    };
    let mut kinds = BTreeMap::from([(Kind::Put, kind(puts))]);
    if operations > puts {
        kinds.insert(Kind::Range, kind(operations - puts));
    }
    let series = (-12..20).map(|half| {
        let at = f64::from(half) / 2.0;
        let warm = 1.0 - 0.6 * (-(at + 6.0) / 1.2).exp();
        let here = [place[0], place[1], place[2], (half + 100) as u64];
        let shaken = 1.0 + (spread + 0.02) * noise(&here);
        Interval {
            at_seconds: at,
            seconds: 0.5,
            operations: (rate * 0.5 * warm * shaken) as u64,
            p50_us: mean_ns / 1e3,
            p99_us: mean_ns / 3e2,
            p999_us: mean_ns / 2e2,
            max_us: mean_ns / 1e2,
            failed: 0,
        }
    });
    LoadResult {
        seconds,
        kinds,
        series: series.collect(),
        ..LoadResult::default()
    }
}

/// A comparison in which B is faster, with three numbers of clients.
pub fn comparison() -> Record {
    let cells = [1, 16, 100].map(|clients| {
        let name = format!("durable put, {}", counted(clients.into(), "client"));
        cell(&name, clients, 256.0, None)
    });
    record(
        "ab",
        "inkstone against etcd: durable put",
        &cells,
        &[A, A_AGAIN, B],
        6,
        0.03,
    )
}

/// A comparison of equal sides with so much noise that it is inconclusive.
pub fn inconclusive() -> Record {
    let twin = Arm { name: ARM_B, ..A };
    let cells = [cell("durable put", 16, 256.0, None)];
    record(
        "ab",
        "etcd against etcd",
        &cells,
        &[A, A_AGAIN, twin],
        6,
        0.2,
    )
}

/// A comparison in which B is slower.
pub fn regression() -> Record {
    let slower = Arm {
        rates: (600.0, 9_000.0),
        ..B
    };
    let cells = [cell("durable put", 16, 256.0, None)];
    record("ab", "a regression", &cells, &[A, A_AGAIN, slower], 6, 0.02)
}

/// A map of two ratios, four sizes of values and four numbers of connections, with changed
/// cells and one that was not measured.
pub fn map() -> Record {
    let mut cells = Vec::new();
    for ratio in [4.0, 0.25] {
        for value in [256.0, 1024.0, 4096.0, 16384.0] {
            for connections in [8, 32, 128, 512] {
                let name = format!("R/W {ratio}, {value} B, {connections} connections");
                cells.push(cell(&name, connections, value, Some(ratio)));
            }
        }
    }
    let near = Arm {
        rates: (930.0, 17_600.0),
        ..B
    };
    let mut map = record(
        "heatmap",
        "reads and writes",
        &cells,
        &[A, A_AGAIN, near],
        5,
        0.02,
    );
    let missing = "R/W 4, 16384 B, 512 connections";
    map.runs.retain(|run| run.cell.name != missing);
    for run in &mut map.runs {
        let (is_b, factor) = match run.cell.name.as_str() {
            "R/W 0.25, 4096 B, 32 connections" => (run.arm == ARM_B, 0.6),
            "R/W 4, 256 B, 128 connections" => (run.arm == ARM_B, 1.7),
            name if name.contains("512 connections") => (run.arm == ARM_B, 1.25),
            _ => (false, 1.0),
        };
        if is_b {
            for kind in run.load.kinds.values_mut() {
                kind.operations = (kind.operations as f64 * factor) as u64;
            }
        }
    }
    map
}

/// Six engines side by side. Two have no numbers at 256 clients, one is not durable, and one
/// pair was repeated.
pub fn side_by_side() -> Record {
    let arm = |name, product, version, rates| Arm {
        name,
        product,
        version,
        rates,
    };
    let arms = [
        arm("engine", "inkstone", "0.1.0", (2_000.0, 90_000.0)),
        arm("fjall", "fjall", "3.1.13", (1_900.0, 21_000.0)),
        arm("lmdb", "LMDB", "0.9.33", (900.0, 1_900.0)),
        arm("redb", "redb", "4.4.0", (1_000.0, 2_400.0)),
        arm("rocksdb", "RocksDB", "7.8.3", (1_100.0, 48_000.0)),
        arm("sled", "sled", "0.34.7", (30_000.0, 160_000.0)),
    ];
    let cells = [1, 4, 16, 64, 256].map(|clients| {
        let name = format!("fillrandom, {}", counted(clients.into(), "client"));
        cell(&name, clients, 100.0, None)
    });
    let mut record = record(
        "seed 002",
        "fillrandom by 1 to 256 threads",
        &cells,
        &arms,
        3,
        0.04,
    );
    for run in &mut record.runs {
        let clients = run.cell.clients;
        match run.arm.as_str() {
            "sled" => {
                run.durability.judged = Judged::NotDurable;
                run.durability.because = "0 device flushes for acknowledged puts".into();
                run.device.as_mut().unwrap().flushes = 0;
            }
            "lmdb" if clients == 256 => {
                run.outcome = Outcome::Failed {
                    because: "MDB_READERS_FULL: raise the reader limit".into(),
                };
            }
            "fjall" if clients == 256 => {
                run.outcome = Outcome::Lost {
                    because: "of 100000 keys 10 are missing and 0 wrong: key 4 is missing".into(),
                };
                run.verification.keys_missing = 10;
            }
            "redb" if run.pair == 1 && clients == 4 => {
                run.replaced = true;
                run.taints = vec![Taint {
                    kind: TaintKind::Steal,
                    value: 0.041,
                    limit: 0.01,
                }];
            }
            _ => {}
        }
    }
    record
}

/// A noise measurement of a target and its copy.
pub fn noise_record() -> Record {
    let cells = [cell("mixed", 8, 256.0, None)];
    record(
        "noise",
        "etcd beside itself: mixed",
        &cells,
        &[A, A_AGAIN],
        8,
        0.03,
    )
}

/// An interrupted search for the highest rate.
pub fn search() -> Record {
    let cells = [cell("p99 below 5 ms", 32, 256.0, None)];
    let arms = [
        Arm {
            name: "inkstone",
            ..B
        },
        Arm { name: "etcd", ..A },
    ];
    let mut record = record("run", "The highest rate", &cells, &arms, 1, 0.02);
    for run in &mut record.runs {
        let best = run.operations_per_second();
        run.load.rate_offered = Some(best);
        let steps = [0.25, 0.5, 1.0, 2.0, 1.5, 1.2, 1.1].map(|factor| SearchStep {
            rate: best * factor,
            answered: best * f64::min(factor, 1.3),
            latency_us: (factor < 1.8).then_some(900.0 * f64::exp(1.9 * factor)),
            held: factor <= 1.0,
        });
        run.load.search = steps.to_vec();
    }
    record.complete = false;
    record.incomplete_because = Some("it was interrupted".into());
    record
}

/// Overwrites of a data set, with samples of space and memory.
pub fn churn() -> Record {
    let arms = [("engine", 1.3), ("rocksdb", 1.1)];
    let arm = |(name, _): (&'static str, f64)| Arm {
        name,
        product: name,
        ..B
    };
    let cells = [cell("churn", 4, 256.0, None)];
    let mut record = record("run", "Overwrites", &cells, &arms.map(arm), 2, 0.02);
    for run in &mut record.runs {
        let Some((_, ratio)) = arms.iter().find(|(name, _)| *name == run.arm) else {
            continue;
        };
        let put = run.load.kinds.get_mut(&Kind::Put).unwrap();
        put.user_bytes = put.operations * 272;
        run.device.as_mut().unwrap().read_bytes = put.user_bytes / 2;
        run.space = space(*ratio);
    }
    record
}

/// The preload of 1,000 keys, then rounds and the measured part at a ratio that grows by a
/// tenth until they end.
fn space(ratio: f64) -> Space {
    let sample = |second: u32| {
        let live_keys = u64::from(second.min(5)) * 200;
        let grown = ratio + f64::from(second) / 400.0;
        SpaceSample {
            at_seconds: f64::from(second) - 30.0,
            footprint_bytes: (live_keys as f64 * 272.0 * grown) as u64,
            anonymous_bytes: (2 << 20) + live_keys * 64,
            live_keys: Some(live_keys),
        }
    };
    Space {
        entry_bytes: 272.0,
        anonymous_bytes_before: 2 << 20,
        keys_preloaded: 1000,
        samples: (1..=40).map(sample).collect(),
    }
}

/// All kinds of records, with names.
pub fn all() -> Vec<(&'static str, Record)> {
    vec![
        ("comparison", comparison()),
        ("inconclusive", inconclusive()),
        ("regression", regression()),
        ("map", map()),
        ("side-by-side", side_by_side()),
        ("noise", noise_record()),
        ("search", search()),
        ("churn", churn()),
    ]
}
