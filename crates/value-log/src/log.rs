//! The log: what its users call.

use std::path::Path;
use std::sync::Arc;

use environment::Disk;

use crate::{
    Appended, Error, Group, GroupBuffer, Options, Position, Record, RecordBuffer, Recovered,
    SegmentInfo, Sequence, Status, Tag,
};

/// An open log.
#[derive(Debug)]
pub struct Log {}

/// Runs on the flush thread after each flush, and once on failure.
pub type Notice = Box<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

#[expect(missing_docs, reason = "signatures only, for minutes")]
#[expect(unused_variables, reason = "signatures only, for minutes")]
impl Log {
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        replay_from: Option<Position>,
        visit: &mut dyn FnMut(&Group<'_>) -> Result<(), Error>,
    ) -> Result<(Log, Recovered), Error> {
        panic!("not built yet")
    }
    pub fn append(&self, records: &[Record<'_>]) -> Result<Appended, Error> {
        panic!("not built yet")
    }
    pub fn append_group(&self, tag: Tag, records: &[Record<'_>]) -> Result<Appended, Error> {
        panic!("not built yet")
    }
    pub fn durable(&self) -> Sequence {
        panic!("not built yet")
    }
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), Error> {
        panic!("not built yet")
    }
    pub fn on_durable(&self, notice: Notice) {
        panic!("not built yet")
    }
    pub fn read(&self, position: Position, length_hint: usize) -> Result<RecordBuffer, Error> {
        panic!("not built yet")
    }
    pub fn groups(&self, from: Position) -> Groups {
        panic!("not built yet")
    }
    pub fn segments(&self) -> Vec<SegmentInfo> {
        panic!("not built yet")
    }
    pub fn rotate(&self) -> Result<(), Error> {
        panic!("not built yet")
    }
    pub fn release(&self, segments: &[u32]) -> Result<(), Error> {
        panic!("not built yet")
    }
    pub fn relocate(&self) -> Result<Relocation, Error> {
        panic!("not built yet")
    }
    pub fn record_bytes(payload_len: usize) -> usize {
        panic!("not built yet")
    }
    pub fn status(&self) -> Status {
        panic!("not built yet")
    }
    pub fn close(self) -> Result<(), Error> {
        panic!("not built yet")
    }
}

/// Groups in order, from a position on up to what is durable at each call of
/// `next`; `None` means "nothing more yet" and can be asked again.
#[derive(Debug)]
pub struct Groups {}

impl Iterator for Groups {
    type Item = Result<GroupBuffer, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        panic!("not built yet")
    }
}

/// A bulk writer of sorted segments.
#[derive(Debug)]
pub struct Relocation {}

#[expect(missing_docs, reason = "signatures only, for minutes")]
#[expect(unused_variables, reason = "signatures only, for minutes")]
impl Relocation {
    pub fn append(&mut self, record: Record<'_>) -> Result<Position, Error> {
        panic!("not built yet")
    }
    pub fn finish(self) -> Result<Vec<u32>, Error> {
        panic!("not built yet")
    }
}
