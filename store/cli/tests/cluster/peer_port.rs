//! Sends bytes to a member's peer port, as a program that is no member could.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::three::Three;

pub const URGENT: u8 = 1;
pub const BULK: u8 = 2;

/// Verdict on a sender that the member does not know.
pub const STRANGER: u8 = 8;

/// Verdict on a sender without the secret that the member has.
pub const SECRET: u8 = 9;

/// Kinds of frames.
pub const RAFT: u8 = 1;
pub const COMMAND: u8 = 4;

/// Kinds of Raft's messages.
pub const APPEND: u8 = 3;
pub const HEARTBEAT: u8 = 8;
pub const TRANSFER_LEADER: u8 = 13;

/// The ids of a cluster.
pub struct Ids {
    pub cluster: u64,
    /// By number of the member.
    pub members: [u64; 3],
}

impl Ids {
    pub async fn of(three: &Three) -> Ids {
        let mut ids = Ids {
            cluster: 0,
            members: [0; 3],
        };
        for number in 0..3 {
            let header = three.status(number).await.unwrap().header.unwrap();
            ids.cluster = header.cluster_id;
            ids.members[number] = header.member_id;
        }
        ids
    }
}

/// Ends a greeting with its checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn hello(ids: &Ids, sender: u64, to: usize, lane: u8) -> Vec<u8> {
    let mut bytes = b"INKPEERS\x01\x00\x00\x01\x00\x00\x00\x00".to_vec();
    bytes[10] = lane;
    for id in [ids.cluster, sender, ids.members[to]] {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes.push(b'x');
    sealed(bytes)
}

/// Sends a hello to a member with the id `sender`; returns the connection and the member's
/// verdict.
pub fn enter(three: &Three, ids: &Ids, sender: u64, to: usize, lane: u8) -> (TcpStream, u8) {
    let url = three.peer_url(to);
    let mut socket = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    socket.write_all(&hello(ids, sender, to, lane)).unwrap();
    let mut head = [0; 40];
    socket.read_exact(&mut head).unwrap();
    let texts = usize::from(head[11]) + usize::from(u16::from_le_bytes([head[12], head[13]]));
    let mut rest = vec![0; texts + 4];
    socket.read_exact(&mut rest).unwrap();
    (socket, head[10])
}

pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    let crc = crc_fast::crc32_iscsi(&bytes);
    [&crc.to_le_bytes()[..], &bytes].concat()
}

/// One of Raft's messages without entries.
pub fn raft(kind: u8, from: u64, to: u64, term: u64) -> Vec<u8> {
    let mut payload = vec![0; 88];
    payload[0] = kind;
    for (at, word) in [(8, to), (16, from), (24, term)] {
        payload[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    frame(RAFT, &payload)
}

/// A put as another member forwards it.
pub fn put(key: &str, value: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    for (tag, bytes) in [(0x0a, key.as_bytes()), (0x12, value)] {
        request.push(tag);
        let mut length = bytes.len();
        while length >= 0x80 {
            request.push(length as u8 | 0x80);
            length >>= 7;
        }
        request.push(length as u8);
        request.extend_from_slice(bytes);
    }
    let mut payload = 77_u64.to_le_bytes().to_vec();
    payload.push(1);
    payload.extend_from_slice(&request);
    frame(COMMAND, &payload)
}

/// The first half of a frame of the largest size.
pub fn half_frame() -> Vec<u8> {
    const LARGEST_BYTES: usize = 65 << 20;
    let mut bytes = frame(COMMAND, &vec![1; LARGEST_BYTES / 2]);
    bytes[4..8].copy_from_slice(&(LARGEST_BYTES as u32).to_le_bytes());
    bytes
}

/// Writes as much as the other side accepts.
pub fn write(socket: &mut TcpStream, bytes: &[u8]) {
    // The other side may have closed the connection, which is a valid answer.
    let _ = socket.write_all(bytes);
}

/// Waits until the other side closes the connection.
pub fn wait_for_the_end(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "still open"),
    }
}
