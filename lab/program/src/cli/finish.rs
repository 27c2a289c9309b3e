//! Steps that all measuring verbs share: run the experiment, save the record, show it, and
//! choose the exit code.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Outcome;
use super::folder::Folder;
use super::options::MeasureOptions;
use crate::doctor::environment;
use crate::record::{FILE, FORMAT, Record};
use crate::report::{files, terminal, verdicts};
use crate::schedule::run_directory::capture;
use crate::schedule::{Arm, Experiment, Point, interrupt::Interrupt, leftovers::remove_leftovers};
use crate::targets::without_folder;
use crate::verdict::{Exit, FailOn};

/// The measurement of a verb.
pub struct Measurement {
    pub verb: String,
    pub title: String,
    pub points: Vec<Point>,
    pub arms: Vec<Arm>,
    /// Runs of each arm, unless the user gave a number.
    pub pairs: usize,
}

impl Measurement {
    /// Runs the experiment, shows its record and returns the exit code.
    pub fn run(self, options: &MeasureOptions) -> Outcome {
        Ok(self.recorded(options)?.1)
    }

    /// As [`Measurement::run`], with the record.
    pub fn recorded(self, options: &MeasureOptions) -> Result<(Record, Exit), super::Error> {
        let experiment = options.experiment(self.points, self.arms, self.pairs);
        let (record, folder) = measure(&self.verb, self.title, options, &experiment)?;
        let exit = finish(&record, &folder, options.fail_on)?;
        Ok((record, exit))
    }
}

/// Runs the experiment and returns its record and the folder that holds it. When not a
/// single run was measured, the folder is removed and an error is returned.
fn measure(
    verb: &str,
    title: String,
    options: &MeasureOptions,
    experiment: &Experiment,
) -> Result<(Record, PathBuf), super::Error> {
    let folder = match &options.out {
        Some(out) => out.clone(),
        None => Path::new("lab-results").join(format!("{}-{}", now(), verb.replace(' ', "-"))),
    };
    experiment.check()?;
    let interrupt = Interrupt::on_signals()?;
    let results = Folder::for_record(&folder)?;
    for leftover in remove_leftovers(&experiment.parent) {
        print_error!(
            "note: removed {}, which a lab that was killed had left",
            leftover.display()
        );
    }
    let data = Folder::make(&experiment.parent, "--directory").inspect_err(|_| results.remove())?;
    let mut record = Record {
        format: FORMAT,
        verb: verb.to_owned(),
        title,
        command_line: std::env::args().map(|it| without_folder(&it)).collect(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        incomplete_because: Some("it was still running when this was written".into()),
        started_unix_ms: crate::worker::unix_ms(),
        seed: experiment.seed,
        environment: environment(&experiment.parent),
        ..Record::default()
    };
    if let Some(device) = &mut record.environment.device {
        device.private = experiment.loop_fs.is_some();
    }
    for warning in &record.environment.warnings {
        print_error!("note: {warning}");
    }
    let done = experiment.run(&mut record, &results.record(), &interrupt);
    data.remove();
    if record.runs.is_empty() {
        // Best effort: the file may never have been written.
        drop(std::fs::remove_file(results.record()));
        results.remove();
        let because = record.incomplete_because.unwrap_or_default();
        return Err(format!("nothing was measured: {because}").into());
    }
    done.map_err(|what| {
        format!(
            "{what}\nwhat was measured is kept: `inkstone-lab report {}` shows it",
            folder.display()
        )
    })?;
    Ok((record, folder))
}

/// Shows a record, writes its tables and page beside it, and returns the exit code.
pub fn finish(record: &Record, folder: &Path, fail_on: FailOn) -> Outcome {
    let written = files::write(record, folder);
    print_text!(
        "{}",
        terminal::render_within(record, terminal::line_letters())?
    );
    if let Some(because) = &record.incomplete_because {
        print_error!("incomplete: {because}; what was measured is kept");
    }
    written?;
    print_line!("record: {}", folder.join(FILE).display());
    print_line!("page:   {}", folder.join("report.html").display());
    Ok(verdicts::exit(record).under(fail_on))
}

/// The present time for names of folders, in UTC: `2026-11-21-143015`.
fn now() -> String {
    capture(Command::new("date").args(["-u", "+%F-%H%M%S"])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_names_and_loses_folders() {
        let kept = without_folder;
        assert_eq!(kept("/builds/x/inkstone-lab"), "inkstone-lab");
        assert_eq!(kept("server:/a/b/etcd,members=3"), "server:etcd,members=3");
        assert_eq!(kept("old=engine@/a/lab"), "old=engine@lab");
        assert_eq!(kept("--workload=put"), "--workload=put");
    }
}
