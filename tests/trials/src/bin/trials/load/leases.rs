//! Clients with leases: granted, with keys, renewed through any member,
//! revoked or left to expire.

use std::{sync::atomic::Ordering, time::Duration};

use history::{Operation, Request};

use crate::{caller::Caller, client, process::Outcome, values};

/// The keys of all leases begin so, and the first key behind them.
pub const RANGE: (&str, &str) = ("l/", "l0");
const SECONDS_MIN: u64 = 2;
const SECONDS_SPREAD: u64 = 4;
const KEYS_MAX: u64 = 3;

struct Holder {
    caller: Caller,
    counter: u64,
}

/// Uses one lease after the other, until the end.
pub async fn work(caller: Caller) -> Outcome {
    let mut holder = Holder { caller, counter: 0 };
    let recorder = holder.caller.recorder.clone();
    while !recorder.has_ended() {
        recorder.leases_held.fetch_add(1, Ordering::Relaxed);
        holder.live().await;
        recorder.leases_held.fetch_sub(1, Ordering::Relaxed);
        holder.rest(200).await;
    }
    Ok(())
}

impl Holder {
    async fn live(&mut self) {
        self.counter += 1;
        let client = self.caller.client;
        let lease = (i64::from(client) << 32) + self.counter as i64;
        let seconds = SECONDS_MIN + self.below(SECONDS_SPREAD);
        self.call(Request::Grant {
            lease,
            seconds: seconds as i64,
        })
        .await;
        for number in 0..=self.below(KEYS_MAX) {
            self.counter += 1;
            let bytes = values::mostly_small(&mut self.caller.random);
            let put = Request::Put {
                key: format!("l/{lease:016x}/{number}"),
                value: values::name(client, self.counter, bytes),
                lease,
                previous: false,
            };
            self.call(put).await;
        }
        match self.below(4) {
            0 => {
                self.rest(1_000).await;
                self.call(Request::Revoke { lease }).await;
            }
            1 => self.rest(seconds * 1_500).await,
            _ => self.renew(lease, seconds).await,
        }
        let (key, end) = (format!("l/{lease:016x}/"), format!("l/{lease:016x}0"));
        self.call(client::read(&key, &end, 0)).await;
    }

    /// Renews the lease in time for a while, then perhaps too late.
    async fn renew(&mut self, lease: i64, seconds: u64) {
        for _ in 0..1 + self.below(8) {
            self.rest(seconds * 500).await;
            let renewed = self.call(Request::Renew { lease }).await;
            if renewed.is_some_and(|it| it.answer().is_some_and(|it| !it.succeeded)) {
                let error = format!("lease {lease:x} was renewed in time and is gone");
                self.caller.recorder.complain("lease", error);
            }
        }
        self.rest(seconds * 2_000).await;
        self.call(Request::Renew { lease }).await;
    }

    async fn call(&mut self, request: Request) -> Option<Operation> {
        let patience = Duration::from_millis(500 + self.below(2_500));
        self.caller.call(request, patience).await
    }

    /// Rests for up to `milliseconds`.
    async fn rest(&mut self, milliseconds: u64) {
        let rest = Duration::from_millis(self.below(milliseconds));
        self.caller.recorder.rest(rest).await;
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.caller.random.below(bound)
    }
}
