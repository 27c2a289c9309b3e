//! One client: what it asks next, and when.
//!
//! The client knows no target and no clock: whoever drives it tells it the time
//! and does what it says. So the same code is driven by threads, by tasks and
//! by tests with a time of their own.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::Plan;
use crate::record::Kind;
use crate::verify::Acknowledged;
use crate::workload::{Draw, Stamp, mixed};

/// When the next operation is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// As soon as the client is ready: a closed loop.
    Now,
    /// Then, in nanoseconds since the origin; perhaps long ago.
    At(u64),
    /// Never: the run is over.
    Over,
}

/// Draws operations and remembers what it was promised.
#[derive(Debug)]
pub struct Client {
    plan: Arc<Plan>,
    random: Xoshiro256PlusPlus,
    draw: Draw,
    number: u32,
    writes: u64,
    /// What is asked next.
    pub kind: Kind,
    /// Of the next operation.
    pub key: Vec<u8>,
    /// Of the next put.
    pub value: Vec<u8>,
    key_number: u64,
    stamp: Stamp,
    /// What it was told is written.
    pub acknowledged: Acknowledged,
}

impl Client {
    /// Number `number` of the plan's clients.
    pub fn new(plan: &Arc<Plan>, number: u32) -> Client {
        let workload = &plan.workload;
        let distribution = workload.access.distribution;
        Client {
            random: Xoshiro256PlusPlus::seed_from_u64(mixed(plan.seed ^ mixed(u64::from(number)))),
            draw: Draw::new(distribution, workload.load.keys, number, plan.clients),
            number,
            // Writes of another round are other writes.
            writes: u64::from(plan.round) << 32,
            kind: Kind::Put,
            key: Vec::with_capacity(64),
            value: Vec::with_capacity(workload.load.value.length.max() as usize),
            key_number: 0,
            stamp: Stamp::PRELOAD,
            acknowledged: Acknowledged::new(plan.clients),
            plan: Arc::clone(plan),
        }
    }

    /// When the next operation is due. In an open loop this takes one from the
    /// schedule, so that it must be done.
    pub fn due(&mut self) -> Due {
        if self.plan.is_over() {
            return Due::Over;
        }
        let Some(arrivals) = &self.plan.arrivals else {
            return Due::Now;
        };
        let (_, until) = self.plan.measured();
        match arrivals.at(self.plan.take_arrival()) {
            // What is due in the measured part is done, however late.
            Some(at) if at < until => Due::At(at),
            _ => Due::Over,
        }
    }

    /// Decides what is asked: `kind`, `key` and, for puts, `value`.
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

    /// Remembers how a put ended; a failed one may have happened or not.
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
    fn the_same_seed_asks_the_same() {
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
    fn kinds_come_in_their_shares() {
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
    fn an_open_loop_is_due_when_the_schedule_says_however_late_it_is() {
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
