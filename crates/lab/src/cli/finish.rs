//! What every measuring verb does with its experiment: run it, keep the record,
//! show it, and end with the right code.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Outcome;
use super::folder::Folder;
use super::how::How;
use crate::doctor::environment;
use crate::record::{FORMAT, Record};
use crate::report::{files, terminal, verdicts};
use crate::schedule::ground::capture;
use crate::schedule::{Experiment, interrupt::Interrupt, left::remove_left};
use crate::verdict::FailOn;

/// Runs it all; the record, and the folder that it is in.
pub fn measure(
    verb: &str,
    title: &str,
    how: &How,
    experiment: &Experiment,
) -> Result<(Record, PathBuf), String> {
    let folder = match &how.out {
        Some(out) => out.clone(),
        None => Path::new("lab-results").join(format!("{}-{}", now(), verb.replace(' ', "-"))),
    };
    experiment.check()?;
    let interrupt = Interrupt::on_signals().map_err(|error| error.to_string())?;
    let results = Folder::for_record(&folder)?;
    for left in remove_left(&experiment.parent) {
        complain!(
            "note: removed {}, which a lab that was killed had left",
            left.display()
        );
    }
    let data = Folder::make(&experiment.parent, "--directory").inspect_err(|_| results.remove())?;
    let mut record = Record {
        format: FORMAT,
        verb: verb.to_owned(),
        title: title.to_owned(),
        command_line: std::env::args().map(without_folder).collect(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        incomplete_because: Some("it was still running when this was written".into()),
        started_unix_ms: crate::worker::unix_ms(),
        seed: experiment.seed,
        environment: environment(&experiment.parent),
        schedule: Vec::new(),
        runs: Vec::new(),
    };
    if let Some(device) = &mut record.environment.device {
        device.private = experiment.loop_fs.is_some();
    }
    for warning in &record.environment.warnings {
        complain!("note: {warning}");
    }
    let done = experiment.run(&mut record, &results.record(), &interrupt);
    data.remove();
    if record.runs.is_empty() {
        // Best effort: it may never have been written.
        drop(std::fs::remove_file(results.record()));
        results.remove();
        let because = record.incomplete_because.unwrap_or_default();
        return Err(format!("nothing was measured: {because}"));
    }
    done.map_err(|what| {
        format!(
            "{what}\nwhat was measured is kept: `inkstone-lab report {}` shows it",
            folder.display()
        )
    })?;
    Ok((record, folder))
}

/// Shows a record, writes what lies beside it, and says how the process ends.
pub fn finish(record: &Record, folder: &Path, fail_on: FailOn) -> Outcome {
    let written = files::write(record, folder);
    show!(
        "{}",
        terminal::render_within(record, terminal::line_letters())
    );
    if let Some(because) = &record.incomplete_because {
        complain!("incomplete: {because}; what was measured is kept");
    }
    written?;
    say!("record: {}", folder.join("run.json").display());
    say!("page:   {}", folder.join("report.html").display());
    Ok(verdicts::exit(record).under(fail_on))
}

/// For the names of folders: 2026-11-21-143015.
fn now() -> String {
    let said = capture(Command::new("date").args(["-u", "+%F-%H%M%S"]));
    said.unwrap_or_default().trim().to_owned()
}

/// A record is no place for anybody's paths.
fn without_folder(word: String) -> String {
    match word.rsplit_once('/') {
        Some((front, file)) if !word.contains("://") => {
            let kept = front.rfind([':', '=', '@']).map_or("", |at| &front[..=at]);
            format!("{kept}{file}")
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_names_and_loses_folders() {
        let kept = |word: &str| without_folder(word.to_owned());
        assert_eq!(kept("/builds/x/inkstone-lab"), "inkstone-lab");
        assert_eq!(kept("server:/a/b/etcd,members=3"), "server:etcd,members=3");
        assert_eq!(kept("old=engine@/a/lab"), "old=engine@lab");
        assert_eq!(kept("--workload=put"), "--workload=put");
    }
}
