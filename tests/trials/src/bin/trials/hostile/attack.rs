//! Attackers: the bytes that they send to the peer ports.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use environment::randomness::Random;

use super::stub::Stub;
use super::{Counts, Ids};
use trials::attack::{bytes_of, mutate};
use trials::peer_wire::{self as wire, COMMAND, RAFT, WELCOME};

/// Most frames of one connection.
const FRAMES_MAX: u64 = 200;
/// Pause between two connections, which leaves a part of the processor to the load.
const PAUSE: Duration = Duration::from_millis(2);
/// Most half-sent frames at the same time.
const HALVES_MAX: usize = 20;
/// A frame of the largest size that is received.
const LARGE_BYTES: u32 = 65 << 20;
/// Bytes of a large frame that are sent.
const HALF_BYTES: usize = 32 << 20;

/// A member's peer port.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: String,
    pub cluster: u64,
    pub member: u64,
}

/// The attacker of one thread.
pub struct Attacker {
    random: Random,
    ids: Ids,
    targets: Vec<Target>,
    stub: Stub,
    halves: Vec<TcpStream>,
}

impl Attacker {
    pub fn new(seed: u64, ids: Ids, targets: &[Target], stub: &Stub) -> Attacker {
        Attacker {
            random: Random::from_seed(seed),
            ids,
            targets: targets.to_vec(),
            stub: stub.clone(),
            halves: Vec::new(),
        }
    }

    /// Attacks until the end of the scene.
    pub fn attack(mut self, counts: &Counts) {
        while !counts.over.load(Ordering::Relaxed) {
            counts.connections.fetch_add(1, Ordering::Relaxed);
            let target = self.random.pick(&self.targets).clone();
            // A member may close the connection at any time.
            drop(self.visit(&target, counts));
            std::thread::sleep(PAUSE);
        }
    }

    fn visit(&mut self, target: &Target, counts: &Counts) -> io::Result<()> {
        let mut socket = wire::connect(&target.address)?;
        if self.random.chance(1, 6) {
            return self.babble(&mut socket);
        }
        let ids = wire::Ids {
            cluster: target.cluster,
            sender: self.sender(target),
            receiver: target.member,
        };
        let lane = 1 + self.random.below(5) as u8;
        let addresses = self.addresses(target);
        if !wire::enter(&mut socket, ids, lane, &addresses)? {
            // Something may be read all the same.
            let frame = self.frame(ids, counts);
            return socket.write_all(&frame);
        }
        counts.let_in.fetch_add(1, Ordering::Relaxed);
        if self.random.chance(1, 10) {
            return self.begin_frame(socket);
        }
        for _ in 0..self.random.below(FRAMES_MAX) {
            let frame = self.frame(ids, counts);
            socket.write_all(&frame)?;
        }
        Ok(())
    }

    /// The sender id for a hello.
    fn sender(&mut self, target: &Target) -> u64 {
        let own = self.stub.member();
        match (self.ids, self.random.below(3)) {
            (Ids::Strangers, _) | (Ids::All, 0) => self.random.next_u64(),
            (Ids::OwnMembers, _) | (Ids::All, 1) => own,
            (Ids::All, _) => {
                let others = self.targets.iter().filter(|it| it.member != target.member);
                let others: Vec<u64> = others.map(|it| it.member).collect();
                *self.random.pick(&others)
            }
        }
    }

    /// Addresses for a hello: none, a member's port, many, or an invalid one.
    fn addresses(&mut self, target: &Target) -> String {
        match self.random.below(5) {
            0 => "127.0.0.1:1".to_owned(),
            1 => target.address.clone(),
            2 => "127.0.0.1:1 ".repeat(80),
            3 => "\u{1b}[31m :: http://".to_owned(),
            _ => String::new(),
        }
    }

    /// Sends bytes that are not a greeting, half a greeting, or an invalid proof.
    fn babble(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let bytes = bytes_of(&mut self.random, 300);
        let beginnings: [&[u8]; 5] = [
            b"",
            b"GET / HTTP/1.1\r\n",
            b"PRI * HTTP/2.0",
            b"INKPEERS\x01\x00",
            b"INKPROOF\x01\x00",
        ];
        let beginning = *self.random.pick(&beginnings);
        socket.write_all(&[beginning, &bytes].concat())
    }

    /// Sends half of a large frame and keeps the connection open.
    fn begin_frame(&mut self, mut socket: TcpStream) -> io::Result<()> {
        if self.halves.len() >= HALVES_MAX {
            self.halves.remove(0);
        }
        let mut header = wire::frame(RAFT, 0, &[]);
        header[4..8].copy_from_slice(&LARGE_BYTES.to_le_bytes());
        let written = socket.write_all(&header);
        let piece = vec![1; 1 << 20];
        for _ in 0..HALF_BYTES / piece.len() {
            if socket.write_all(&piece).is_err() {
                break;
            }
        }
        self.halves.push(socket);
        written
    }

    fn frame(&mut self, ids: wire::Ids, counts: &Counts) -> Vec<u8> {
        counts.frames.fetch_add(1, Ordering::Relaxed);
        let captured = self.stub.frame(self.random.next_u64());
        match (self.random.below(6), captured) {
            (0, Some((kind, payload))) => wire::frame(kind, 0, &payload),
            (1, Some((kind, mut payload))) => {
                mutate(&mut payload, &mut self.random);
                wire::frame(kind, 0, &payload)
            }
            (2, _) => self.random_frame(),
            (3, _) if self.ids != Ids::OwnMembers => {
                wire::frame(COMMAND, 0, &wire::put("stolen/key", "by nothing that may"))
            }
            (4, _) => wire::frame(COMMAND, 0, &wire::put("", "a key of no bytes")),
            _ => wire::frame(RAFT, 0, &self.absurd(ids)),
        }
    }

    /// Of any kind but those that a member of any id may send, and that are carried out.
    fn random_frame(&mut self) -> Vec<u8> {
        let kind = self.random.next_u64() as u8;
        let payload = bytes_of(&mut self.random, 400);
        match kind {
            COMMAND | WELCOME => wire::frame(0, 0, &payload),
            kind => wire::frame(kind, 0, &payload),
        }
    }

    /// Raft's messages that no honest member sends.
    fn absurd(&mut self, ids: wire::Ids) -> Vec<u8> {
        let random = &mut self.random;
        let from = match random.chance(1, 4) {
            true => random.next_u64(),
            false => ids.sender,
        };
        let term = *random.pick(&[0, 1 << 45, 1 << 62, u64::MAX - 1, u64::MAX]);
        let mut words = [(); 9].map(|()| random.next_u64() >> random.below(64));
        words[..3].copy_from_slice(&[ids.receiver, from, term]);
        wire::raft(random.below(20) as u8, random.chance(1, 2), words)
    }
}
