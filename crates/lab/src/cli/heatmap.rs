//! `heatmap`: reads over writes by value size by connections, as etcd's
//! rw-benchmark draws them.
//!
//! A cell is a load: so many connections with one client each, values of one
//! size, and ranges over the first 100 keys beside overwrites in one ratio. All
//! cells are run in an order drawn anew for each repetition, on a fresh server.

use super::ab::triple;
use super::finish::{finish, measure};
use super::how::{How, What};
use super::run::side_by_side;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::{ValueLength, Workload};

#[derive(clap::Args)]
pub struct Options {
    /// See `run`; two of them are compared, beside a copy of the first
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    targets: Vec<TargetSpec>,
    #[command(flatten)]
    axes: Axes,
    /// The load of each cell; its ratio, values and connections come from the map
    #[arg(long, short, value_name = "FILE|NAME", default_value = "rw-heatmap")]
    workload: String,
    #[command(flatten)]
    changes: super::how::Changes,
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
    let points = points(&what.workload()?, &options.axes)?;
    let (arms, title) = sides(&options.targets)?;
    let experiment = options.how.experiment(points, arms, 1);
    let (record, folder) = measure("heatmap", &title, &options.how, &experiment)?;
    finish(&record, &folder)
}

fn sides(targets: &[TargetSpec]) -> Result<(Vec<Arm>, String), String> {
    match targets {
        [a, b] => Ok((triple(a, b), format!("{b} against {a}: reads and writes"))),
        one => Ok((side_by_side(one)?, format!("{}: reads and writes", one[0]))),
    }
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
    cell.load.value.length = ValueLength::Fixed(value);
    cell.clients.connections = connections;
    cell.clients.clients = vec![connections];
    cell.check()
        .map_err(|what| format!("workload {}: {what}", workload.name))?;
    let mut points = Point::of(&cell);
    for point in &mut points {
        point.cell.name = format!("R/W {ratio}, {value} B, {connections} connections");
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
