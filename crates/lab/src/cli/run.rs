//! `run`: one target, or several side by side.

use super::finish::{finish, measure};
use super::how::{How, What};
use crate::schedule::{Arm, Point};
use crate::targets::TargetSpec;
use crate::workload::Workload;

#[derive(clap::Args)]
pub struct Options {
    /// engine, log, file, null, server:PATH, server:PATH,members=3, endpoints:HOST:PORT
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<TargetSpec>,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    how: How,
}

pub fn run(options: &Options) -> super::Outcome {
    let workload = options.what.workload()?;
    let arms = side_by_side(&options.targets)?;
    let experiment = options.how.experiment(Point::of(&workload), arms, 1);
    let title = title(&workload, &options.what.changes.words());
    let (record, folder) = measure("run", &title, &options.how, &experiment)?;
    finish(&record, &folder, options.how.fail_on)
}

/// What the workload says of itself, and what was changed of it.
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

/// An arm for each target, called as the target is.
pub fn side_by_side(targets: &[TargetSpec]) -> Result<Vec<Arm>, String> {
    let mut arms: Vec<Arm> = Vec::new();
    for target in targets {
        if arms.iter().any(|arm| arm.name == target.name) {
            return Err(format!(
                "two targets are called `{0}`: name them, as in `old={0}` and `new={0}`",
                target.name
            ));
        }
        arms.push(Arm {
            name: target.name.clone(),
            target: target.clone(),
        });
    }
    Ok(arms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::how::Changes;

    #[test]
    fn a_title_does_not_hide_what_was_changed() {
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
