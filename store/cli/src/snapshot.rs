//! `inkstone snapshot`: saves the state of a server as a file of etcd, and shows what such files
//! hold.

pub(crate) mod download;
mod etcd_directory;
mod flushed_file;
mod opened;
mod own_directory;
mod restore;
mod save;

use std::fmt::Display;
use std::io::{self, Write};

use clap::{Subcommand, ValueEnum};
use etcd_snapshot::{FileHash, FileStatus};
use serde_json::{Value, json};

use self::opened::{Opened, failure, open};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Table, size};

/// Save the state of a server as a file of etcd, and show what such files hold
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Files are those of `etcdctl snapshot save`. They are read from etcd and from Inkstone, and both
read what is saved here; status and hashkv also read member/snap/db of an etcd that has stopped,
without the newest entries, which stand in its write-ahead log: save --data-dir has them all.

Examples:
  inkstone snapshot save backup.db                 the state of the server at 127.0.0.1:2379
  inkstone snapshot save x.db --data-dir DIR       the state of a stopped Inkstone or etcd
  inkstone snapshot status backup.db               checks every page; hash, revision, keys
  inkstone snapshot status backup.db -w json       the same for programs
  inkstone snapshot hashkv backup.db               HashKV of the newest revision
  inkstone snapshot hashkv backup.db --rev 1000    HashKV of revision 1000

Equal hashes mean equal keys and histories. Compare them only if the compact revision is the
same: a server keeps the hash of a compacted revision as it was before the compaction.
member/snap/db has no SHA-256 at its end, so that only its structure is checked."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Print columns, a line, a line for each field, or JSON
    #[arg(
        short = 'w',
        long,
        global = true,
        value_enum,
        default_value_t = Form::Table,
        value_name = "FORM"
    )]
    write_out: Form,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Save the state of a running server, Inkstone or etcd, or of one that has stopped
    Save(Box<save::Arguments>),
    /// Make a new data directory from a file
    Restore(Box<restore::Arguments>),
    /// Check every page, and print hash, revision, number of keys and size
    Status(Opened),
    /// Print HashKV, which is equal for equal keys and histories
    Hashkv {
        #[command(flatten)]
        opened: Opened,
        /// The revision to hash; 0: the newest
        #[arg(
            long,
            value_name = "REVISION",
            default_value_t = 0,
            value_parser = clap::value_parser!(i64).range(0..)
        )]
        rev: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    // No doc comments here: clap would add them to the help of each verb.
    // Names above aligned columns.
    Table,
    // Values with commas between them.
    Simple,
    // etcdutl's `"Name" : value` lines.
    Fields,
    // etcdutl's JSON.
    Json,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Save(save) => save::run(*save),
        Action::Restore(restore) => restore::run(&restore),
        Action::Status(opened) => status(&opened, arguments.write_out),
        Action::Hashkv { opened, rev } => hash(&opened, rev, arguments.write_out),
    }
}

fn status(opened: &Opened, form: Form) -> Result<(), Failure> {
    let status = match opened.file.is_dir() {
        true => own_directory::status(&opened.file)?,
        false => file_status(opened)?,
    };
    let cells = [
        Cell::shown_as("hash", "Hash", status.hash, format!("{:x}", status.hash)),
        Cell::new("revision", "Revision", status.revision),
        Cell::new("total keys", "Keys", status.keys),
        Cell::shown_as(
            "total size",
            "Size",
            status.size_bytes,
            size(status.size_bytes),
        ),
        Cell::new("version", "Version", &status.version),
    ];
    print(form, &cells, || {
        json!({
            "hash": status.hash,
            "revision": status.revision,
            "totalKey": status.keys,
            "totalSize": status.size_bytes,
            "version": status.version,
        })
    })
}

fn file_status(opened: &Opened) -> Result<FileStatus, Failure> {
    let (path, file) = (&opened.file, open(opened)?);
    let mut progress = Progress::new("reading", 2 * file.size_bytes());
    let status = etcd_snapshot::status(&file, |bytes| progress.advance(bytes));
    status.map_err(|error| failure(path, error))
}

fn file_hash(opened: &Opened, revision: i64) -> Result<FileHash, Failure> {
    let (path, file) = (&opened.file, open(opened)?);
    let mut progress = Progress::new("hashing", 2 * file.size_bytes());
    let hash = etcd_snapshot::hash(&file, revision, |bytes| progress.advance(bytes));
    hash.map_err(|error| failure(path, error))
}

fn hash(opened: &Opened, revision: i64, form: Form) -> Result<(), Failure> {
    let hash = match opened.file.is_dir() {
        true => own_directory::hash(&opened.file, revision)?,
        false => file_hash(opened, revision)?,
    };
    let cells = [
        Cell::new("hash", "Hash", hash.hash),
        Cell::new("hash revision", "Hash revision", hash.hash_revision),
        Cell::new(
            "compact revision",
            "Compact revision",
            hash.compact_revision,
        ),
    ];
    print(form, &cells, || {
        json!({
            "hash": hash.hash,
            "hashRevision": hash.hash_revision,
            "compactRevision": hash.compact_revision,
        })
    })
}

/// A number or text of a file.
struct Cell {
    /// Its column in a table.
    column: &'static str,
    /// Its name in etcdutl's fields.
    field: &'static str,
    value: String,
    /// The value as it stands in tables and lines.
    shown: String,
}

impl Cell {
    fn new(column: &'static str, field: &'static str, value: impl Display) -> Cell {
        let shown = value.to_string();
        Cell::shown_as(column, field, value, shown)
    }

    fn shown_as(
        column: &'static str,
        field: &'static str,
        value: impl Display,
        shown: String,
    ) -> Cell {
        Cell {
            column,
            field,
            value: value.to_string(),
            shown,
        }
    }
}

fn print(form: Form, cells: &[Cell], json: impl Fn() -> Value) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let shown = cells.iter().map(|cell| cell.shown.clone());
    match form {
        Form::Json => writeln!(output, "{}", json())?,
        Form::Simple => writeln!(output, "{}", shown.collect::<Vec<_>>().join(", "))?,
        Form::Table => {
            let mut table = Table::new(cells.iter().map(|cell| cell.column).collect::<Vec<_>>());
            table.row(shown.collect());
            table.write(&mut output)?;
        }
        Form::Fields => {
            for cell in cells {
                writeln!(output, "\"{}\" : {}", cell.field, cell.value)?;
            }
        }
    }
    Ok(())
}
