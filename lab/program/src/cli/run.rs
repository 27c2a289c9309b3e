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
    let too_many = options.flushes_per_put_max.and_then(|max| {
        let flushes = record.valid_runs().filter_map(Run::flushes_per_put);
        flushes.max_by(f64::total_cmp).filter(|most| *most > max)
    });
    match too_many {
        Some(most) => {
            print_error!("a put costs up to {most:.4} flushes");
            Ok(Exit::Regression.under(options.measure.fail_on))
        }
        None => Ok(exit),
    }
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
}
