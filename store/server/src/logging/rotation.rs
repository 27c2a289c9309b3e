//! A log file that is renamed when it is full, with the names and rules of etcd's logger.
//!
//! ```text
//!   etcd.log ──full──► etcd-2026-01-02T15-04-05.999.log ──compress──► ….log.gz ──old──► removed
//! ```
//!
//! The rename is done by the thread that logs; compression and removal take longer and run on
//! a thread of their own, one at a time. If the file cannot be renamed, lines go on into the
//! same file: a line is worth more than the limit.
#![expect(
    clippy::disallowed_methods,
    reason = "the log's files stand outside the data directory"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::{Clock, threads};
use flate2::Compression;
use flate2::write::GzEncoder;
use tracing::warn;

use super::time;
use crate::config::LogRotation;
use crate::lock;

/// Ending of a compressed file.
const COMPRESSED: &str = ".gz";

/// An open log file and its size.
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    rotation: LogRotation,
    clock: Arc<dyn Clock>,
    /// Held while old files are compressed and removed.
    upkeep: Arc<Mutex<()>>,
}

impl RotatingFile {
    /// Opens or creates the file, and continues behind what it holds.
    pub(super) fn open(
        path: &Path,
        rotation: LogRotation,
        clock: Arc<dyn Clock>,
    ) -> io::Result<RotatingFile> {
        let file = append_to(path)?;
        Ok(RotatingFile {
            bytes: file.metadata()?.len(),
            path: path.to_owned(),
            file,
            rotation,
            clock,
            upkeep: Arc::default(),
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, backup_name(&self.path, self.clock.unix_time()))?;
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        let (path, rotation) = (self.path.clone(), self.rotation);
        let (now, upkeep) = (self.clock.unix_time(), Arc::clone(&self.upkeep));
        threads::spawn("log-rotation", move || {
            let _one_at_a_time = lock(&upkeep);
            if let Err(error) = tidy(&path, rotation, now) {
                warn!(%error, path = %path.display(), "old log files could not be tidied");
            }
        })
        .map(drop)
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes_after = self.bytes + line.len() as u64;
        if bytes_after > self.rotation.bytes_max && self.bytes > 0 {
            // On failure the file grows beyond its limit; an error could only be logged.
            let _ = self.rotate();
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a log file for appending, and creates it if it does not exist.
pub(super) fn append_to(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| {
        let text = format!("cannot append to log file {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

/// `etcd.log` becomes `etcd-2026-01-02T15-04-05.999.log`.
fn backup_name(path: &Path, now: Duration) -> PathBuf {
    let (stem, ending) = stem_and_ending(path);
    path.with_file_name(format!("{stem}-{}{ending}", time::in_file_name(now)))
}

fn stem_and_ending(path: &Path) -> (String, String) {
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let ending = path
        .extension()
        .map(|_| format!(".{}", text(path.extension())));
    (text(path.file_stem()), ending.unwrap_or_default())
}

/// A file that was full, with the time at which it was renamed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Backup {
    unix: Duration,
    path: PathBuf,
}

/// The renamed files of a log, the newest first. Files with other names are not touched.
fn backups(path: &Path) -> io::Result<Vec<Backup>> {
    let (stem, ending) = stem_and_ending(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(COMPRESSED).unwrap_or(&name);
        let moment = name.strip_prefix(&format!("{stem}-"));
        let moment = moment.and_then(|rest| rest.strip_suffix(&ending));
        if let Some(unix) = moment.and_then(time::from_file_name) {
            found.push(Backup { unix, path });
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// Removes the files beyond the limits and compresses the others if that is wanted.
fn tidy(path: &Path, rotation: LogRotation, now: Duration) -> io::Result<()> {
    let oldest = rotation.age_max.map(|age| now.saturating_sub(age));
    for (number, backup) in backups(path)?.into_iter().enumerate() {
        let too_many = rotation.backups_max.is_some_and(|most| number >= most);
        if too_many || oldest.is_some_and(|oldest| backup.unix < oldest) {
            fs::remove_file(&backup.path)?;
        } else if rotation.compress && !is_compressed(&backup.path) {
            compress(&backup.path)?;
        }
    }
    Ok(())
}

fn is_compressed(path: &Path) -> bool {
    path.to_string_lossy().ends_with(COMPRESSED)
}

/// Writes the compressed file and removes the other one only when that has succeeded.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(COMPRESSED);
    let compressed = PathBuf::from(name);
    let written = write_compressed(path, &compressed);
    if written.is_err() {
        let _ = fs::remove_file(&compressed);
    }
    written?;
    fs::remove_file(path)
}

fn write_compressed(path: &Path, to: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(File::create(to)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use environment::simulated::SimulatedClock;
    use flate2::read::GzDecoder;

    use super::*;

    const ROTATION: LogRotation = LogRotation {
        bytes_max: 20,
        age_max: None,
        backups_max: None,
        compress: false,
    };

    fn open(path: &Path, rotation: LogRotation) -> RotatingFile {
        RotatingFile::open(path, rotation, Arc::new(SimulatedClock::stepped())).unwrap()
    }

    fn write_backup(path: &Path, seconds: u64, text: &str) -> PathBuf {
        let backup = backup_name(path, Duration::from_secs(seconds));
        fs::write(&backup, text).unwrap();
        backup
    }

    #[test]
    fn a_full_file_is_renamed_and_a_line_is_never_split() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd.log");
        fs::write(&path, "from before\n").unwrap();
        let mut file = open(&path, ROTATION);
        file.write_all(b"1234567\n").unwrap();
        assert_eq!(
            backups(&path).unwrap().len(),
            0,
            "20 bytes are not too many"
        );
        file.write_all(b"another line, longer than the limit\n")
            .unwrap();
        let renamed = &backups(&path).unwrap()[0].path;
        assert_eq!(
            fs::read_to_string(renamed).unwrap(),
            "from before\n1234567\n"
        );
        let now = fs::read_to_string(&path).unwrap();
        assert_eq!(now, "another line, longer than the limit\n");
    }

    #[test]
    fn lines_go_on_into_the_file_that_cannot_be_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("logs");
        fs::create_dir(&inside).unwrap();
        let mut file = open(&inside.join("log"), ROTATION);
        file.write_all(b"0123456789abcdefgh\n").unwrap();
        fs::rename(&inside, folder.path().join("moved")).unwrap();
        file.write_all(b"more than fits\n").unwrap();
        let text = fs::read_to_string(folder.path().join("moved/log")).unwrap();
        assert_eq!(text, "0123456789abcdefgh\nmore than fits\n");
    }

    #[test]
    fn old_files_are_removed_by_number_and_age_and_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let backups_made: Vec<PathBuf> = [100, 200, 300, 400]
            .map(|at| write_backup(&path, at, "x"))
            .to_vec();
        let foreign = folder.path().join("log-notes");
        fs::write(&foreign, "mine").unwrap();
        let by_number = LogRotation {
            backups_max: Some(3),
            ..ROTATION
        };
        tidy(&path, by_number, Duration::from_secs(500)).unwrap();
        let exist = || {
            backups_made
                .iter()
                .map(|it| it.exists())
                .collect::<Vec<_>>()
        };
        assert_eq!(exist(), [false, true, true, true]);
        let by_age = LogRotation {
            age_max: Some(Duration::from_secs(150)),
            ..ROTATION
        };
        tidy(&path, by_age, Duration::from_secs(500)).unwrap();
        assert_eq!(exist(), [false, false, false, true]);
        assert!(foreign.exists());
    }

    #[test]
    fn compressed_files_hold_the_lines_and_count_as_backups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.txt");
        let plain = write_backup(&path, 100, "a line\n");
        let rotation = LogRotation {
            compress: true,
            ..ROTATION
        };
        tidy(&path, rotation, Duration::from_secs(200)).unwrap();
        assert!(!plain.exists());
        let found = backups(&path).unwrap();
        let mut text = String::new();
        let file = File::open(&found[0].path).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "a line\n");
        tidy(&path, rotation, Duration::from_secs(200)).unwrap();
        assert_eq!(backups(&path).unwrap(), found, "it is compressed once");
    }
}
