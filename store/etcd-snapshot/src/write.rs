//! Writes a file of etcd as a stream: first lengths, then bytes.

use bolt::{FilePlan, Measure, Writer};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::row::{self, RowKey};
use crate::state::{FileState, NamedPairs};
use crate::status::{FileStatus, Tally};

/// A file that is going to be written: its state, and where everything will be.
#[derive(Debug)]
pub struct SnapshotPlan {
    buckets: Vec<NamedPairs>,
    file: FilePlan,
}

/// A version of a key.
#[derive(Clone, Debug)]
pub struct FileRow {
    pub row: RowKey,
    pub key: Bytes,
    /// The encoded `mvccpb.KeyValue`.
    pub kv: Bytes,
}

/// Bytes of the checksum behind the pages.
pub const SUM_BYTES: u64 = 32;

impl SnapshotPlan {
    /// Lays a file out. `rows`: all versions ascending, with the bytes of each encoded
    /// `mvccpb.KeyValue`.
    pub fn new<E>(
        state: &FileState,
        rows: impl Iterator<Item = Result<(RowKey, usize), E>>,
    ) -> Result<SnapshotPlan, E> {
        let buckets = state.to_buckets();
        let mut measure = Measure::default();
        let measured = |measure: &mut Measure, (name, pairs): &NamedPairs| {
            measure.bucket(name);
            for (key, value) in pairs {
                measure.entry(key, value.len());
            }
        };
        let (before, after) = around_keys(&buckets);
        before.iter().for_each(|it| measured(&mut measure, it));
        measure.bucket(row::BUCKET);
        for row in rows {
            let (key, bytes) = row?;
            measure.entry(&key.encode(), bytes);
        }
        after.iter().for_each(|it| measured(&mut measure, it));
        Ok(SnapshotPlan {
            buckets,
            file: measure.finish(),
        })
    }

    /// Bytes of the file without the checksum at its end.
    pub fn pages_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// Bytes of the file with the checksum at its end.
    pub fn file_bytes(&self) -> u64 {
        self.pages_bytes() + SUM_BYTES
    }

    /// The numbers that `status` would find in the file, without writing it. `rows`: those of the plan, each with its
    /// key. `None` if they were not those.
    pub fn status<E>(
        &self,
        rows: impl Iterator<Item = Result<FileRow, E>>,
    ) -> Result<Option<FileStatus>, E> {
        let mut tally = Tally::default();
        let mut written = Measure::default();
        let add_all = |tally: &mut Tally, written: &mut Measure, buckets: &[NamedPairs]| {
            for (name, pairs) in buckets {
                tally.bucket(name.as_bytes());
                written.bucket(name);
                for (key, value) in pairs {
                    tally.entry(key, value);
                    written.entry(key, value.len());
                }
            }
        };
        let (before, after) = around_keys(&self.buckets);
        add_all(&mut tally, &mut written, before);
        tally.bucket(row::BUCKET.as_bytes());
        written.bucket(row::BUCKET);
        for row in rows {
            let FileRow { row, key, kv } = row?;
            let encoded = row.encode();
            tally.entry(&encoded, &kv);
            tally.count(row, &key);
            written.entry(&encoded, kv.len());
        }
        add_all(&mut tally, &mut written, after);
        let is_as_planned = written.finish().file_bytes() == self.pages_bytes();
        let version = etcd_api::STORAGE_VERSION.to_owned();
        Ok(is_as_planned.then(|| tally.status(self.pages_bytes(), version)))
    }

    /// Writes the file, and behind it the SHA-256 of its pages, which is a piece of its own. False,
    /// and no checksum, if `rows` were not those of the plan.
    pub fn write<E>(
        &self,
        rows: impl Iterator<Item = Result<(RowKey, Bytes), E>>,
        output: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut sum = Sha256::new();
        let summed = &mut |piece: &[u8]| {
            sum.update(piece);
            output(piece)
        };
        let mut writer = Writer::new(self.file, summed)?;
        let (before, after) = around_keys(&self.buckets);
        write_all(&mut writer, before)?;
        writer.bucket(row::BUCKET)?;
        for row in rows {
            let (key, value) = row?;
            writer.entry(&key.encode(), &value)?;
        }
        write_all(&mut writer, after)?;
        let is_as_planned = writer.finish()?;
        if is_as_planned {
            output(&sum.finalize())?;
        }
        Ok(is_as_planned)
    }
}

fn write_all<E>(writer: &mut Writer<'_, E>, buckets: &[NamedPairs]) -> Result<(), E> {
    for (name, pairs) in buckets {
        writer.bucket(name)?;
        for (key, value) in pairs {
            writer.entry(key, value)?;
        }
    }
    Ok(())
}

/// The buckets before and behind that of keys.
fn around_keys(buckets: &[NamedPairs]) -> (&[NamedPairs], &[NamedPairs]) {
    buckets.split_at(buckets.partition_point(|(name, _)| *name < row::BUCKET))
}
