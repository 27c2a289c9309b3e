//! `heatmap`: reads over writes by value size by connections, as etcd's
//! rw-benchmark draws them.
//!
//! A cell is a load: a number of connections with one client each, values of one size, and
//! a ratio of ranges over the first 100 keys to overwrites. Each repetition runs all cells
//! in a new random order, each on a fresh server.

use super::ab::triple;
use super::finish::Measurement;
use super::options::{Changes, MeasureOptions};
use super::run::side_by_side;
use super::workloads;
use crate::report::number::counted;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::{ValueLength, Workload};

/// Repetitions of each cell when two targets are compared. A cell needs at least two for
/// an interval; the headline is computed from the pairs of all cells together.
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
    measure: MeasureOptions,
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
    refuse_axis_options(&options.changes)?;
    let workload = options
        .changes
        .applied(workloads::find(&options.workload)?)?;
    let (arms, title, pairs) = sides(options)?;
    let measurement = Measurement {
        verb: "heatmap".into(),
        title,
        points: points(&workload, &options.axes)?,
        arms,
        pairs,
    };
    measurement.run(&options.measure)
}

/// Refuses options that would set an axis of the map to one value for all cells.
fn refuse_axis_options(changes: &Changes) -> Result<(), String> {
    match axis_option(changes) {
        Some((option, axis)) => Err(format!(
            "{option} is an axis of the map: write {axis} with the numbers that you want"
        )),
        None => Ok(()),
    }
}

/// The first given option that conflicts with an axis of the map, and the option that
/// sets this axis.
pub fn axis_option(changes: &Changes) -> Option<(&'static str, &'static str)> {
    if changes.connections.is_some() {
        Some(("--connections", "--map-connections"))
    } else if !changes.clients.is_empty() {
        Some(("--clients", "--map-connections"))
    } else {
        changes.value.map(|_| ("--value", "--values"))
    }
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

/// The cells of the map.
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
    // Gets and ranges keep their proportion among the reads.
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
    fn each_cell_occurs_once_and_its_shares_fit_the_ratio() {
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
    fn an_option_that_is_an_axis_is_refused() {
        let changes = Changes {
            clients: vec![7],
            ..Changes::default()
        };
        let error = refuse_axis_options(&changes).unwrap_err();
        assert!(error.contains("--map-connections"), "{error}");
        assert!(refuse_axis_options(&Changes::default()).is_ok());
    }

    #[test]
    fn impossible_value_lengths_are_refused_before_the_first_run() {
        let workload = workloads::find("rw-heatmap").unwrap();
        let axes = Axes {
            values: vec![256, 99_999_999_999],
            ..axes(&[1.0])
        };
        let error = points(&workload, &axes).unwrap_err();
        assert!(error.contains("--values 99999999999"), "{error}");
    }

    #[test]
    fn a_ratio_of_zero_or_a_load_without_reads_is_refused() {
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
