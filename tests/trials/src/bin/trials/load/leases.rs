//! Clients with leases: granted, with keys, renewed through any member,
//! revoked or left to expire.

use std::{sync::Arc, time::Duration};

use environment::randomness::Random;
use history::Request;

use super::{call::Caller, member::Member, recorder::Recorder, values};
use crate::process::Outcome;

const SECONDS_MIN: u64 = 2;
const SECONDS_SPREAD: u64 = 4;
const KEYS_MAX: u64 = 3;

struct Holder {
    number: u32,
    random: Random,
    caller: Caller,
    recorder: Arc<Recorder>,
    counter: u64,
}

/// Uses one lease after the other, until the end.
pub async fn work(
    number: u32,
    members: Vec<Arc<Member>>,
    recorder: Arc<Recorder>,
    seed: u64,
) -> Outcome {
    let mut holder = Holder {
        number,
        random: Random::from_seed(seed),
        caller: Caller::new(number, &members, &recorder),
        recorder,
        counter: 0,
    };
    while !holder.recorder.has_ended() {
        holder.live().await;
        holder.rest(200).await;
    }
    Ok(())
}

impl Holder {
    async fn live(&mut self) {
        self.counter += 1;
        let lease = (i64::from(self.number) << 32) + self.counter as i64;
        let seconds = (SECONDS_MIN + self.random.below(SECONDS_SPREAD)) as i64;
        self.call(Request::Grant { lease, seconds }).await;
        for number in 0..=self.random.below(KEYS_MAX) {
            self.counter += 1;
            let bytes = values::mostly_small(&mut self.random);
            let put = Request::Put {
                key: format!("l/{lease:016x}/{number}"),
                value: values::name(self.number, self.counter, bytes),
                lease,
                previous: false,
            };
            self.call(put).await;
        }
        match self.random.below(4) {
            0 => {
                self.rest(1_000).await;
                self.call(Request::Revoke { lease }).await;
            }
            1 => self.rest(seconds.unsigned_abs() * 1_500).await,
            _ => self.renew(lease, seconds.unsigned_abs()).await,
        }
        self.call(Request::Get {
            key: format!("l/{lease:016x}/"),
            end: format!("l/{lease:016x}0"),
            revision: 0,
            serializable: false,
        })
        .await;
    }

    /// Renews the lease in time for a while, then perhaps too late.
    async fn renew(&mut self, lease: i64, seconds: u64) {
        for _ in 0..1 + self.random.below(8) {
            self.rest(seconds * 500).await;
            self.call(Request::Renew { lease }).await;
        }
        self.rest(seconds * 2_000).await;
        self.call(Request::Renew { lease }).await;
    }

    async fn call(&mut self, request: Request) {
        let patience = Duration::from_millis(500 + self.random.below(2_500));
        self.caller.call(request, patience, &mut self.random).await;
    }

    /// Sleeps for up to `milliseconds`, but not long past the end.
    async fn rest(&mut self, milliseconds: u64) {
        let mut left = self.random.below(milliseconds.max(1));
        while left > 0 && !self.recorder.has_ended() {
            let step = left.min(50);
            tokio::time::sleep(Duration::from_millis(step)).await;
            left -= step;
        }
    }
}
