//! The simulated network: messages under way between the members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cluster::PeerMessage;
use environment::randomness::Random;

use crate::Faults;
use crate::bad_memory::BadMemory;
use crate::hostile::Hostile;

/// Greatest extra delay of a late message.
const LATE_MILLISECONDS_MAX: u64 = 300;

/// An encoded message under way.
#[derive(Clone, Debug)]
struct Packet {
    from: u64,
    to: u64,
    kind: u8,
    bytes: Bytes,
}

/// The network between the members.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Packets by time of arrival, and a number that makes keys unique.
    under_way: BTreeMap<(Duration, u64), Packet>,
    sent: u64,
    /// Cut roads, as sender and receiver.
    cut: BTreeSet<(u64, u64)>,
    /// The hostile peer, which sees all messages.
    pub hostile: Hostile,
    /// The member with bad memory, which flips bits of its messages.
    pub bad_memory: BadMemory,
}

impl Network {
    /// Sends a message, which the faults may drop, double, delay or alter.
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
            // The checksum detects it, so the connection ends and loses its messages.
            self.under_way
                .retain(|_, packet| (packet.from, packet.to) != (from, to));
            return;
        }
        let copies = 1 + u64::from(random.chance(faults.double_permille, 1000));
        for _ in 0..copies {
            let mut delay = Duration::from_micros(50 + random.below(500));
            if random.chance(faults.late_permille, 1000) {
                delay += Duration::from_millis(random.below(LATE_MILLISECONDS_MAX));
            }
            self.sent += 1;
            self.under_way
                .insert((now + delay, self.sent), packet.clone());
        }
    }

    /// Takes the messages that have arrived by now: sender, receiver, message.
    pub fn arrived(&mut self, now: Duration) -> Vec<(u64, u64, PeerMessage)> {
        let later = self.under_way.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.under_way, later);
        due.into_values()
            .filter(|packet| !self.cut.contains(&(packet.from, packet.to)))
            .map(|packet| {
                let message = PeerMessage::decode(packet.kind, packet.bytes);
                let message = message.expect("every sent packet decodes");
                (packet.from, packet.to, message)
            })
            .collect()
    }

    /// Delays all packets that arrive for `to` before `until`: they arrive a little after it,
    /// because the member is paused.
    pub fn hold(&mut self, to: u64, until: Duration, random: &mut Random) {
        let is_held = |_: &_, packet: &mut Packet| packet.to == to;
        let held = self.under_way.extract_if(..(until, 0), is_held);
        let held: Vec<Packet> = held.map(|(_, packet)| packet).collect();
        for packet in held {
            self.sent += 1;
            let at = until + Duration::from_micros(random.below(8000));
            self.under_way.insert((at, self.sent), packet);
        }
    }

    /// Time at which the next message arrives.
    pub fn next_arrival(&self) -> Option<Duration> {
        self.under_way.keys().next().map(|&(at, _)| at)
    }

    /// Whether the road between two members is open in this direction.
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

    /// Opens all roads.
    pub fn heal(&mut self) {
        self.cut.clear();
    }
}
