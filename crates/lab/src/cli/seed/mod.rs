//! `seed`: the table of a predecessor, run again: as it was published, and as it
//! honestly should have been.
//!
//! | seed | as published | honest |
//! |---|---|---|
//! | 000 | rw-heatmap: every write to *one* key, every read of the first 100 | writes to all keys, reads that begin anywhere |
//! | 001 | etcd's tool by default: puts of *one* key, all with the same value; reads of a key that does not exist | distinct keys, unique values, keys that exist |
//! | 002 | what one thread gets, of engines as they come | what all get, of engines with caches: `threads.rs` |
//! | 003 | a put returns when it is in a buffer | when it is durable: `write_ahead_log.rs` |
//! | 004 | survives kill -9: page cache | survives a loss of power; beside a plain file in the same run |

mod table_000;
mod threads;
mod write_ahead_log;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::ab::triple;
use super::finish::{finish, measure};
use super::how::{Changes, How};
use super::run::side_by_side;
use super::scale::Scale;
use crate::record::Record;
use crate::report::number::counted;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::{Mistake, Workload, parse};

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
    /// 001: members of each side
    #[arg(long, default_value_t = 3)]
    members: u32,
    /// 002, 003: what runs, instead of the table's own choice; see `run`
    #[arg(long, value_delimiter = ',', value_name = "TARGET")]
    targets: Vec<TargetSpec>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    how: How,
}

/// A table: its name for people, its points, its sides.
struct Table {
    title: String,
    points: Vec<Point>,
    arms: Vec<Arm>,
    pairs: usize,
}

pub fn run(options: &Options) -> super::Outcome {
    let table = match options.table.as_str() {
        "000" => table_000::table(options)?,
        "001" => table_001(options)?,
        "002" => return threads::run(options),
        "003" => return write_ahead_log::run(options),
        _ => table_004(options)?,
    };
    let (record, folder) = measured(options, table)?;
    finish(&record, &folder, options.how.fail_on)
}

fn measured(options: &Options, table: Table) -> Result<(Record, PathBuf), String> {
    let how = &options.how;
    let pairs = options.scale.pairs(table.pairs);
    let experiment = how.experiment(table.points, table.arms, pairs);
    let verb = format!("seed {}", options.table);
    let variant = if options.as_published {
        "as published"
    } else {
        "honest"
    };
    let title = format!("{}, {variant}", table.title);
    measure(&verb, &title, how, &experiment)
}

/// The points of rows, in the scale and with the changes that were asked for.
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

/// Where a row's name says how many clients it has, `--clients` says which rows.
fn rows_asked_for(options: &Options, mut rows: Vec<Workload>) -> Result<Vec<Workload>, String> {
    let wanted = &options.changes.clients;
    if wanted.is_empty() {
        return Ok(rows);
    }
    let known: BTreeSet<u32> = rows.iter().map(|row| row.clients.clients[0]).collect();
    if let Some(absent) = wanted.iter().find(|count| !known.contains(count)) {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        return Err(format!(
            "--clients {absent}: table {} has rows of {} clients only",
            options.table,
            known.join(" and ")
        ));
    }
    rows.retain(|row| wanted.contains(&row.clients.clients[0]));
    Ok(rows)
}

/// Of those rows: the number of clients stays as it is.
fn points_as_named(options: &Options, rows: Vec<Workload>) -> Result<Vec<Point>, String> {
    let changes = Changes {
        clients: Vec::new(),
        ..options.changes.clone()
    };
    points_with(&changes, options.scale, rows)
}

/// etcd, and ours.
fn servers(options: &Options, more: &str) -> Result<(TargetSpec, TargetSpec), String> {
    let target = |name: &str, path: &Path| {
        format!("{name}=server:{}{more}", path.display()).parse::<TargetSpec>()
    };
    let ours = existing(
        "ours",
        options.ours.clone().unwrap_or_else(|| program("inkstone")),
        "cargo build --release -p cli",
    )?;
    let etcd = existing(
        "etcd",
        options
            .etcd
            .clone()
            .unwrap_or_else(|| "target/etcd/bin/etcd".into()),
        "cargo xtask etcd",
    )?;
    Ok((target("etcd", &etcd)?, target("inkstone", &ours)?))
}

fn table_001(options: &Options) -> Result<Table, String> {
    let (etcd, ours) = servers(options, &format!(",members={},ask=leader", options.members))?;
    let load = match options.as_published {
        true => {
            "[load]\nkeys = 1\npreload = false\nkey = { kind = \"etcd-varint\", size = 8 }\n\
             value = { length = \"fixed:256\", unique = false }\n"
        }
        false => {
            "[load]\nkeys = 100_000\nkey = { kind = \"u64be\", size = 16 }\n\
             value = { length = \"fixed:256\", unique = true }\n"
        }
    };
    let put = "[mix]\nput = 1.0\n";
    // The published reads ask for a key that was never written.
    let missing = match options.as_published {
        true => "[access]\nmissing = 1.0\n",
        false => "",
    };
    let get = format!("[mix]\nput = 0.0\nget = 1.0\n{missing}");
    let serializable = format!("[mix]\nput = 0.0\nget = 1.0\nserializable = true\n{missing}");
    let one = "[clients]\nconnections = 1\nclients = 1\n";
    let hundred = "[clients]\nconnections = 10\nclients = 100\n";
    let rows = [
        ("put, 1 client", put, one),
        ("put, 100 clients", put, hundred),
        ("linearizable read, 1 client", get.as_str(), one),
        ("linearizable read, 100 clients", get.as_str(), hundred),
        (
            "serializable read, 100 clients",
            serializable.as_str(),
            hundred,
        ),
    ];
    let rows = rows
        .iter()
        .map(|(name, mix, clients)| row(name, &[load, mix, clients]))
        .collect::<Result<_, _>>()
        .map_err(|mistake| mistake.to_string())?;
    Ok(Table {
        title: format!(
            "{}: put and read beside etcd",
            counted(u64::from(options.members), "member")
        ),
        points: points_as_named(options, rows_asked_for(options, rows)?)?,
        arms: triple(&etcd, &ours),
        pairs: 3,
    })
}

fn table_004(options: &Options) -> Result<Table, String> {
    let level = if options.as_published {
        "os"
    } else {
        "durable"
    };
    let load = "[load]\nkeys = 50_000\nkey = { kind = \"u64be\", size = 8 }\n\
                value = { length = \"fixed:4096\", unique = true }\n[clients]\nclients = 64\n";
    let durability = format!("[durability]\nlevel = \"{level}\"\n");
    let rows = [
        ("random write", "[mix]\nput = 1.0\n"),
        ("random read", "[mix]\nput = 0.0\nget = 1.0\n"),
        (
            "full range",
            "[mix]\nput = 0.0\nrange = { share = 1.0, limit = 0, from_start = true }\n",
        ),
    ];
    let targets = ["engine", "file"].map(|name| name.parse::<TargetSpec>());
    let targets = targets.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rows = rows
        .iter()
        .map(|(name, mix)| row(name, &[load, mix, &durability]))
        .collect::<Result<_, _>>()
        .map_err(|mistake| mistake.to_string())?;
    let points = points(options, rows)?;
    let threads: BTreeSet<u32> = points.iter().map(|point| point.cell.clients).collect();
    let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
    Ok(Table {
        title: format!(
            "4 KiB values by {} threads, beside a plain file",
            threads.join(", ")
        ),
        points,
        arms: side_by_side(&targets)?,
        pairs: 3,
    })
}

fn row(name: &str, parts: &[&str]) -> Result<Workload, Mistake> {
    let time = "[time]\nwarmup = \"auto,max=10s\"\nmeasure = \"10s\"\n";
    written(name, &[parts, &[time]].concat())
}

/// A row that says everything itself.
fn written(name: &str, parts: &[&str]) -> Result<Workload, Mistake> {
    parse(name, &format!("name = \"{name}\"\n{}", parts.concat()))
}

/// A program of this repository: beside the lab's own, or where cargo puts it.
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

/// The targets that the options name, or else these.
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
    fn what_was_published_put_one_key_and_read_none() {
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
    fn a_quick_map_is_small_and_a_full_one_is_etcds() {
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
    fn a_title_says_how_many_threads_there_are() {
        let title = |words: &[&str]| table_004(&options(words)).unwrap().title;
        assert!(title(&["004"]).contains("by 64 threads"));
        assert!(title(&["004", "--clients", "1,4"]).contains("by 1, 4 threads"));
    }

    #[test]
    fn what_a_map_decides_is_refused_with_the_verb_that_draws_others() {
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
    fn a_missing_server_says_how_to_get_one() {
        let Err(error) = table_001(&options(&["001", "--ours", "/nowhere/inkstone"])) else {
            panic!("there is none");
        };
        assert!(
            error.contains("/nowhere/inkstone") && error.contains("--ours"),
            "{error}"
        );
    }

    #[test]
    fn the_honest_rows_of_004_are_durable() {
        let level = |words: &[&str]| {
            let table = table_004(&options(words)).unwrap();
            table.points[0].workload.durability.level
        };
        assert_eq!(level(&["004"]), crate::workload::DurabilityLevel::Durable);
        assert_eq!(
            level(&["004", "--as-published"]),
            crate::workload::DurabilityLevel::Os
        );
    }
}
