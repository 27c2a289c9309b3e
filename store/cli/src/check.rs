//! `inkstone check`: verifies every byte of a data directory, changes none.
//!
//! ```text
//!   MEMBER        its sum
//!   checkpoints   blocks, sums        ──► where each version should be ─┐
//!   log           headers, chain of groups, records, revisions          ├─► agree?
//!   sorted        the same, a chain of its own ─────────────────────────┘
//! ```
//!
//! Every file is read once, front to back. Beside a running server this
//! shows no single moment: one segment grows after it was read, another is released
//! before. So if a first pass beside a server finds something, a second
//! pass follows, and only what both passes find is damage.

mod agreement;
mod chain;
mod checkpoints;
mod datascale;
mod finding;
mod load;
mod perf;
mod walked;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use engine::inspect::{Checkpoint, CheckpointFile, checkpoints, is_checkpoint_name};
use environment::real::RealDisk;
use value_log::SegmentKind;

use self::agreement::Agreement;
use self::chain::Chain;
use self::checkpoints::Checkpoints;
use self::finding::{Finding, Findings};
use crate::client::run_to_end;
use crate::directory::{DataDirectory, LIFE_FILE, LOCK_FILE, MEMBER_FILE, REMOVED_FILE};
use crate::failure::{FAILED, Failure};
use crate::progress::Progress;
use crate::survey::Survey;
use crate::table::{Table, counted, size};

/// Verify every byte of a data directory, or check what a cluster carries
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "\
The check of a directory only reads, and takes no lock; beside a running server it checks the
data that is on stable storage. A directory of the name perf or datascale is written ./perf.
Exit code: 0 sound; 1 damaged (each damaged place is named, with a remedy); 2 not a
data directory.

Examples:
  inkstone check default.inkstone
  inkstone check /var/lib/inkstone || mail -s damaged root < /dev/null
  inkstone check perf --load m             puts for a minute, and says whether all was well
  inkstone check datascale                 the memory for 10000 keys"
)]
pub(crate) struct Arguments {
    /// The server's data directory
    #[arg(value_name = "DIR", required = true)]
    directory: Option<PathBuf>,
    #[command(subcommand)]
    load: Option<LoadVerb>,
}

#[derive(Debug, clap::Subcommand)]
enum LoadVerb {
    Perf(perf::PerfArguments),
    Datascale(datascale::DatascaleArguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match (arguments.load, arguments.directory) {
        (Some(LoadVerb::Perf(arguments)), _) => run_to_end(perf::run(arguments)),
        (Some(LoadVerb::Datascale(arguments)), _) => run_to_end(datascale::run(arguments)),
        (None, Some(directory)) => check_directory(&directory),
        (None, None) => unreachable!("clap asks for a directory"),
    }
}

fn check_directory(path: &Path) -> Result<(), Failure> {
    let mut directory = DataDirectory::open(path)?;
    let mut checked = Checked::all(&directory)?;
    if directory.holder.is_some() && !checked.findings.is_empty() {
        directory = DataDirectory::open(path)?;
        let first = std::mem::replace(&mut checked, Checked::all(&directory)?);
        checked.findings.retain_seen_by(&first.findings);
    }
    let mut output = BufWriter::new(std::io::stdout());
    checked.write(&directory, &mut output)?;
    output.flush()?;
    match checked.findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::Reported { exit: FAILED }),
    }
}

/// Totals of the files of one kind.
#[derive(Debug, Default)]
struct Tally {
    files: u64,
    bytes: u64,
    groups: u64,
    records: u64,
}

/// The result of a pass over a directory.
#[derive(Debug, Default)]
struct Checked {
    log: Tally,
    sorted: Tally,
    checkpoints: Tally,
    findings: Findings,
    notes: Vec<String>,
    /// The newest checkpoint that verifies.
    newest: Option<Checkpoint>,
    last_revision: i64,
}

impl Checked {
    fn all(directory: &DataDirectory) -> Result<Checked, Failure> {
        let files =
            checkpoints(&RealDisk, &directory.path).map_err(|error| Failure::failed(error, ""))?;
        let mut progress = Progress::new("checking", total_bytes(directory, &files));
        let mut checked = Checked::default();
        checked.check_member(directory);
        let mut agreement = checked.check_checkpoints(directory, &files, &mut progress);
        checked.check_segments(directory, &mut agreement, &mut progress);
        checked.check_agreement(directory, &files, agreement);
        checked.note_foreign_files(directory);
        Ok(checked)
    }

    fn check_member(&mut self, directory: &DataDirectory) {
        if let Err(damage) = server::check_member_file(&directory.path) {
            let file = directory.path.join(MEMBER_FILE);
            let finding = Finding::new(&file, None, damage.what, damage.remedy);
            self.findings.add(finding);
        }
    }

    fn check_checkpoints(
        &mut self,
        directory: &DataDirectory,
        files: &[CheckpointFile],
        progress: &mut Progress,
    ) -> Agreement {
        let mut seen = Checkpoints::verify(directory, files, progress);
        self.checkpoints = std::mem::take(&mut seen.tally);
        self.newest = seen.newest;
        if self.newest.is_none() {
            let note = "without a checkpoint it is unknown which segments must exist; not checked";
            self.notes.push(note.to_owned());
        }
        self.findings.append(seen.findings(&directory.path, files));
        seen.agreement
    }

    fn check_segments(
        &mut self,
        directory: &DataDirectory,
        agreement: &mut Agreement,
        progress: &mut Progress,
    ) {
        let home = directory.files.home(&RealDisk);
        let mut chain = Chain::new(self.newest, home);
        for file in &directory.files.segments {
            let survey = chain.check(file, agreement, &mut self.findings);
            progress.advance(file_bytes(&file.path));
            if let Some(survey) = survey {
                self.tally(&survey);
            }
        }
        self.last_revision = chain.finish(&mut self.findings);
        self.notes.extend(chain.note());
    }

    fn tally(&mut self, survey: &Survey) {
        let tally = match survey.file.kind {
            SegmentKind::Log => &mut self.log,
            SegmentKind::Sorted => &mut self.sorted,
        };
        tally.files += 1;
        tally.bytes += survey.file_bytes;
        tally.groups += survey.groups;
        tally.records += survey.records;
    }

    /// Adds findings where checkpoint and log disagree, unless the server has written another
    /// checkpoint since: then it may have released segments that the old one names.
    fn check_agreement(
        &mut self,
        directory: &DataDirectory,
        before: &[CheckpointFile],
        agreement: Agreement,
    ) {
        let after = checkpoints(&RealDisk, &directory.path).unwrap_or_default();
        if after.first() != before.first() {
            let note = "a checkpoint was written during the check: run again to compare it with \
            the log";
            self.notes.push(note.to_owned());
            return;
        }
        agreement.finish(&directory.path, &mut self.findings);
    }

    fn note_foreign_files(&mut self, directory: &DataDirectory) {
        let ours = |name: &String| {
            [LOCK_FILE, MEMBER_FILE, LIFE_FILE, REMOVED_FILE].contains(&name.as_str())
                || is_checkpoint_name(name)
        };
        let foreign = directory.files.others.iter().filter(|name| !ours(name));
        self.notes.extend(
            foreign.map(|name| format!("{name} is no file of Inkstone's log and is not checked")),
        );
    }

    fn write(&self, directory: &DataDirectory, output: &mut dyn Write) -> Result<(), Failure> {
        let mut table = Table::new(["<CHECKED", "FILES", "SIZE", "GROUPS", "RECORDS"]);
        for (name, tally) in [
            ("log", &self.log),
            ("sorted", &self.sorted),
            ("checkpoints", &self.checkpoints),
        ] {
            let groups = match name {
                "checkpoints" => "-".to_owned(),
                _ => tally.groups.to_string(),
            };
            let (files, records) = (tally.files.to_string(), tally.records.to_string());
            let name = name.to_owned();
            table.row(vec![name, files, size(tally.bytes), groups, records]);
        }
        table.write(output)?;
        writeln!(output)?;
        if let Some(holder) = directory.holder {
            let note = "checked as far as it had written";
            writeln!(output, "note: in use by process {holder}; {note}")?;
        }
        for note in &self.notes {
            writeln!(output, "note: {note}")?;
        }
        self.findings.write(output)?;
        let path = directory.path.display();
        if self.findings.is_empty() {
            let last = self.last_revision;
            writeln!(output, "sound: {path}, last revision {last}")?;
        } else {
            let places = counted(self.findings.len(), "place", "places");
            writeln!(output, "damaged: {path}, in {places}")?;
        }
        Ok(())
    }
}

fn total_bytes(directory: &DataDirectory, checkpoints: &[CheckpointFile]) -> u64 {
    let segments = directory.files.segments.iter().map(|file| &file.path);
    let files = segments.chain(checkpoints.iter().map(|file| &file.path));
    files.map(|path| file_bytes(path)).sum()
}

/// A file's size for the progress bar; 0 if the file is gone.
fn file_bytes(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
