//! The bytes of the peer port; `peers.md` among the formats is their page.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

/// Kinds of frames.
pub const RAFT: u8 = 1;
pub const COMMAND: u8 = 4;
pub const WELCOME: u8 = 15;
/// Bytes of one of Raft's messages without entries.
pub const RAFT_BYTES: usize = 88;

/// The ids of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    pub cluster: u64,
    pub sender: u64,
    pub receiver: u64,
}

/// A hello or a welcome: `what` is the lane or the answer, the texts are the release and the
/// addresses.
pub fn greeting(what: u8, ids: Ids, release: &str, addresses: &str) -> Vec<u8> {
    let mut bytes = b"INKPEERS\x01\x00".to_vec();
    bytes.extend([what, release.len() as u8, 0, 0]);
    bytes.extend((addresses.len() as u16).to_le_bytes());
    for id in [ids.cluster, ids.sender, ids.receiver] {
        bytes.extend(id.to_le_bytes());
    }
    bytes.extend([release.as_bytes(), addresses.as_bytes(), &[0; 4]].concat());
    seal(&mut bytes);
    bytes
}

/// Sets the checksum at the end of a greeting.
pub fn seal(greeting: &mut [u8]) {
    let (body, crc) = greeting.split_at_mut(greeting.len() - 4);
    crc.copy_from_slice(&crc_fast::crc32_iscsi(body).to_le_bytes());
}

/// The welcome of a listener that accepts.
pub fn welcome(cluster: u64, member: u64) -> Vec<u8> {
    let ids = Ids {
        cluster,
        sender: member,
        receiver: 0,
    };
    greeting(0, ids, "", "")
}

/// Reads a hello or a welcome, and returns the byte after the version.
pub fn read_greeting(socket: &mut TcpStream) -> io::Result<u8> {
    let mut head = [0; 40];
    socket.read_exact(&mut head)?;
    let length = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let texts = usize::from(head[11]) + length(12) + length(14);
    let mut rest = vec![0; texts + 4];
    socket.read_exact(&mut rest)?;
    Ok(head[10])
}

/// Opens a connection with a time limit on reads and writes.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends a hello with addresses. Returns whether the listener lets this side in.
pub fn enter(socket: &mut TcpStream, ids: Ids, lane: u8, addresses: &str) -> io::Result<bool> {
    socket.write_all(&greeting(lane, ids, "", addresses))?;
    Ok(read_greeting(socket)? == 0)
}

/// A frame with the right length and checksum.
pub fn frame(kind: u8, role: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[kind, role, 0, 0]);
    bytes.extend_from_slice(payload);
    let crc = crc_fast::crc32_iscsi(&bytes);
    [&crc.to_le_bytes()[..], &bytes].concat()
}

/// The kind and the payload of the next frame.
pub fn read_frame(socket: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 12];
    socket.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload)?;
    Ok((head[8], payload))
}

/// One of Raft's messages; the words follow the type, as `raft/wire.rs` lays them out.
pub fn raft(kind: u8, rejected: bool, words: [u64; 9]) -> Vec<u8> {
    let mut payload = vec![0; RAFT_BYTES];
    (payload[0], payload[1]) = (kind, u8::from(rejected));
    for (place, word) in payload[8..80].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    payload
}

/// A put of a short key, as a member forwards it.
pub fn put(key: &str, value: &str) -> Vec<u8> {
    let mut payload = 77_u64.to_le_bytes().to_vec();
    payload.push(1);
    for (tag, text) in [(0x0a, key), (0x12, value)] {
        payload.extend_from_slice(&[tag, text.len() as u8]);
        payload.extend_from_slice(text.as_bytes());
    }
    payload
}
