//! `inkstone repair`: cuts a damaged log in front of the damage, on an operator's command.
//!
//! ```text
//!   inkstone repair --data-dir DIR         lists the groups that would be lost; changes nothing
//!   inkstone repair --data-dir DIR --yes   cuts the log; the cut bytes stay in *.damaged files
//! ```

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use engine::LostGroup;
use environment::real::RealDisk;
use server::{Repair, plan_repair};

use crate::directory::DataDirectory;
use crate::failure::{FAILED, Failure};
use crate::table::counted;

/// Keys of one group that are shown on its line.
const KEYS_SHOWN_MAX: usize = 8;

/// Cut a damaged log in front of the damage, so that the server starts again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a data directory that `inkstone serve` refuses because its log is damaged. The
log is cut in front of the damage: all groups (writes) behind it are lost, sound ones
too, because each group builds on those before it.

Without --yes the command lists the groups that would be lost and changes nothing. With
--yes it cuts the log and keeps the cut bytes in files that end in .damaged, in the same
directory. Afterwards a member of a cluster does not vote until the other members have
sent it the entries that it lacks.
Exit code: 0 nothing to do, or repaired; 1 not repaired; 2 not a data directory.

Examples:
  inkstone repair --data-dir default.inkstone
  inkstone repair --data-dir default.inkstone --yes")]
pub(crate) struct Arguments {
    /// The server's data directory; no server may have it open
    #[arg(long = "data-dir", value_name = "DIR")]
    directory: PathBuf,
    /// Cut the log; without this flag the command only lists what would be lost
    #[arg(long)]
    yes: bool,
}

/// Lists the groups that a repair would lose, and repairs with `--yes`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = DataDirectory::open(&arguments.directory)?.path;
    let planned = plan_repair(&directory).map_err(|error| {
        Failure::failed(
            error,
            "A member of a cluster can be removed and added again; inkstone inspect --records \
             shows the readable records.",
        )
    })?;
    let mut output = BufWriter::new(std::io::stdout());
    let Some(repair) = planned else {
        let shown = directory.display();
        writeln!(output, "nothing to repair: the server starts with {shown}")?;
        return Ok(output.flush()?);
    };
    write_plan(&mut output, &repair)?;
    output.flush()?;
    refuse_unsafe(&repair)?;
    if !arguments.yes {
        let note = "nothing was changed; with --yes the log is cut and the listed groups are lost";
        writeln!(output, "{note}")?;
        output.flush()?;
        return Err(Failure::Reported { exit: FAILED });
    }
    carry_out(&mut output, &repair, &directory)
}

fn write_plan(output: &mut dyn Write, repair: &Repair) -> Result<(), Failure> {
    let plan = &repair.plan;
    if let Some(cut) = &plan.cut {
        let (file, offset) = (cut.file.display(), cut.position.offset());
        writeln!(output, "{file} is cut at byte {offset}: {}", cut.what)?;
    }
    for checkpoint in &plan.checkpoints {
        let what = "is newer than the end of the cut log and is put aside";
        writeln!(output, "{} {what}", checkpoint.display())?;
    }
    let groups = counted(plan.lost.len() as u64, "group", "groups");
    writeln!(output, "lost: {groups}")?;
    for lost in &plan.lost {
        writeln!(output, "  {}", line(lost))?;
    }
    writeln!(output, "left: everything up to revision {}", plan.revision)?;
    Ok(())
}

fn line(lost: &LostGroup) -> String {
    let name = lost.file.file_name().unwrap_or_default().to_string_lossy();
    let what = match lost.sequence {
        Some(sequence) => format!("group {sequence}"),
        None => "damaged".to_owned(),
    };
    let mut line = format!("{name} bytes {} to {}: {what}", lost.offset, lost.end);
    let shown = lost.keys.iter().take(KEYS_SHOWN_MAX);
    let shown = shown.map(|(key, main)| format!("\"{}\" at {main}", key.escape_ascii()));
    let keys: Vec<String> = shown.collect();
    if !keys.is_empty() {
        line.push_str(&format!(", keys {}", keys.join(", ")));
    }
    match lost.keys.len().saturating_sub(KEYS_SHOWN_MAX) {
        0 => {}
        more => line.push_str(&format!(" and {more} more")),
    }
    if lost.others > 0 {
        let others = counted(lost.others as u64, "record", "records");
        line.push_str(&format!(", {others} of leases, members or compactions"));
    }
    line
}

fn refuse_unsafe(repair: &Repair) -> Result<(), Failure> {
    if repair.is_safe() {
        return Ok(());
    }
    Err(Failure::failed(
        "the newest term and vote of this member are among the damaged records",
        "Remove it from the cluster (etcdctl member remove), move this directory away, and add it \
         again.",
    ))
}

fn carry_out(output: &mut dyn Write, repair: &Repair, directory: &Path) -> Result<(), Failure> {
    let aside = repair
        .carry_out(&RealDisk, directory)
        .map_err(|error| Failure::failed(error, "Run the same command again."))?;
    for file in aside {
        writeln!(output, "kept: {}", file.display())?;
    }
    writeln!(output, "repaired: {}", directory.display())?;
    Ok(output.flush()?)
}
