//! Bases: whole snapshots, from a file of this machine into the store.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use etcd_snapshot::FileState;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use object_store::MultipartUpload;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::changes::Origin;
use crate::header::Header;
use crate::mark::{Mark, Marker};
use crate::name::{ObjectKind, ObjectName};
use crate::place::{BackupPlace, within};
use crate::{Error, base_reader};

/// Bytes that are sent to the store at once. S3 takes 10,000 parts of 5 MiB at least.
const PART_BYTES: usize = 8 << 20;
/// Parts that wait to be sent.
const PARTS_WAITING: usize = 1;
const CHUNK_BYTES: usize = 1 << 20;

/// An etcd database file that becomes a base.
#[derive(Clone, Debug)]
pub struct BaseFile {
    path: PathBuf,
    /// The newest revision in it.
    pub revision: i64,
    /// Its compaction; -1: none.
    pub compacted: i64,
    /// Number of the state of users.
    pub auth_revision: u64,
    /// HashKV of the newest revision.
    pub hash: u32,
    /// Of the newest revision.
    pub mark: Mark,
    plain_bytes: u64,
}

impl BaseFile {
    /// Reads a file, its SHA-256 and all its rows. It takes as long as reading the file four times.
    pub fn inspect(path: &Path) -> Result<BaseFile, Error> {
        let file = etcd_snapshot::open(path, false, |_, _| ())?;
        let state = FileState::read(&file)?;
        let hash = etcd_snapshot::hash(&file, 0, |_| ())?;
        let mut marker = Marker::default();
        for row in etcd_snapshot::rows(&file)? {
            let (key, value) = row?;
            marker.add(key, &value);
        }
        let has_last = marker.revision() == hash.hash_revision;
        let plain_bytes = path.metadata().map_err(|error| Error::io(path, error))?;
        Ok(BaseFile {
            path: path.to_owned(),
            revision: hash.hash_revision,
            compacted: hash.compact_revision,
            auth_revision: state.auth_revision,
            hash: hash.hash,
            mark: if has_last {
                marker.finish()
            } else {
                Mark::default()
            },
            plain_bytes: plain_bytes.len(),
        })
    }

    /// Stores the file in one attempt, and reads it back. `begun_ms`: when the snapshot was asked for;
    /// `time_ms`: when its first byte arrived.
    pub async fn store(
        &self,
        place: &BackupPlace,
        origin: Origin,
        begun_ms: u64,
        time_ms: u64,
    ) -> Result<ObjectName, Error> {
        let name = ObjectName {
            cluster: origin.cluster,
            history: origin.history,
            nonce: origin.nonce,
            first: self.revision,
            last: self.revision,
            time_ms,
            kind: ObjectKind::Base,
        };
        let header = Header {
            name,
            begun_ms,
            compacted: self.compacted,
            auth_revision: self.auth_revision,
            hash: self.hash,
            mark: self.mark,
            plain_bytes: self.plain_bytes,
        };
        let mut upload = place.begin(&name).await?;
        if let Err(error) = self.send(&mut upload, header).await {
            // What the store keeps of it costs money until it is given up.
            let _ = within(name, "write", upload.abort()).await;
            return Err(error);
        }
        base_reader::read(place, &name, &mut io::sink()).await?;
        Ok(name)
    }

    async fn send(
        &self,
        upload: &mut Box<dyn MultipartUpload>,
        header: Header,
    ) -> Result<(), Error> {
        let (sender, mut parts) = mpsc::channel(PARTS_WAITING);
        let path = self.path.clone();
        let compressing =
            tokio::task::spawn_blocking(move || compress(&path, &header.encode(), sender));
        let sent = send_parts(upload, header.name, &mut parts).await;
        // The thread ends at its next part.
        drop(parts);
        let compressed = compressing.await.expect("compression does not panic");
        sent?;
        compressed.map_err(|error| Error::io(&self.path, error))?;
        within(header.name, "write", upload.complete()).await?;
        Ok(())
    }
}

async fn send_parts(
    upload: &mut Box<dyn MultipartUpload>,
    name: ObjectName,
    parts: &mut Receiver<Bytes>,
) -> Result<(), Error> {
    while let Some(part) = parts.recv().await {
        within(name, "write", upload.put_part(part.into())).await?;
    }
    Ok(())
}

/// Makes the parts of an object on a thread of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "a temporary file of this process, that no simulated disk has"
)]
fn compress(path: &Path, header: &[u8], sender: Sender<Bytes>) -> io::Result<()> {
    let mut parts = PartWriter {
        part: Vec::with_capacity(PART_BYTES),
        sum: Sha256::new(),
        sender,
    };
    parts.write_all(header)?;
    let mut encoder = ZlibEncoder::new(parts, Compression::fast());
    let (mut file, mut chunk) = (File::open(path)?, vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            bytes => encoder.write_all(&chunk[..bytes])?,
        }
    }
    encoder.finish()?.finish()
}

/// Cuts what is written into parts.
struct PartWriter {
    part: Vec<u8>,
    sum: Sha256,
    sender: Sender<Bytes>,
}

impl PartWriter {
    fn finish(mut self) -> io::Result<()> {
        let sum = self.sum.clone().finalize();
        self.part.extend_from_slice(&sum);
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
        let sent = self.sender.blocking_send(part.into());
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sum.update(bytes);
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
