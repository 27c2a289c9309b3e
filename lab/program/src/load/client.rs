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
    /// Value of the next put.
    pub value: Vec<u8>,
    key_number: u64,
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
        Client {
            random: Xoshiro256PlusPlus::seed_from_u64(mixed(plan.seed ^ mixed(u64::from(number)))),
            draw: Draw::new(distribution, workload.load.keys, number, plan.clients),
            number,
            // Writes of different rounds have different numbers.
            writes: u64::from(plan.round) << 32,
            kind: Kind::Put,
            key: Vec::with_capacity(64),
            value: Vec::with_capacity(workload.load.value.length.max() as usize),
            key_number: 0,
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

    /// Draws the next operation: sets `kind`, `key` and, for puts, `value`.
    pub fn draw(&mut self) {
        let mix = &self.plan.workload.mix;
        let choice: f64 = self.random.random();
        self.kind = if choice < mix.put {
            Kind::Put
        } else if choice < mix.put + mix.range.share {
            Kind::Range
        } else {
            Kind::Get
        };
        self.key_number = match self.kind {
            Kind::Put => self.draw.to_write(&mut self.random),
            Kind::Get => self.draw_get(),
            Kind::Range if mix.range.from_start => 0,
            Kind::Range => self.draw.to_read(&mut self.random),
        };
        self.plan.keys.write(self.key_number, &mut self.key);
        if self.kind == Kind::Put {
            self.stamp = Stamp::of(self.number, self.writes);
            self.writes += 1;
            self.plan
                .values
                .write(self.key_number, self.stamp, &mut self.value);
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
        if self.kind == Kind::Put {
            self.put_ended(begun, ended, answer.failure.is_none());
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
        let mix = "[mix]\nget = 0.5\nput = 0.3\nrange = { share = 0.2, limit = 10 }\n";
        let mut client = client(mix, 1, None);
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            client.draw();
            counts[client.kind as usize] += 1;
        }
        let expected = [5000.0, 3000.0, 2000.0];
        for (count, expected) in counts.iter().zip(expected) {
            assert!((f64::from(*count) - expected).abs() < 200.0, "{counts:?}");
        }
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
