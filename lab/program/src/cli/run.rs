//! `run`: one target, or several side by side.

use super::finish::Measurement;
use super::options::{MeasureOptions, WorkloadOptions};
use crate::record::Run;
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::verdict::Exit;
use crate::workload::Workload;

#[derive(clap::Args)]
pub struct Options {
    /// engine, log, file, null, server:PATH, server:PATH,members=3, endpoints:HOST:PORT
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<TargetSpec>,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    measure: MeasureOptions,
    /// End with 3 where a run flushed the device more often; needs --loopfs
    #[arg(long, value_name = "COUNT", requires = "loopfs")]
    flushes_per_put_max: Option<f64>,
    /// End with 3 where a run wrote more bytes to the device for each put; needs --loopfs
    #[arg(long, value_name = "BYTES", requires = "loopfs")]
    bytes_per_put_max: Option<f64>,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.workload.resolve()?;
    let measurement = Measurement {
        verb: "run".into(),
        title: title(&workload, &options.workload.changes.words()),
        points: Point::of(&workload),
        arms: side_by_side(&options.targets)?,
        pairs: 1,
    };
    let (record, exit) = measurement.recorded(&options.measure)?;
    let flushes = most_above(
        record.valid_runs(),
        Run::flushes_per_put,
        options.flushes_per_put_max,
    );
    let bytes = most_above(
        record.valid_runs(),
        bytes_per_put,
        options.bytes_per_put_max,
    );
    if let Some(most) = flushes {
        print_error!("a put costs up to {most:.4} flushes");
    }
    if let Some(most) = bytes {
        print_error!("a put writes up to {most:.0} bytes to the device");
    }
    match flushes.or(bytes) {
        Some(_) => Ok(Exit::Regression.under(options.measure.fail_on)),
        None => Ok(exit),
    }
}

/// The greatest cost of a put in all runs, if it is above the limit.
fn most_above<'a>(
    runs: impl Iterator<Item = &'a Run>,
    cost: fn(&Run) -> Option<f64>,
    max: Option<f64>,
) -> Option<f64> {
    let most = runs.filter_map(cost).max_by(f64::total_cmp);
    most.filter(|most| *most > max.unwrap_or(f64::INFINITY))
}

/// Bytes written to the device in the measured part for each acknowledged put.
fn bytes_per_put(run: &Run) -> Option<f64> {
    let puts = run.load.writes();
    (puts > 0).then_some(run.device.as_ref()?.written_bytes as f64 / puts as f64)
}

/// The workload's description, and the changes to it in words.
fn title(workload: &Workload, changes: &str) -> String {
    let itself = match workload.description.as_str() {
        "" => &workload.name,
        description => description,
    };
    match changes {
        "" => itself.to_owned(),
        changes => format!("{itself}; here {changes}"),
    }
}

/// One arm for each target, with the target's name. Fails where two have the same name.
pub fn side_by_side(targets: &[TargetSpec]) -> Result<Vec<Arm>, String> {
    let mut arms: Vec<Arm> = Vec::new();
    for target in targets {
        if arms.iter().any(|arm| arm.name == target.name) {
            return Err(format!(
                "two targets are called `{0}`: name them, as in `old={0}` and `new={0}`",
                target.name
            ));
        }
        arms.push(Arm::of(&target.name, target));
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options::Changes;
    use crate::record::{DeviceWork, Kind};

    #[test]
    fn a_title_names_the_changes_to_the_workload() {
        let workload = crate::cli::workloads::find("put").unwrap();
        assert_eq!(title(&workload, ""), workload.description);
        let changes = Changes {
            keys: Some(20_000),
            clients: vec![16],
            value: Some("fixed:512".parse().unwrap()),
            ..Changes::default()
        };
        let title = title(&workload, &changes.words());
        assert!(
            title.ends_with("; here 20,000 keys, values of 512 bytes, 16 clients"),
            "{title}"
        );
    }

    #[test]
    fn the_greatest_cost_of_a_put_is_compared_with_its_limit() {
        let run = |written_bytes| {
            let workload = crate::cli::workloads::find("put").unwrap();
            let mut run = Run::of(&crate::worker::Job::bare(workload));
            run.load.kinds.entry(Kind::Put).or_default().operations = 10;
            run.device = Some(DeviceWork {
                written_bytes,
                ..DeviceWork::default()
            });
            run
        };
        let runs = [run(40_960), run(81_920), run(0)];
        let above = |max| most_above(runs.iter(), bytes_per_put, max);
        assert_eq!(above(Some(4096.0)), Some(8192.0));
        assert_eq!(above(Some(8192.0)), None);
        assert_eq!(above(None), None);
    }
}
