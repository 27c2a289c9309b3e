//! `inkstone inspect`: prints the contents of a data directory, as far as it can be read.

mod json;
mod text;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use bytes::Bytes;
use engine::inspect::{Checkpoint, CheckpointFile, Damage, checkpoints};
use environment::real::RealDisk;
use etcd_api::EncodedKeyValue;
use value_log::inspect::{Frame, FrameRecord, SegmentFile};

use crate::directory::DataDirectory;
use crate::failure::Failure;
use crate::survey::Survey;

/// Show what a data directory holds: segments, groups, records, checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only reads, and takes no lock. Works beside a running server (data that the server
writes during the command may be missing) and on damaged directories: it prints all
that is readable and where each damaged file stops.

Examples:
  inkstone inspect default.inkstone                    segments and checkpoints
  inkstone inspect default.inkstone --segment 2        the groups of segment 2
  inkstone inspect default.inkstone --records          every group and record
  inkstone inspect default.inkstone --records -w json  the same for programs, an
                                                       object a line, keys in base64")]
pub(crate) struct Arguments {
    /// The server's data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Show only this segment and its groups; a hexadecimal number, as in the table
    #[arg(long, value_name = "ID", value_parser = segment_id, help_heading = "Detail")]
    segment: Option<u32>,
    /// Show every group with its records: key, revision, sizes
    #[arg(long, help_heading = "Detail")]
    records: bool,
    /// Print columns for people, or one JSON object per line
    #[arg(short = 'w', long, value_enum, default_value_t = Form::Table, value_name = "FORM",
        help_heading = "Output")]
    write_out: Form,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    // No doc comments here: clap would add them to the help of each verb.
    // Columns for people.
    Table,
    // One JSON object a line.
    Json,
}

/// How much of each segment is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    groups: bool,
    records: bool,
}

/// Prints what the walk finds, in the order in which it finds it.
pub(crate) trait Report {
    /// The directory, and the process that has it open.
    fn directory(&mut self, directory: &DataDirectory) -> io::Result<()>;
    /// Groups of this segment follow.
    fn segment_begins(&mut self, _file: &SegmentFile) -> io::Result<()> {
        Ok(())
    }
    /// A group, and those of its records that are shown.
    fn group(&mut self, frame: &Frame, shown: &[FrameRecord]) -> io::Result<()>;
    /// A segment as a whole.
    fn segment(&mut self, survey: &Survey) -> io::Result<()>;
    /// A checkpoint.
    fn checkpoint(
        &mut self,
        file: &CheckpointFile,
        found: &Result<Checkpoint, Damage>,
    ) -> io::Result<()>;
    /// The end: nothing follows.
    fn end(&mut self) -> io::Result<()>;
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = DataDirectory::open(&arguments.directory)?;
    let output: Box<dyn Write> = Box::new(BufWriter::new(io::stdout()));
    let mut report: Box<dyn Report> = match arguments.write_out {
        Form::Table => Box::new(text::Text::new(output)),
        Form::Json => Box::new(json::Json::new(output)),
    };
    let detail = Detail {
        groups: arguments.records || arguments.segment.is_some(),
        records: arguments.records,
    };
    match arguments.segment {
        Some(id) => show_one(&directory, id, &mut *report, detail)?,
        None => show_all(&directory, &mut *report, detail)?,
    }
    Ok(report.end()?)
}

fn show_one(
    directory: &DataDirectory,
    id: u32,
    report: &mut dyn Report,
    detail: Detail,
) -> Result<(), Failure> {
    let mut segments = directory.files.segments.iter();
    match segments.find(|file| file.id == id) {
        Some(file) => show_segment(file, report, detail),
        None => Err(Failure::wrong_use(
            format_args!("{} has no segment {id:08x}", directory.path.display()),
            "Leave out --segment to see which there are.",
        )),
    }
}

fn show_all(
    directory: &DataDirectory,
    report: &mut dyn Report,
    detail: Detail,
) -> Result<(), Failure> {
    report.directory(directory)?;
    for file in &directory.files.segments {
        show_segment(file, report, detail)?;
    }
    let files =
        checkpoints(&RealDisk, &directory.path).map_err(|error| Failure::failed(error, ""))?;
    for file in files {
        report.checkpoint(&file, &file.verify(&RealDisk, &mut |_| {}))?;
    }
    Ok(())
}

fn show_segment(
    file: &SegmentFile,
    report: &mut dyn Report,
    detail: Detail,
) -> Result<(), Failure> {
    if detail.groups {
        report.segment_begins(file)?;
    }
    let survey = Survey::of(
        file,
        None,
        &mut |frame| match (detail.groups, detail.records) {
            (true, true) => report.group(frame, &frame.records),
            (true, false) => report.group(frame, &[]),
            (false, _) => Ok(()),
        },
    )?;
    // `None`: a running server has removed the segment since it was listed.
    survey.map_or(Ok(()), |survey| Ok(report.segment(&survey)?))
}

/// Field of the kv of an embedded map: the length of a value that is compressed
/// (docs/formats/ordered-map.md).
const VALUE_BYTES_FIELD: u32 = 14;

/// Length of the value that a kv stands for.
fn value_bytes(kv: Bytes) -> u64 {
    let kv = EncodedKeyValue(kv);
    let compressed = kv.other_number(VALUE_BYTES_FIELD);
    compressed.unwrap_or_else(|| kv.value().len() as u64)
}

/// Parses a segment's number: hexadecimal, with or without leading zeros and `.log`.
fn segment_id(word: &str) -> Result<u32, String> {
    let stem = word.split('.').next().unwrap_or(word);
    u32::from_str_radix(stem, 16)
        .map_err(|_| "a segment's number is hexadecimal, such as 00000001 or 1f".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_length_that_it_had_before_it_was_compressed() {
        let stored = value_bytes(Bytes::from_static(b"\x0a\x03key\x2a\x05value"));
        assert_eq!(stored, 5);
        let compressed = b"\x0a\x03ink\x70\xc8\x01\x7a\x0c\x1f.\x01\x00\xae\x60......";
        assert_eq!(value_bytes(Bytes::from_static(compressed)), 200);
        assert_eq!(value_bytes(Bytes::new()), 0);
    }
}
