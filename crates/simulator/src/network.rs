//! Messages under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cluster::PeerMessage;
use environment::randomness::Random;

use crate::Faults;
use crate::bad_memory::BadMemory;
use crate::hostile::Hostile;

/// A message as it travels: encoded.
#[derive(Clone, Debug)]
struct Packet {
    from: u64,
    to: u64,
    kind: u8,
    bytes: Bytes,
}

/// Everything between the members.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// By the moment of arrival, and a number that keeps moments apart.
    under_way: BTreeMap<(Duration, u64), Packet>,
    sent: u64,
    /// Roads that carry nothing, from and to.
    cut: BTreeSet<(u64, u64)>,
    /// Sees everything, and sends what it likes.
    pub hostile: Hostile,
    /// Flips bits of what one member says.
    pub bad_memory: BadMemory,
}

impl Network {
    /// Roads that all carry; the memory of one member is bad, perhaps.
    pub fn flipping(member: Option<u64>) -> Network {
        let bad_memory = BadMemory {
            member,
            ..BadMemory::default()
        };
        Network {
            bad_memory,
            ..Network::default()
        }
    }

    /// Sends a message; what becomes of it, chance decides.
    pub fn send(
        &mut self,
        (from, to): (u64, u64),
        message: &PeerMessage,
        now: Duration,
        faults: &Faults,
        random: &mut Random,
    ) {
        let (kind, parts) = message.encode();
        let mut packet = Packet {
            from,
            to,
            kind,
            bytes: parts.concat().into(),
        };
        if faults.hostile_permille > 0 {
            self.hostile.see(packet.kind, &packet.bytes);
        }
        if self.cut.contains(&(from, to)) || random.chance(faults.drop_permille, 1000) {
            return;
        }
        if self.bad_memory.member == Some(from) && random.chance(faults.bad_memory_permille, 1000) {
            let sealed = (packet.kind, &packet.bytes);
            let Some(flipped) = self.bad_memory.flip((from, to), sealed, random) else {
                return;
            };
            (packet.kind, packet.bytes) = flipped;
        }
        if faults.flip_permille > 0 && random.chance(faults.flip_permille, 1000) {
            // The checksum shows it, and the connection ends with what is on it.
            self.under_way
                .retain(|_, packet| (packet.from, packet.to) != (from, to));
            return;
        }
        let copies = 1 + u64::from(random.chance(faults.double_permille, 1000));
        for _ in 0..copies {
            let mut delay = Duration::from_micros(50 + random.below(500));
            if random.chance(faults.late_permille, 1000) {
                delay += Duration::from_millis(random.below(faults.late_milliseconds_max));
            }
            self.sent += 1;
            self.under_way
                .insert((now + delay, self.sent), packet.clone());
        }
    }

    /// What has arrived by now: sender, receiver, message.
    pub fn arrived(&mut self, now: Duration) -> Vec<(u64, u64, PeerMessage)> {
        let later = self.under_way.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.under_way, later);
        due.into_values()
            .filter(|packet| !self.cut.contains(&(packet.from, packet.to)))
            .map(|packet| {
                let message = PeerMessage::decode(packet.kind, packet.bytes);
                let message = message.expect("what does not decode was not sent");
                (packet.from, packet.to, message)
            })
            .collect()
    }

    /// Nobody takes what arrives for `to` before `until`: it waits, and comes a
    /// little after that.
    pub fn hold(&mut self, to: u64, until: Duration, random: &mut Random) {
        let later = self.under_way.split_off(&(until, 0));
        let (held, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::replace(&mut self.under_way, later)
                .into_iter()
                .partition(|(_, packet)| packet.to == to);
        self.under_way.extend(others);
        for packet in held.into_values() {
            self.sent += 1;
            let at = until + Duration::from_micros(random.below(8000));
            self.under_way.insert((at, self.sent), packet);
        }
    }

    /// When the next message arrives.
    pub fn next_arrival(&self) -> Option<Duration> {
        self.under_way.keys().next().map(|&(at, _)| at)
    }

    /// Whether the road is not cut.
    pub fn carries(&self, from: u64, to: u64) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// Cuts the roads between the two sides, one way or both.
    pub fn cut(&mut self, here: &[u64], there: &[u64], both_ways: bool) {
        for &one in here {
            for &other in there {
                self.cut.insert((one, other));
                if both_ways {
                    self.cut.insert((other, one));
                }
            }
        }
    }

    /// All roads carry again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }
}
