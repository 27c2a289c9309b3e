//! One client: draws its operations and the times at which they are due.
//!
//! A client performs no I/O and reads no clock. Its driver asks for the next operation,
//! sends it to the target and reports the times. Threads (embedded targets), tasks (servers)
//! and tests with simulated time drive the same code.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{OperationResult, Plan, Recorder};
use crate::record::Kind;
use crate::verify::ClientWrites;
use crate::workload::{Draw, Stamp, mixed};

/// The time at which the next operation is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At once: a closed loop.
    Now,
    /// At this time of an open loop, in nanoseconds since the origin; it may have passed.
    At(u64),
    /// The run is over; there is no next operation.
    Over,
}

/// Draws operations, and remembers the writes that the target has acknowledged.
#[derive(Debug)]
pub struct Client {
    plan: Arc<Plan>,
    random: Xoshiro256PlusPlus,
    draw: Draw,
    number: u32,
    writes: u64,
    /// Kind of the next operation.
    pub kind: Kind,
    /// Key of the next operation.
    pub key: Vec<u8>,
    /// Value of the next operation that writes.
    pub value: Vec<u8>,
    /// Greatest number of keys of the next range; 0 means all.
    pub limit: u64,
    key_number: u64,
    /// Whether the operation inserts its key.
    is_insert: bool,
    stamp: Stamp,
    /// Operations that count: those that succeeded in the measured part.
    pub operations: u64,
    /// Writes of this client, with their outcome.
    pub acknowledged: ClientWrites,
}

impl Client {
    /// Client `number` (from 0) of the plan.
    pub fn new(plan: &Arc<Plan>, number: u32) -> Client {
        let workload = &plan.workload;
        let distribution = workload.access.distribution;
        let draw = Draw::new(distribution, workload.load.keys, number, plan.clients);
        Client {
            random: Xoshiro256PlusPlus::seed_from_u64(mixed(plan.seed ^ mixed(u64::from(number)))),
            draw: match workload.load.preload {
                true => draw,
                false => draw.of_nothing(),
            },
            number,
            // Writes of different rounds have different numbers.
            writes: u64::from(plan.round) << 32,
            kind: Kind::Put,
            key: Vec::with_capacity(64),
            value: Vec::with_capacity(workload.load.value.length.max() as usize),
            limit: workload.mix.range.limit,
            key_number: 0,
            is_insert: false,
            stamp: Stamp::PRELOAD,
            operations: 0,
            acknowledged: ClientWrites::new(plan.clients),
            plan: Arc::clone(plan),
        }
    }

    /// Returns when the next operation is due. In an open loop the call takes the operation
    /// from the common schedule, so the caller must perform it.
    pub fn due(&mut self) -> Due {
        if self.plan.is_over() {
            return Due::Over;
        }
        let Some(arrivals) = &self.plan.arrivals else {
            return Due::Now;
        };
        let (_, until) = self.plan.measured();
        match arrivals.at(self.plan.take_arrival()) {
            // Operations that are due in the measured part are performed, however late.
            Some(at) if at < until => Due::At(at),
            _ => Due::Over,
        }
    }

    /// Draws the next operation: sets `kind` and `key`, for writes `value`, and for ranges
    /// `limit`.
    pub fn draw(&mut self) {
        let (kind, is_insert) = self.draw_kind();
        (self.kind, self.is_insert) = (kind, is_insert);
        self.key_number = match kind {
            Kind::Put if is_insert => self.draw.to_insert(),
            Kind::Put => self.draw.to_write(&mut self.random),
            Kind::Get => self.draw_get(),
            Kind::Range => self.draw_range(),
            Kind::ReadModifyWrite => self.draw.to_read(&mut self.random),
        };
        self.plan.keys.write(self.key_number, &mut self.key);
        if kind.writes() {
            self.stamp = Stamp::of(self.number, self.writes);
            self.writes += 1;
            self.plan
                .values
                .write(self.key_number, self.stamp, &mut self.value);
        }
    }

    /// The kind of the next operation, and whether it inserts a key.
    fn draw_kind(&mut self) -> (Kind, bool) {
        let mix = &self.plan.workload.mix;
        let shares = [
            (mix.put, (Kind::Put, false)),
            (mix.range.share, (Kind::Range, false)),
            (mix.insert, (Kind::Put, true)),
            (mix.read_modify_write, (Kind::ReadModifyWrite, false)),
        ];
        let choice: f64 = self.random.random();
        let mut end = 0.0;
        let drawn = shares.into_iter().find(|(share, _)| {
            end += share;
            choice < end
        });
        drawn.map_or((Kind::Get, false), |(_, kind)| kind)
    }

    fn draw_range(&mut self) -> u64 {
        let range = &self.plan.workload.mix.range;
        if range.limit_min > 0 {
            self.limit = self.random.random_range(range.limit_min..=range.limit);
        }
        match range.from_start {
            true => 0,
            false => self.draw.to_read(&mut self.random),
        }
    }

    fn draw_get(&mut self) -> u64 {
        let missing = self.plan.workload.access.missing;
        match missing > 0.0 && self.random.random::<f64>() < missing {
            true => self.draw.missing(&mut self.random),
            false => self.draw.to_read(&mut self.random),
        }
    }

    /// Records the answer to the operation.
    pub fn ended(
        &mut self,
        recorder: &mut Recorder,
        due: Due,
        (begun, ended): (u64, u64),
        answer: &OperationResult,
    ) {
        if self.kind.writes() {
            self.put_ended(begun, ended, answer.failure.is_none());
        }
        if self.is_insert && answer.failure.is_none() {
            recorder.note_insert();
        }
        let due = match due {
            Due::At(at) => at,
            Due::Now | Due::Over => begun,
        };
        self.operations += u64::from(recorder.note(self.kind, due, begun, ended, answer));
    }

    /// Records the outcome of a put. A failed one may or may not have been written.
    pub fn put_ended(&mut self, begun_ns: u64, ended_ns: u64, succeeded: bool) {
        let ended_ns = if succeeded { ended_ns } else { super::NEVER };
        self.acknowledged
            .note(self.key_number, self.stamp, begun_ns, ended_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Arrivals;
    use crate::workload::{Process, Workload, parse};

    fn workload(text: &str) -> Workload {
        parse("test", &format!("name = \"test\"\n{text}")).unwrap()
    }

    fn client(text: &str, seed: u64, arrivals: Option<Arrivals>) -> Client {
        let plan = Arc::new(Plan::new(&workload(text), seed, arrivals));
        Client::new(&plan, 0)
    }

    #[test]
    fn equal_seeds_draw_equal_operations() {
        let mix = "[mix]\nget = 0.5\nput = 0.5\n";
        let ask = |seed| {
            let mut client = client(mix, seed, None);
            let mut asked = Vec::new();
            for _ in 0..50 {
                client.draw();
                asked.push((client.kind, client.key.clone(), client.value.clone()));
            }
            asked
        };
        assert_eq!(ask(1), ask(1));
        assert_ne!(ask(1), ask(2));
    }

    #[test]
    fn kinds_are_drawn_in_their_shares() {
        let mix = "[mix]\nget = 0.4\nput = 0.3\nrange = { share = 0.2, limit = 10 }\n\
                   read_modify_write = 0.1\n";
        let mut client = client(mix, 1, None);
        let mut counts = [0_u32; Kind::ALL.len()];
        for _ in 0..10_000 {
            client.draw();
            counts[client.kind as usize] += 1;
        }
        let expected = [4000.0, 3000.0, 2000.0, 1000.0];
        for (count, expected) in counts.iter().zip(expected) {
            assert!((f64::from(*count) - expected).abs() < 200.0, "{counts:?}");
        }
    }

    #[test]
    fn inserts_have_their_share_and_a_new_key_each_time() {
        let mut client = client("[mix]\nget = 0.9\nput = 0.0\ninsert = 0.1\n", 1, None);
        let mut inserted = Vec::new();
        for _ in 0..10_000 {
            client.draw();
            match client.kind {
                Kind::Put => inserted.push(client.key_number),
                _ => assert!(client.key_number < 100_000, "an existing key is read"),
            }
        }
        let count = inserted.len() as u64;
        assert!(count.abs_diff(1000) < 150, "{count}");
        assert_eq!(inserted, (100_000..100_000 + count).collect::<Vec<u64>>());
    }

    #[test]
    fn without_a_preload_inserts_begin_at_the_first_key() {
        let text = "[load]\npreload = false\n[mix]\nput = 0.0\ninsert = 1.0\n";
        let mut client = client(text, 1, None);
        for number in 0..100 {
            client.draw();
            assert_eq!((client.kind, client.key_number), (Kind::Put, number));
        }
    }

    #[test]
    fn limits_of_ranges_are_drawn_from_the_least_to_the_greatest() {
        let range = |range: &str| {
            let text = format!("[mix]\nput = 0.0\nrange = {{ share = 1.0, {range} }}\n");
            let mut client = client(&text, 1, None);
            let mut limits = std::collections::BTreeSet::new();
            for _ in 0..1000 {
                client.draw();
                limits.insert(client.limit);
            }
            limits.into_iter().collect::<Vec<u64>>()
        };
        assert_eq!(range("limit = 5, limit_min = 2"), [2, 3, 4, 5]);
        assert_eq!(range("limit = 5"), [5]);
    }

    #[test]
    fn an_open_loop_keeps_its_schedule_however_late_it_is() {
        let arrivals = Arrivals::new(Process::Uniform, 1000.0, 1.0, 1).unwrap();
        let mut client = client("", 1, Some(arrivals));
        assert_eq!(client.due(), Due::At(0));
        assert_eq!(client.due(), Due::At(1_000_000));
        client.plan.end();
        assert_eq!(client.due(), Due::Over);
    }

    #[test]
    fn a_closed_loop_is_due_at_once() {
        let mut client = client("", 1, None);
        assert_eq!(client.due(), Due::Now);
    }
}
