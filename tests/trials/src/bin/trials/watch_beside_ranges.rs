//! A watch on the same connection as large ranges, on this server and on etcd in turn.
//!
//! The scene is in the crate `trials`. Rounds of both servers alternate, and the delays of all
//! rounds of ours together must keep a bound.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trials::beside_ranges::{self, Measured, Scene, Times};

use crate::machine::Machine;
use crate::process::{Outcome, inkstone_binary, root};
use crate::report::{self, quantile};

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    scene: Scene,
    /// Runs of each side
    #[arg(long, default_value = "3")]
    rounds: NonZeroUsize,
    /// Our server alone, where etcd is not wanted
    #[arg(long)]
    without_etcd: bool,
    /// Most milliseconds of the 99th percentile of our events' delays beside ranges
    #[arg(long, default_value_t = 100)]
    p99_max_ms: u64,
    /// The server to measure [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directory for the record; without it none is written
    #[arg(long)]
    records: Option<PathBuf>,
}

const OURS: &str = "inkstone";
const HEADS: [&str; 8] = [
    "server, round",
    "events alone, ms",
    "events beside ranges, ms",
    "puts alone, ms",
    "puts beside ranges, ms",
    "ranges read",
    "MiB/s",
    "most memory, MiB",
];

pub fn run(options: &Options) -> Outcome {
    let mut sides = vec![(OURS, inkstone_binary(options.binary.as_deref())?)];
    if !options.without_etcd {
        let missing = "there is no etcd: run `cargo xtask etcd`, or set INKSTONE_ETCD";
        sides.push(("etcd", harness::etcd_binary(&root()).ok_or(missing)?));
    }
    let machine = Machine::here()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut rows, mut all) = (Vec::new(), vec![Times::default(); sides.len()]);
    for round in 0..options.rounds.get() {
        for turn in 0..sides.len() {
            let side = (turn + round) % sides.len();
            let measured = play(&runtime, &sides[side].1, options.scene)?;
            let name = format!("{}, {}", sides[side].0, round + 1);
            let row = row(name, &measured);
            println!("{}", row.join(" | "));
            all[side].events.extend(&measured.loaded.events);
            all[side].answers.extend(&measured.loaded.answers);
            rows.push(row);
        }
    }
    let mut page = page(options, &machine);
    page += &report::table(&HEADS, rows);
    page += "\nAll rounds together, beside ranges, from a put's sending to its event:\n\n";
    let together = sides.iter().zip(&all);
    let together = together.map(|((side, _), all)| {
        let times = [50, 90, 99, 100].map(|percent| millis(quantile(&all.events, percent)));
        let count = all.events.len().to_string();
        [vec![(*side).to_owned(), count], times.to_vec()].concat()
    });
    let heads = ["", "events", "p50, ms", "p90, ms", "p99, ms", "max, ms"];
    page += &report::table(&heads, together);
    report::record(
        options.records.as_deref(),
        &machine,
        "watch-beside-ranges",
        &page,
    )?;
    let (p99, bound) = (
        quantile(&all[0].events, 99),
        Duration::from_millis(options.p99_max_ms),
    );
    match p99 <= bound {
        true => Ok(()),
        false => Err(format!("p99 of our events is {} ms, above {bound:?}", millis(p99)).into()),
    }
}

fn play(runtime: &tokio::runtime::Runtime, binary: &Path, scene: Scene) -> Outcome<Measured> {
    runtime.block_on(beside_ranges::run(binary, scene))
}

fn page(options: &Options, machine: &Machine) -> String {
    let scene = options.scene;
    format!(
        "# A watch beside large ranges on one connection, {}\n\n\
         {}. One node with default flags, {}; one HTTP/2 connection with {} ranges of 10 MiB at \
         a time, each repeated as soon as it was read, and a watch; another connection puts the \
         watched key every {} ms. The client's windows: {} KiB for a stream, {} KiB for the \
         connection. Times are p50, p99 and the longest, of events and answers alike from the \
         put's sending. Written by `cargo trials watch-beside-ranges`.\n\n",
        machine.date,
        machine.line(),
        if scene.plain { "without TLS" } else { "TLS" },
        scene.ranges,
        scene.put_every_ms,
        scene.stream_window_kib,
        scene.connection_window_kib,
    )
}

fn row(name: String, measured: &Measured) -> Vec<String> {
    let seconds = measured.lasted.as_secs_f64();
    let rate = (measured.ranged_bytes >> 20) as f64 / seconds;
    vec![
        name,
        spread(&measured.quiet.events),
        spread(&measured.loaded.events),
        spread(&measured.quiet.answers),
        spread(&measured.loaded.answers),
        measured.ranges.to_string(),
        format!("{rate:.0}"),
        (measured.server_bytes_peak >> 20).to_string(),
    ]
}

fn spread(times: &[Duration]) -> String {
    [50, 99, 100]
        .map(|percent| millis(quantile(times, percent)))
        .join(", ")
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}
