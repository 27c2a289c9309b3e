//! 002: LevelDB's fillrandom and readrandom by 1 to 256 threads.
//!
//! | | as published | honest |
//! |---|---|---|
//! | figure | what one thread gets: a million over the mean micros of an operation | what all get together, and one |
//! | keys | 100,000, which fit into every cache | 1,000,000 |
//! | engines | as they come | with caches and filters |
//!
//! In both the random bytes are made before the clock starts and shared by all
//! threads (db_bench makes a megabyte for each thread while it measures), every
//! thread works for the same time (the mean of db_bench shrinks when threads end
//! early), and neither a write nor a read is flushed. The published database of
//! 1,000,000 keys was read in its first 100,000 only.
//!
//! LevelDB also runs under `handoff run`, whose locks are those of the predecessor
//! carried on: the same worker, the same library, other mutexes.

use comfy_table::{CellAlignment, Table as Grid};

use super::{
    Options, STYLE, Table, existing, measured, median, points, program, sides, targets_or, written,
};
use crate::cli::Outcome;
use crate::cli::finish::finish;
use crate::cli::run::side_by_side;
use crate::record::{ARM_NULL, Record, Run};
use crate::report::number::grouped;
use crate::targets::{HANDOFF, TargetSpec, offered};
use crate::workload::Workload;

const FILL: &str = "fillrandom";
const READ: &str = "readrandom";

/// Operations per second of one thread, on 96 cores of a Xeon Gold 5318Y with
/// Linux 6.16.12 and LevelDB 1.23: threads, fillrandom, readrandom. From
/// JBPFM/Lock-CoLocated-Scheduling at 19b585e, docs/EXPERIMENT_LEVELDB.md,
/// column "Native".
const PUBLISHED: [(u32, f64, f64); 9] = [
    (1, 507_872.0, 382_995.0),
    (2, 104_821.0, 252_908.0),
    (4, 31_851.0, 101_091.0),
    (8, 20_845.0, 56_570.0),
    (16, 7_134.0, 43_546.0),
    (32, 4_154.0, 23_645.0),
    (64, 2_260.0, 11_436.0),
    (128, 1_047.0, 5_694.0),
    (256, 475.0, 2_773.0),
];

/// Measures both rows at every number of threads.
pub fn run(options: &Options) -> Outcome {
    let table = Table {
        title: "random writes and reads by 1 to 256 threads".into(),
        points: points(options, workloads(options)?)?,
        arms: side_by_side(&targets(options)?)?,
        pairs: 1,
    };
    let (record, folder) = measured(options, table)?;
    let outcome = finish(&record, &folder, options.how.fail_on);
    for kind in [FILL, READ] {
        println!("\n{kind} per second, all threads together");
        println!("{}", threads(&record, kind, Figure::All));
        println!("\n{kind} per second, one thread; in brackets Jain's fairness");
        println!("{}", threads(&record, kind, Figure::One));
    }
    println!("published: LevelDB 1.23 on 96 cores, no measure of this machine");
    outcome
}

fn targets(options: &Options) -> Result<Vec<TargetSpec>, String> {
    let names = match options.as_published {
        true => ["engine", "leveldb-defaults", "rocksdb-defaults"],
        false => ["engine", "leveldb", "rocksdb"],
    };
    let mut targets = targets_or(options, &names)?;
    let offers = offered();
    let is_absent = |name: &&str| !offers.iter().any(|offer| offer.name == *name);
    match names.iter().find(|name| is_absent(name)) {
        Some(name) if options.targets.is_empty() => Err(format!(
            "seed 002 compares with `{name}`, which is not in this program: `cargo build \
             --release --manifest-path crates/lab-peers/Cargo.toml` makes inkstone-lab-peers, \
             which has it; or name what shall run with --targets"
        )),
        Some(_) => Ok(targets),
        None => {
            if options.targets.is_empty() {
                let handoff = existing(
                    "targets",
                    program(HANDOFF),
                    "cargo build --release -p handoff-preload -p handoff-run",
                )?;
                let under = format!("{}@{}", names[1], handoff.display());
                targets.insert(2, under.parse()?);
            }
            Ok(targets)
        }
    }
}

fn workloads(options: &Options) -> Result<Vec<Workload>, String> {
    let keys = match options.as_published {
        true => 100_000,
        false => 1_000_000,
    };
    let load = |preload: bool| {
        format!(
            "[load]\nkeys = {keys}\npreload = {preload}\n\
             key = {{ kind = \"dbbench-%016d\", size = 16 }}\n\
             value = {{ length = \"fixed:100\", unique = true, compressible = 0.5 }}\n"
        )
    };
    let threads = PUBLISHED
        .map(|(threads, ..)| threads.to_string())
        .join(", ");
    let rest = format!(
        "[clients]\nclients = [{threads}]\n[durability]\nlevel = \"os\"\n\
         [time]\nwarmup = \"1s\"\nmeasure = \"5s\"\n"
    );
    let rows = [
        (FILL, load(false), "[mix]\nput = 1.0\n"),
        (READ, load(true), "[mix]\nput = 0.0\nget = 1.0\n"),
    ];
    rows.iter()
        .map(|(name, load, mix)| written(name, &[load, mix, &rest]))
        .collect::<Result<_, _>>()
        .map_err(|mistake| mistake.to_string())
}

/// What a table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    All,
    One,
}

/// A row for each number of threads, a column for each side.
fn threads(record: &Record, kind: &str, figure: Figure) -> Grid {
    let mut table = Grid::new();
    table.load_style(STYLE);
    let mut sides = sides(record);
    sides.retain(|side| *side != ARM_NULL);
    let mut header = vec!["threads".to_owned()];
    header.extend(sides.iter().map(|side| (*side).to_owned()));
    header.push("published".to_owned());
    table.set_header(header);
    for clients in counts(record, kind) {
        let mut row = vec![clients.to_string()];
        for side in &sides {
            let runs = runs(record, kind, clients, side);
            let all = median(runs.iter().map(|run| run.operations_per_second()).collect());
            let jain = runs.iter().filter_map(|run| Some(run.load.fairness?.jain));
            row.push(cell(all, clients, figure, median(jain.collect())));
        }
        let published = PUBLISHED.iter().find(|(threads, ..)| *threads == clients);
        let published = published.map(|(_, fill, read)| if kind == FILL { fill } else { read });
        let all = published.map(|one| one * f64::from(clients));
        row.push(cell(all, clients, figure, None));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn counts(record: &Record, kind: &str) -> Vec<u32> {
    let cells = record.cells().into_iter();
    let mut counts: Vec<u32> = cells
        .filter(|cell| cell.workload == kind)
        .map(|cell| cell.clients)
        .collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn runs<'a>(record: &'a Record, kind: &str, clients: u32, side: &str) -> Vec<&'a Run> {
    let wanted =
        |run: &&Run| run.cell.workload == kind && run.cell.clients == clients && run.arm == side;
    record.valid_runs().filter(wanted).collect()
}

fn cell(all: Option<f64>, clients: u32, figure: Figure, jain: Option<f64>) -> String {
    match (all, figure, jain) {
        (None, ..) => "–".to_owned(),
        (Some(all), Figure::All, _) => grouped(all),
        (Some(all), Figure::One, None) => grouped(all / f64::from(clients)),
        (Some(all), Figure::One, Some(jain)) => {
            format!("{} ({jain:.2})", grouped(all / f64::from(clients)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    #[test]
    fn both_rows_have_all_nine_numbers_of_threads() {
        for words in [&["002"][..], &["002", "--as-published"]] {
            for workload in workloads(&options(words)).unwrap() {
                assert_eq!(workload.clients.clients, PUBLISHED.map(|row| row.0));
            }
        }
    }

    #[test]
    fn one_thread_gets_its_part_of_all() {
        let text = |figure| cell(Some(4000.0), 4, figure, Some(0.5));
        assert_eq!(text(Figure::All), "4,000");
        assert_eq!(text(Figure::One), format!("{} (0.50)", grouped(1000.0)));
        assert_eq!(cell(None, 4, Figure::All, None), "–");
    }

    #[test]
    fn missing_peers_are_named_with_the_program_that_has_them() {
        let error = targets(&options(&["002"])).unwrap_err();
        assert!(error.contains("`leveldb`") && error.contains("inkstone-lab-peers"));
        let named = targets(&options(&["002", "--targets", "engine,file"])).unwrap();
        assert_eq!(named.len(), 2);
    }
}
