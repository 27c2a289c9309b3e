//! Logs as etcd writes them, and logs that are damaged.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

use std::path::PathBuf;

use crc_fast::{CrcAlgorithm, Digest};
use etcd_api::etcdserverpb::PutRequest;
use etcd_wal::{Base, Error, InternalRaftRequest, Request, RequestHeader, Tail};
use prost::Message;
use tempfile::TempDir;

const METADATA: i64 = 1;
const ENTRY: i64 = 2;
const HARD_STATE: i64 = 3;
const CRC: i64 = 4;
const SNAPSHOT: i64 = 5;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, required, tag = "1")]
    kind: i64,
    #[prost(uint32, required, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(uint64, required, tag = "2")]
    term: u64,
    #[prost(uint64, required, tag = "3")]
    index: u64,
    #[prost(bytes = "vec", optional, tag = "4")]
    data: Option<Vec<u8>>,
}

/// `raftpb.HardState`, `walpb.Snapshot` or `etcdserverpb.Metadata`, by which numbers are set.
#[derive(Clone, Copy, PartialEq, Message)]
struct Numbers {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    second: u64,
    #[prost(uint64, tag = "3")]
    third: u64,
}

/// Writes a log as etcd does.
struct Log {
    folder: TempDir,
    sum: Digest,
    bytes: Vec<u8>,
    files: u64,
    member: u64,
}

impl Log {
    fn new() -> Log {
        let mut log = Log {
            folder: tempfile::tempdir().unwrap(),
            sum: Digest::new(CrcAlgorithm::Crc32Iscsi),
            bytes: Vec::new(),
            files: 0,
            member: 7,
        };
        log.begin_file();
        log
    }

    fn begin_file(&mut self) {
        let crc = u32::try_from(self.sum.finalize()).unwrap();
        self.frame(&Record {
            kind: CRC,
            crc,
            data: None,
        });
        let owner = Numbers {
            first: self.member,
            second: 9,
            third: 0,
        };
        self.record(METADATA, owner.encode_to_vec());
    }

    fn record(&mut self, kind: i64, data: Vec<u8>) {
        self.sum.update(&data);
        let crc = u32::try_from(self.sum.finalize()).unwrap();
        let data = Some(data);
        self.frame(&Record { kind, crc, data });
    }

    fn frame(&mut self, record: &Record) {
        let record = record.encode_to_vec();
        let padding = (8 - record.len() % 8) % 8;
        let mark = match padding {
            0 => 0,
            _ => (0x80 | padding as u64) << 56,
        };
        let length = record.len() as u64 | mark;
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.extend(vec![0; padding]);
    }

    fn entry(&mut self, kind: i32, index: u64, data: Option<Vec<u8>>) {
        let entry = Entry {
            kind,
            term: 2,
            index,
            data,
        };
        self.record(ENTRY, entry.encode_to_vec());
    }

    fn put(&mut self, index: u64, key: &'static str) {
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id: index,
                ..RequestHeader::default()
            }),
            request: Some(Request::Put(PutRequest {
                key: key.into(),
                ..PutRequest::default()
            })),
            ..InternalRaftRequest::default()
        };
        self.entry(0, index, Some(request.encode_to_vec()));
    }

    fn commit(&mut self, index: u64) {
        let state = Numbers {
            first: 2,
            second: 1,
            third: index,
        };
        self.record(HARD_STATE, state.encode_to_vec());
    }

    fn path(&self, file: u64) -> PathBuf {
        let name = format!("{file:016x}-{file:016x}.wal");
        self.folder.path().join(name)
    }

    /// Ends the file with zeros, as etcd reserves them.
    fn end_file(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(bytes.len() + 4096, 0);
        std::fs::write(self.path(self.files), bytes).unwrap();
        self.files += 1;
    }

    fn next_file(&mut self) {
        self.end_file();
        self.begin_file();
    }

    fn tail(&self, base: u64) -> Result<Tail, Error> {
        let base = Base {
            index: base,
            term: 2,
        };
        Tail::read(self.folder.path(), base)
    }

    /// Keys of the puts behind an entry.
    fn keys(&self, base: u64) -> Vec<String> {
        keys(&self.tail(base).unwrap())
    }
}

fn keys(tail: &Tail) -> Vec<String> {
    let key = |request: Result<InternalRaftRequest, Error>| match request.unwrap().request? {
        Request::Put(put) => Some(String::from_utf8(put.key.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    };
    tail.requests().filter_map(key).collect()
}

#[test]
fn the_requests_behind_an_entry_are_read_over_all_files() {
    let mut log = Log::new();
    log.entry(0, 1, None);
    log.put(2, "a");
    // A change of the configuration, a request of etcd 2, and a user's proof.
    log.entry(1, 3, Some(b"members".to_vec()));
    log.entry(0, 4, Some(b"\x08\x07\x12\x03PUT\x1a\x02/0".to_vec()));
    log.entry(0, 5, Some(b"\xa2\x3f\x00".to_vec()));
    log.next_file();
    log.put(6, "b");
    log.commit(6);
    log.next_file();
    log.put(7, "c");
    log.end_file();
    assert_eq!(log.keys(0), ["a", "b", "c"]);
    assert_eq!(log.keys(5), ["b", "c"]);
    assert_eq!(log.keys(7), [""; 0]);
    let mut tail = log.tail(2).unwrap();
    assert_eq!((tail.last(), tail.uncommitted(), tail.term()), (7, 1, 2));
    assert!(tail.changes_members() && !log.tail(3).unwrap().changes_members());
    assert_eq!(tail.member_id(), 7);
    tail.drop_uncommitted();
    assert_eq!((tail.last(), tail.uncommitted()), (6, 0));
    assert_eq!(keys(&tail), ["b"]);
}

#[test]
fn an_entry_of_a_new_leader_replaces_those_of_the_old_one() {
    let mut log = Log::new();
    for (index, key) in [(1, "a"), (2, "b"), (3, "c"), (2, "d")] {
        log.put(index, key);
    }
    log.end_file();
    assert_eq!(log.keys(0), ["a", "d"]);
}

#[test]
fn a_log_that_does_not_continue_the_database_file_is_refused() {
    let mut log = Log::new();
    log.put(5, "a");
    log.end_file();
    assert_eq!(log.keys(4), ["a"]);
    assert_eq!(log.keys(9), [""; 0], "the file may be ahead");
    let error = log.tail(3).unwrap_err().to_string();
    assert!(error.contains("entry 5 follows entry 3"), "{error}");

    // Entries of a leader that was cut off, and then the snapshot of its successor.
    let mut log = Log::new();
    log.put(8, "a");
    log.put(9, "b");
    let mark = Numbers {
        first: 9,
        second: 2,
        third: 0,
    };
    log.record(SNAPSHOT, mark.encode_to_vec());
    log.commit(8);
    log.end_file();
    assert_eq!(log.keys(7), ["a", "b"], "a mark that does not count yet");
    log.begin_file();
    log.commit(9);
    log.end_file();
    let error = log.tail(7).unwrap_err().to_string();
    assert!(error.contains("continues a snapshot of entry 9"), "{error}");

    let mut log = Log::new();
    log.put(1, "a");
    log.commit(2);
    log.end_file();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(error.contains("entry 2 was committed"), "{error}");
}

#[test]
fn a_log_of_another_server_is_refused() {
    let mut log = Log::new();
    log.put(1, "a");
    log.next_file();
    log.put(2, "b");
    log.end_file();
    let of_another_term = Base { index: 1, term: 3 };
    let error = Tail::read(log.folder.path(), of_another_term).unwrap_err();
    assert!(error.to_string().contains("different servers"), "{error}");
    let without_term = Base { index: 1, term: 0 };
    Tail::read(log.folder.path(), without_term).unwrap();
    log.member = 8;
    log.begin_file();
    log.end_file();
    let error = log.tail(1).unwrap_err().to_string();
    assert!(
        error.contains("belongs to member 8 of cluster 9"),
        "{error}"
    );
}

#[test]
fn a_request_of_a_later_release_is_refused() {
    let mut log = Log::new();
    log.entry(0, 1, Some(b"\xfa\x7f\x00".to_vec()));
    log.end_file();
    let tail = log.tail(0).unwrap();
    let error = tail.requests().next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("entry 1: it is a request of a kind"),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let mut log = Log::new();
    log.put(1, "a");
    log.next_file();
    log.put(2, "b");
    log.next_file();
    log.put(3, "c");
    log.end_file();
    std::fs::remove_file(log.path(1)).unwrap();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(error.contains("a file between them is missing"), "{error}");
    // etcd removes files that it does not need any more.
    std::fs::remove_file(log.path(0)).unwrap();
    assert_eq!(log.keys(2), ["c"]);
    std::fs::remove_file(log.path(2)).unwrap();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(error.contains("no *.wal file"), "{error}");
}

/// A log of two files, and the bytes of its second one without the zeros.
fn two_files() -> (Log, Vec<u8>) {
    let mut log = Log::new();
    log.put(1, "a");
    log.next_file();
    log.put(2, "b");
    log.put(3, "c");
    let written = log.bytes.len();
    log.end_file();
    let mut bytes = std::fs::read(log.path(1)).unwrap();
    bytes.truncate(written);
    (log, bytes)
}

#[test]
fn a_log_that_ends_anywhere_has_the_entries_before() {
    let (log, bytes) = two_files();
    for cut in 0..bytes.len() {
        std::fs::write(log.path(1), &bytes[..cut]).unwrap();
        let tail = log.tail(0).unwrap();
        assert!(
            ["a", "b", "c"]
                .starts_with(&keys(&tail).iter().map(String::as_str).collect::<Vec<_>>()[..])
        );
        assert!(tail.last() < 3, "{cut}");
    }
}

#[test]
fn a_changed_byte_is_found_or_ends_the_log() {
    let (log, bytes) = two_files();
    let mut found = 0;
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        std::fs::write(log.path(1), changed).unwrap();
        match log.tail(0) {
            Ok(tail) => {
                let keys = keys(&tail);
                assert!(
                    ["a", "b", "c"]
                        .iter()
                        .zip(&keys)
                        .all(|(one, other)| one == other)
                );
                assert!(
                    tail.cut_off().is_some() || keys.len() == 3,
                    "{place}: {keys:?}"
                );
            }
            Err(error) => {
                found += 1;
                assert!(error.to_string().contains(".wal, byte "), "{error}");
            }
        }
    }
    assert!(found > bytes.len() / 2, "{found} of {}", bytes.len());
}

#[test]
fn a_record_that_was_not_written_whole_ends_the_last_file_only() {
    let mut log = Log::new();
    log.put(1, "a");
    let begin = log.bytes.len();
    log.entry(0, 2, Some(vec![b'x'; 2000]));
    // A sector inside the record that has never been written.
    let sector = begin.next_multiple_of(512);
    log.bytes[sector..sector + 512].fill(0);
    log.end_file();
    let tail = log.tail(0).unwrap();
    assert_eq!(keys(&tail), ["a"]);
    let (file, offset) = tail.cut_off().unwrap();
    assert_eq!((file, offset), (&*log.path(0), begin as u64));
    log.begin_file();
    log.end_file();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(
        error.contains(&format!("byte {begin}: a record with the checksum")),
        "{error}"
    );
    let file = std::fs::File::options().write(true).open(log.path(0));
    file.unwrap().set_len(200).unwrap();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(error.contains("another file follows"), "{error}");
}

#[test]
fn a_record_that_is_too_large_is_refused() {
    let log = Log::new();
    let file = std::fs::File::create(log.path(0)).unwrap();
    file.set_len(1 << 40).unwrap();
    let length = (1_u64 << 39).to_le_bytes();
    std::os::unix::fs::FileExt::write_all_at(&file, &length, 0).unwrap();
    let error = log.tail(0).unwrap_err().to_string();
    assert!(error.contains("are the most that are read"), "{error}");
}
