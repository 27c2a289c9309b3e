//! Rows of changes in a temporary file: they are read twice, and may be more than the memory has room for.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use etcd_snapshot::RowKey;

use crate::Error;
use crate::batch::ChangedRow;
use crate::scratch::Scratch;

/// Bytes of a row before its value: main, sub, deletion, length; all in the order of this machine's files.
const HEAD_BYTES: usize = 21;

/// A temporary file with rows.
#[derive(Debug)]
pub(crate) struct Spool(Scratch);

impl Spool {
    pub fn create(target: &Path) -> Result<Spool, Error> {
        Ok(Spool(Scratch::create(target, "changes")?))
    }

    pub fn add(&mut self, row: &ChangedRow) -> Result<(), Error> {
        let length = u32::try_from(row.value.len()).expect("it was read from 32 bits");
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend(row.key.main.to_le_bytes());
        head.extend(row.key.sub.to_le_bytes());
        head.push(u8::from(row.key.is_deletion));
        head.extend(length.to_le_bytes());
        self.0.write(&head)?;
        self.0.write(&row.value)
    }

    /// Rows can be read from now on.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.0.flush()
    }

    /// All rows in the order in which they were added.
    #[expect(
        clippy::disallowed_methods,
        reason = "a temporary file of this process, that no simulated disk has"
    )]
    pub fn rows(&self) -> Result<impl Iterator<Item = Result<(RowKey, Bytes), Error>>, Error> {
        let path = self.0.path().to_owned();
        let file = File::open(&path).map_err(|error| Error::io(&path, error))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let rows = std::iter::from_fn(move || next(&mut reader).transpose());
        Ok(rows.map(move |row| row.map_err(|error| Error::io(&path, error))))
    }
}

fn next(reader: &mut BufReader<File>) -> io::Result<Option<(RowKey, Bytes)>> {
    let mut head = [0; HEAD_BYTES];
    if reader.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut head[1..])?;
    let number = |at: usize| i64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let key = RowKey {
        main: number(0),
        sub: number(8),
        is_deletion: head[16] == 1,
    };
    let length = u32::from_le_bytes(head[17..].try_into().expect("4 bytes"));
    let mut value = vec![0; length as usize];
    reader.read_exact(&mut value)?;
    Ok(Some((key, value.into())))
}
