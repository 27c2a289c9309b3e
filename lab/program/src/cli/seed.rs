//! `seed`: runs the table of a predecessor again: as it was published, and as it honestly
//! should have been.
//!
//! | seed | as published | honest |
//! |---|---|---|
//! | 000 | rw-heatmap: every write to *one* key, every read of the first 100 | writes to all keys, reads that begin anywhere |
//! | 001 | etcd's tool by default: puts of *one* key, all with the same value; reads of a key that does not exist | distinct keys, unique values, keys that exist |
//! | 002 | throughput of one thread, engines with default settings | throughput of all threads,
//! engines with caches: `threads.rs` |
//! | 003 | a put returns when it is in a buffer | when it is durable: `write_ahead_log.rs` |
//! | 004 | survives kill -9: page cache | survives a loss of power; beside a plain file in the same run |

mod table_000;
mod table_004;
mod threads;
mod write_ahead_log;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ab::triple;
use super::finish::Measurement;
use super::options::{Changes, MeasureOptions};
use super::scale::Scale;
use crate::report::number::counted;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::Workload;

#[derive(clap::Args)]
pub struct Options {
    /// Which table
    #[arg(value_parser = ["000", "001", "002", "003", "004"])]
    table: String,
    /// With the predecessor's choices, for comparison with its numbers
    #[arg(long, conflicts_with = "honest")]
    as_published: bool,
    /// With choices that mean what the table says [default]
    #[arg(long)]
    honest: bool,
    /// How much of it
    #[arg(long, value_enum, default_value_t)]
    scale: Scale,
    /// 000, 001: our server [default: `inkstone` beside the lab's own program, or in target/release]
    #[arg(long, value_name = "PATH")]
    ours: Option<PathBuf>,
    /// 000, 001: etcd [default: target/etcd/bin/etcd, which `cargo xtask etcd` builds]
    #[arg(long, value_name = "PATH")]
    etcd: Option<PathBuf>,
    /// 001: members of each side [default: 3]
    #[arg(long, value_name = "COUNT")]
    members: Option<u32>,
    /// 002, 003, 004: what runs, instead of the table's own choice; see `run`
    #[arg(long, value_delimiter = ',', value_name = "TARGET")]
    targets: Vec<TargetSpec>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    measure: MeasureOptions,
}

/// Members of each side of table 001.
const MEMBERS: u32 = 3;

pub fn run(options: &Options) -> super::Outcome {
    refuse_ignored_options(options)?;
    let mut measurement = match options.table.as_str() {
        "000" => table_000::table(options)?,
        "001" => table_001(options)?,
        "002" => threads::table(options)?,
        "003" => write_ahead_log::table(options)?,
        _ => table_004::table(options)?,
    };
    let variant = match options.as_published {
        true => "as published",
        false => "honest",
    };
    measurement.title = format!("{}, {variant}", measurement.title);
    measurement.pairs = options.scale.pairs(measurement.pairs);
    measurement.run(&options.measure)
}

impl Options {
    fn measurement(
        &self,
        title: impl Into<String>,
        points: Vec<Point>,
        arms: Vec<Arm>,
        pairs: usize,
    ) -> Measurement {
        Measurement {
            verb: format!("seed {}", self.table),
            title: title.into(),
            points,
            arms,
            pairs,
        }
    }
}

/// Refuses options that the table ignores, so that no user believes that they had an effect.
fn refuse_ignored_options(options: &Options) -> Result<(), String> {
    let table = &options.table;
    for (is_given, option, tables) in [
        (options.ours.is_some(), "--ours", "000, 001"),
        (options.etcd.is_some(), "--etcd", "000, 001"),
        (options.members.is_some(), "--members", "001"),
        (!options.targets.is_empty(), "--targets", "002, 003, 004"),
    ] {
        if is_given && !tables.contains(table) {
            return Err(format!(
                "{option} has no use in table {table}: it is for {tables}"
            ));
        }
    }
    Ok(())
}

/// A file of rows, or a row, which are workloads in parts: the keys of the whole file, of the
/// variant in it, of the row, and of the variant in the row.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Rows {
    #[serde(default)]
    as_published: toml::Table,
    #[serde(default)]
    honest: toml::Table,
    #[serde(default)]
    row: Vec<Rows>,
    #[serde(flatten)]
    always: toml::Table,
}

impl Rows {
    fn add_to(self, table: &mut toml::Table, as_published: bool) {
        table.extend(self.always);
        table.extend(if as_published {
            self.as_published
        } else {
            self.honest
        });
    }
}

/// The rows in a file that comes with the lab.
fn rows(options: &Options, file: &str) -> Vec<Workload> {
    let mut file: Rows = toml::from_str(file).expect("the lab's files are valid");
    let rows = std::mem::take(&mut file.row);
    let mut common = toml::Table::new();
    file.add_to(&mut common, options.as_published);
    let workload = |row: Rows| {
        let mut whole = common.clone();
        row.add_to(&mut whole, options.as_published);
        whole.try_into().expect("the lab's rows are workloads")
    };
    rows.into_iter().map(workload).collect()
}

/// The points of the rows, in the scale and with the changes of the options.
fn points(options: &Options, rows: Vec<Workload>) -> Result<Vec<Point>, String> {
    points_with(&options.changes, options.scale, rows)
}

fn points_with(changes: &Changes, scale: Scale, rows: Vec<Workload>) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    for workload in rows {
        let workload = changes.applied(scale.applied(workload))?;
        points.extend(Point::of(&workload));
    }
    Ok(points)
}

/// The points of rows that have one number of clients each, which is part of their names:
/// `--clients` selects rows and changes nothing else. Fails for a number that no row has.
fn points_as_named(options: &Options, mut rows: Vec<Workload>) -> Result<Vec<Point>, String> {
    let mut changes = options.changes.clone();
    let wanted = std::mem::take(&mut changes.clients);
    let known: BTreeSet<u32> = rows.iter().map(|row| row.clients.clients[0]).collect();
    if let Some(absent) = wanted.iter().find(|count| !known.contains(count)) {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        return Err(format!(
            "--clients {absent}: table {} has rows of {} clients only",
            options.table,
            known.join(" and ")
        ));
    }
    rows.retain(|row| wanted.is_empty() || wanted.contains(&row.clients.clients[0]));
    points_with(&changes, options.scale, rows)
}

/// The targets etcd and Inkstone; `more` is appended to both, such as `,members=3`.
fn servers(options: &Options, more: &str) -> Result<(TargetSpec, TargetSpec), String> {
    let target = |name: &str, path: &Path| {
        format!("{name}=server:{}{more}", path.display()).parse::<TargetSpec>()
    };
    let ours = options.ours.clone().unwrap_or_else(|| program("inkstone"));
    let ours = existing("ours", ours, "cargo build --release -p cli")?;
    let etcd = options.etcd.clone();
    let etcd = etcd.unwrap_or_else(|| "target/etcd/bin/etcd".into());
    let etcd = existing("etcd", etcd, "cargo xtask etcd")?;
    Ok((target("etcd", &etcd)?, target("inkstone", &ours)?))
}

fn table_001(options: &Options) -> Result<Measurement, String> {
    let members = options.members.unwrap_or(MEMBERS);
    let (etcd, ours) = servers(options, &format!(",members={members},ask=leader"))?;
    let rows = rows(options, include_str!("../../../workloads/table-001.toml"));
    let members = counted(u64::from(members), "member");
    Ok(options.measurement(
        format!("{members}: put and read beside etcd"),
        points_as_named(options, rows)?,
        triple(&etcd, &ours),
        3,
    ))
}

/// Path of a program of this repository: beside the lab's own, or in `target/release`.
fn program(name: &str) -> PathBuf {
    let lab = std::env::current_exe().unwrap_or_default();
    let beside = lab.with_file_name(name);
    let built = Path::new("target/release").join(name);
    match !beside.exists() && built.exists() {
        true => built,
        false => beside,
    }
}

fn existing(option: &str, path: PathBuf, remedy: &str) -> Result<PathBuf, String> {
    match path.exists() {
        true => Ok(path),
        false => Err(format!(
            "there is no program at {}: `{remedy}` makes it, or use --{option}",
            path.display()
        )),
    }
}

/// The targets of `--targets`, or else those named here.
fn targets_or(options: &Options, names: &[&str]) -> Result<Vec<TargetSpec>, String> {
    match options.targets.is_empty() {
        true => names.iter().map(|name| name.parse()).collect(),
        false => Ok(options.targets.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    pub fn options(words: &[&str]) -> Options {
        let line = std::iter::once("seed").chain(words.iter().copied());
        Line::try_parse_from(line).unwrap().options
    }

    #[test]
    fn the_published_table_001_puts_one_key_and_reads_a_missing_one() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        let words = ["001", "--as-published", "--ours", here, "--etcd", here];
        let table = table_001(&options(&words)).unwrap();
        assert_eq!(table.points[0].workload.load.keys, 1);
        assert_eq!(table.points[2].workload.access.missing, 1.0);
        let honest = table_001(&options(&["001", "--ours", here, "--etcd", here])).unwrap();
        assert_eq!(honest.points[2].workload.access.missing, 0.0);
        assert!(honest.points[0].workload.load.value.unique);
    }

    #[test]
    fn a_quick_map_is_small_and_a_full_one_has_the_cells_of_etcd() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        let cells = |more: &[&str]| {
            let words = [&["000", "--ours", here, "--etcd", here], more].concat();
            table_000::table(&options(&words)).unwrap().points
        };
        assert_eq!(cells(&["--scale", "quick"]).len(), 8);
        assert_eq!(cells(&[]).len(), 8 * 7 * 7);
        let published = &cells(&["--as-published", "--scale", "quick"])[0].workload;
        assert!(published.mix.range.from_start && !published.load.value.unique);
    }

    #[test]
    fn rows_that_name_their_clients_are_chosen_by_them() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        let words = ["001", "--ours", here, "--etcd", here, "--clients"];
        let rows = |clients| table_001(&options(&[&words[..], &[clients]].concat()));
        let one = rows("1").ok().unwrap().points;
        let names: Vec<&str> = one.iter().map(|point| point.cell.name.as_str()).collect();
        assert_eq!(names, ["put, 1 client", "linearizable read, 1 client"]);
        assert!(one.iter().all(|point| point.cell.clients == 1));
        let error = rows("1,4").err().unwrap();
        assert!(
            error.contains("--clients 4") && error.contains("1 and 100"),
            "{error}"
        );
    }

    #[test]
    fn an_option_of_another_table_is_refused() {
        let refused = |words: &[&str]| refuse_ignored_options(&options(words));
        let error = refused(&["000", "--targets", "engine"]).unwrap_err();
        assert!(error.contains("--targets") && error.contains("002, 003, 004"));
        assert!(refused(&["004", "--members", "3"]).is_err());
        assert!(refused(&["003", "--etcd", "etcd"]).is_err());
        assert!(refused(&["001", "--members", "3", "--ours", "a"]).is_ok());
    }

    #[test]
    fn an_axis_option_is_refused_and_the_error_names_the_heatmap_verb() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        let words = ["000", "--ours", here, "--etcd", here, "--clients", "1"];
        let error = table_000::table(&options(&words)).err().unwrap();
        assert!(
            error.contains("--clients") && error.contains("inkstone-lab heatmap"),
            "{error}"
        );
    }

    #[test]
    fn the_error_for_a_missing_server_says_how_to_get_one() {
        let Err(error) = table_001(&options(&["001", "--ours", "/nowhere/inkstone"])) else {
            panic!("there is none");
        };
        assert!(
            error.contains("/nowhere/inkstone") && error.contains("--ours"),
            "{error}"
        );
    }
}
