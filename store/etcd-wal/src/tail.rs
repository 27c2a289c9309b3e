//! The entries of a log that its database file lacks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prost::Message;

use crate::Error;
use crate::frame::{RecordPlace, Records, Sum};
use crate::record::{
    CRC, ENTRY, HARD_STATE, LoggedEntry, LoggedRecord, LoggedState, METADATA, Owner, SNAPSHOT,
    SnapshotMark,
};
use crate::request::InternalRaftRequest;

/// The newest entry that a database file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub index: u64,
    /// 0 in a file that does not tell it.
    pub term: u64,
}

/// The entries behind one, up to the end of the log.
#[derive(Debug)]
pub struct Tail {
    directory: PathBuf,
    files: Vec<PathBuf>,
    base: Base,
    /// The term of the base in this log, if it has that entry.
    base_term: Option<u64>,
    /// The entries behind the base.
    entries: Vec<PlacedEntry>,
    owner: Option<Owner>,
    state: LoggedState,
    /// The newest snapshot that the log names.
    snapshot: u64,
    /// Where the last file has a record that was not written whole.
    cut_off: Option<u64>,
}

/// A record of an entry, in the file of this number.
#[derive(Clone, Copy, Debug)]
struct PlacedEntry {
    file: u32,
    place: RecordPlace,
    /// Whether it holds a request, and does not change the members.
    is_request: bool,
}

impl Tail {
    /// Reads all files of a log.
    pub fn read(directory: &Path, base: Base) -> Result<Tail, Error> {
        let mut tail = Tail {
            directory: directory.to_owned(),
            files: files_of(directory)?,
            base,
            base_term: None,
            entries: Vec::new(),
            owner: None,
            state: LoggedState::default(),
            snapshot: 0,
            cut_off: None,
        };
        let mut sum = Sum::after(0);
        for (number, path) in tail.files.clone().iter().enumerate() {
            let is_last = number + 1 == tail.files.len();
            let mut records = Records::open(path, is_last)?;
            while let Some((place, record)) = records.next(&mut sum)? {
                let file = u32::try_from(number).expect("a folder has fewer files");
                let taken = tail.take(&record, (file, place), &mut sum);
                taken.map_err(|problem| records.damaged(problem))?;
            }
            tail.cut_off = records.cut_off;
        }
        tail.check_end()?;
        Ok(tail)
    }

    /// Takes a record in; the error is what is wrong with it.
    fn take(
        &mut self,
        record: &LoggedRecord,
        place: (u32, RecordPlace),
        sum: &mut Sum,
    ) -> Result<(), String> {
        let data = record.data.clone().unwrap_or_default();
        let unreadable = |error: prost::DecodeError| format!("data that cannot be read: {error}");
        match record.kind {
            METADATA => self.belong_to(Owner::decode(data).map_err(unreadable)?)?,
            ENTRY => {
                let entry = LoggedEntry::decode(data).map_err(unreadable)?;
                self.enter(&entry, place)?;
            }
            HARD_STATE => {
                self.state = LoggedState::decode(data).map_err(unreadable)?;
            }
            CRC => {
                let before = sum.checksum();
                if before != 0 && before != record.crc {
                    let after = record.crc;
                    return Err(format!(
                        "it continues a file with the checksum {after:08x}, and the one before \
                         has {before:08x}"
                    ));
                }
                *sum = Sum::after(record.crc);
            }
            SNAPSHOT => {
                let mark = SnapshotMark::decode(data).map_err(unreadable)?;
                self.snapshot = self.snapshot.max(mark.index);
            }
            kind => return Err(format!("a record of the unknown kind {kind}")),
        }
        Ok(())
    }

    fn belong_to(&mut self, owner: Owner) -> Result<(), String> {
        match self.owner.replace(owner) {
            Some(before) if before != owner => Err(format!(
                "it belongs to member {:x} of cluster {:x}, and the files before it to member {:x} of \
                 cluster {:x}",
                owner.member, owner.cluster, before.member, before.cluster
            )),
            _ => Ok(()),
        }
    }

    /// Notes the place of an entry. It replaces one of the same index and all behind that, which were
    /// of a leader that has lost its office.
    fn enter(
        &mut self,
        entry: &LoggedEntry,
        (file, place): (u32, RecordPlace),
    ) -> Result<(), String> {
        let (index, base) = (entry.index, self.base.index);
        if index <= base {
            if index == base {
                self.base_term = Some(entry.term);
            }
            return Ok(());
        }
        let (ahead, known) = (index - base - 1, self.entries.len() as u64);
        if ahead > known {
            let last = base + known;
            return Err(format!(
                "entry {index} follows entry {last}: those between them are missing"
            ));
        }
        self.entries.truncate(ahead as usize);
        self.entries.push(PlacedEntry {
            file,
            place,
            is_request: entry.is_request(),
        });
        Ok(())
    }

    fn check_end(&self) -> Result<(), Error> {
        let last = self.last();
        let gap = |problem| {
            Err(Error::Gap {
                directory: self.directory.clone(),
                problem,
            })
        };
        let Base { index: base, term } = self.base;
        let committed = self.state.commit;
        if let Some(logged) = self.base_term.filter(|&logged| term != 0 && logged != term) {
            return gap(format!(
                "entry {base} is of term {logged} in this log and of term {term} in member/snap/db: \
                 they belong to different servers, or were copied at different times"
            ));
        }
        // A server writes its database file before it notes a snapshot of its own.
        if self.snapshot > base && self.snapshot <= committed {
            let snapshot = self.snapshot;
            return gap(format!(
                "the log continues a snapshot of entry {snapshot}, and member/snap/db ends at \
                 entry {base}: the etcd stopped while it took over another member's state. Take the \
                 directory of another member, or start this one once"
            ));
        }
        if committed > last {
            return gap(format!(
                "entry {committed} was committed, and the log ends at entry {last}: its end is \
                 missing. Copy the whole directory, or take that of another member"
            ));
        }
        Ok(())
    }

    /// Index of the newest entry of the log; that of the database file if the log has no newer one.
    pub fn last(&self) -> u64 {
        self.base.index + self.entries.len() as u64
    }

    /// The term in which the member was last.
    pub fn term(&self) -> u64 {
        self.state.term
    }

    /// Id of the member that wrote the log; 0 if it does not tell.
    pub fn member_id(&self) -> u64 {
        self.owner.map_or(0, |owner| owner.member)
    }

    /// Whether an entry of the tail changes the members of the cluster.
    pub fn changes_members(&self) -> bool {
        self.entries.iter().any(|entry| !entry.is_request)
    }

    /// Number of entries at the end of which the member did not know that a majority has them.
    pub fn uncommitted(&self) -> u64 {
        self.last() - self.state.commit.clamp(self.base.index, self.last())
    }

    /// Leaves the entries out of which the member did not know that a majority has them.
    pub fn drop_uncommitted(&mut self) {
        let kept = self.entries.len() as u64 - self.uncommitted();
        self.entries.truncate(kept as usize);
    }

    /// The file and the byte where the log ends with a record that was not written whole, as after a
    /// crash.
    pub fn cut_off(&self) -> Option<(&Path, u64)> {
        let file = self.files.last()?;
        Some((file, self.cut_off?))
    }

    /// The requests of the entries, in order; entries without one are left out.
    pub fn requests(&self) -> impl Iterator<Item = Result<InternalRaftRequest, Error>> {
        let mut open: Option<(u32, File)> = None;
        let entries = self.entries.iter().filter(|entry| entry.is_request);
        entries.filter_map(move |place| self.request(*place, &mut open).transpose())
    }

    fn request(
        &self,
        at: PlacedEntry,
        open: &mut Option<(u32, File)>,
    ) -> Result<Option<InternalRaftRequest>, Error> {
        let path = &self.files[at.file as usize];
        let damaged = |problem: String| Error::Damaged {
            path: path.clone(),
            offset: at.place.offset,
            problem,
        };
        let body = self.body(at, open)?;
        let entry = LoggedRecord::decode(body)
            .and_then(|record| LoggedEntry::decode(record.data.unwrap_or_default()))
            .map_err(|error| damaged(format!("it has changed while it was read: {error}")))?;
        let index = entry.index;
        let request = InternalRaftRequest::read(&entry.data.unwrap_or_default());
        request.map_err(|error| damaged(format!("entry {index}: {error}")))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a file that an operator names, and that no simulated disk has"
    )]
    fn body(&self, at: PlacedEntry, open: &mut Option<(u32, File)>) -> Result<Bytes, Error> {
        let path = &self.files[at.file as usize];
        let disk = |source| Error::Disk {
            path: path.clone(),
            source,
        };
        let file = match open.take() {
            Some((number, file)) if number == at.file => file,
            _ => File::open(path).map_err(disk)?,
        };
        let mut body = vec![0; at.place.bytes as usize];
        file.read_exact_at(&mut body, at.place.offset)
            .map_err(disk)?;
        *open = Some((at.file, file));
        Ok(body.into())
    }
}

/// The files of a log, in their order.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let disk = |source| Error::Disk {
        path: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(disk)? {
        let path = entry.map_err(disk)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(number) = name.and_then(number_of) {
            files.push((number, path));
        }
    }
    files.sort();
    for pair in files.windows(2) {
        let [(one, before), (other, next)] = pair else {
            unreachable!("windows of two")
        };
        if one + 1 != *other {
            return Err(Error::MissingFile {
                before: before.clone(),
                next: next.clone(),
            });
        }
    }
    match files.is_empty() {
        true => Err(Error::NoFile(directory.to_owned())),
        false => Ok(files.into_iter().map(|(_, path)| path).collect()),
    }
}

/// The number of a file `NUMBER-INDEX.wal`, both of 16 hexadecimal digits.
fn number_of(name: &str) -> Option<u64> {
    let (number, index) = name.strip_suffix(".wal")?.split_once('-')?;
    let parsed = |text: &str| {
        let is_hexadecimal = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        u64::from_str_radix(text, 16)
            .ok()
            .filter(|_| is_hexadecimal)
    };
    parsed(index)?;
    parsed(number).filter(|number| *number < u64::MAX)
}
