//! `heatmap`: reads over writes by value size by connections, as etcd's
//! rw-benchmark draws them.
//!
//! A cell is a load: so many connections with one client each, values of one
//! size, and ranges over the first 100 keys beside overwrites in one ratio. All
//! cells are run in an order drawn anew for each repetition, on a fresh server.

use super::ab::triple;
use super::finish::{finish, measure};
use super::how::{Changes, How, What};
use super::run::side_by_side;
use crate::report::number::counted;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::{ValueLength, Workload};

/// Of each cell of a difference: below two there is no interval, and the
/// headline has those of all cells together.
pub const PAIRS: usize = 3;

#[derive(clap::Args)]
pub struct Options {
    /// See `run`
    #[arg(value_name = "TARGET")]
    target: TargetSpec,
    /// Draw the difference from this one, measured in the same minutes beside a
    /// copy of itself
    #[arg(long, value_name = "TARGET")]
    against: Option<TargetSpec>,
    #[command(flatten)]
    axes: Axes,
    /// The load of each cell; its ratio, values and connections come from the map
    #[arg(long, short, value_name = "FILE|NAME", default_value = "rw-heatmap")]
    workload: String,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    how: How,
}

/// The three axes of a map.
#[derive(clap::Args, Clone, Debug)]
pub struct Axes {
    /// Reads over writes, each a map of its own
    #[arg(long, value_delimiter = ',', default_value = "4,1,0.25")]
    pub ratios: Vec<f64>,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_value = "256,1024,4096")]
    pub values: Vec<u64>,
    /// Connections, each with one client
    #[arg(
        id = "map_connections",
        long = "map-connections",
        value_delimiter = ',',
        default_value = "8,32,128"
    )]
    pub connections: Vec<u32>,
}

pub fn run(options: &Options) -> super::Outcome {
    let what = What {
        workload: options.workload.clone(),
        changes: options.changes.clone(),
    };
    refuse_what_the_map_decides(&options.changes)?;
    let points = points(&what.workload()?, &options.axes)?;
    let (arms, title, pairs) = sides(options)?;
    let experiment = options.how.experiment(points, arms, pairs);
    let (record, folder) = measure("heatmap", &title, &options.how, &experiment)?;
    finish(&record, &folder, options.how.fail_on)
}

/// What has an axis cannot be changed for all cells at once.
fn refuse_what_the_map_decides(changes: &Changes) -> Result<(), String> {
    match what_the_map_decides(changes) {
        Some((option, axis)) => Err(format!(
            "{option} is an axis of the map: write {axis} with the numbers that you want"
        )),
        None => Ok(()),
    }
}

/// An option that a map leaves no room for, and its axis.
pub fn what_the_map_decides(changes: &Changes) -> Option<(&'static str, &'static str)> {
    let decided = [
        (
            changes.connections.is_some(),
            "--connections",
            "--map-connections",
        ),
        (
            !changes.clients.is_empty(),
            "--clients",
            "--map-connections",
        ),
        (changes.value.is_some(), "--value", "--values"),
    ];
    let given = decided.into_iter().find(|(given, ..)| *given);
    given.map(|(_, option, axis)| (option, axis))
}

fn sides(options: &Options) -> Result<(Vec<Arm>, String, usize), String> {
    let target = &options.target;
    let Some(against) = &options.against else {
        let arms = side_by_side(std::slice::from_ref(target))?;
        return Ok((arms, format!("{target}: reads and writes"), 1));
    };
    let title = format!("{target} against {against}: reads and writes");
    Ok((triple(against, target), title, PAIRS))
}

/// Every cell of the map.
pub fn points(workload: &Workload, axes: &Axes) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    for ratio in &axes.ratios {
        for value in &axes.values {
            for connections in &axes.connections {
                points.extend(point(workload, *ratio, *value, *connections)?);
            }
        }
    }
    Ok(points)
}

fn point(
    workload: &Workload,
    ratio: f64,
    value: u64,
    connections: u32,
) -> Result<Vec<Point>, String> {
    if !ratio.is_finite() || ratio <= 0.0 {
        return Err(format!("--ratios {ratio}: reads over writes, above 0"));
    }
    let mut cell = workload.clone();
    cell.mix.put = 1.0 / (1.0 + ratio);
    let reads = 1.0 - cell.mix.put;
    // Whatever reads the workload has keep their proportion.
    let (gets, ranges) = (workload.mix.get, workload.mix.range.share);
    if gets + ranges <= 0.0 {
        return Err(format!("workload {}: a map needs reads", workload.name));
    }
    cell.mix.get = reads * gets / (gets + ranges);
    cell.mix.range.share = reads * ranges / (gets + ranges);
    cell.load.value.length = format!("fixed:{value}")
        .parse::<ValueLength>()
        .map_err(|what| format!("--values {value}: {what}"))?;
    cell.clients.connections = connections;
    cell.clients.clients = vec![connections];
    cell.check()
        .map_err(|what| format!("workload {}: {what}", workload.name))?;
    let mut points = Point::of(&cell);
    for point in &mut points {
        let connections = counted(u64::from(connections), "connection");
        point.cell.name = format!("R/W {ratio}, {value} B, {connections}");
        point.cell.rw_ratio = Some(ratio);
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::workloads;

    fn axes(ratios: &[f64]) -> Axes {
        Axes {
            ratios: ratios.to_vec(),
            values: vec![256, 1024],
            connections: vec![8, 32],
        }
    }

    #[test]
    fn a_map_has_every_cell_once_and_shares_that_fit_the_ratio() {
        let workload = workloads::find("rw-heatmap").unwrap();
        let points = points(&workload, &axes(&[4.0, 1.0])).unwrap();
        let names: std::collections::BTreeSet<_> =
            points.iter().map(|point| point.cell.name.clone()).collect();
        assert_eq!(names.len(), 8);
        let mix = &points[0].workload.mix;
        assert!((mix.range.share / mix.put - 4.0).abs() < 1e-9);
        assert_eq!(points[0].workload.clients.clients, [8]);
    }

    #[test]
    fn an_axis_is_no_change() {
        let changes = Changes {
            clients: vec![7],
            ..Changes::default()
        };
        let error = refuse_what_the_map_decides(&changes).unwrap_err();
        assert!(error.contains("--map-connections"), "{error}");
        assert!(refuse_what_the_map_decides(&Changes::default()).is_ok());
    }

    #[test]
    fn values_that_no_run_could_have_are_refused_before_the_first() {
        let workload = workloads::find("rw-heatmap").unwrap();
        let axes = Axes {
            values: vec![256, 99_999_999_999],
            ..axes(&[1.0])
        };
        let error = points(&workload, &axes).unwrap_err();
        assert!(error.contains("--values 99999999999"), "{error}");
    }

    #[test]
    fn a_ratio_must_be_one() {
        let workload = workloads::find("rw-heatmap").unwrap();
        assert!(points(&workload, &axes(&[0.0])).is_err());
        let puts = workloads::find("put").unwrap();
        assert!(
            points(&puts, &axes(&[1.0]))
                .unwrap_err()
                .contains("needs reads")
        );
    }
}
