//! The server's metrics.
//!
//! Counters are plain atomics with relaxed order: a scrape may see a call
//! counted and its bytes not yet, which no graph can show. Numbers that the engine and
//! the node count themselves are read at the scrape ([`gather`]), not
//! kept twice.

mod absent;
mod checks;
mod evaluation;
mod figures;
mod gather;
mod grpc;
mod histogram;
mod labelled;
mod peer_times;
mod peers;
mod process;
mod text;
mod times;
mod versions;

use std::sync::atomic::{AtomicU64, Ordering};

use etcd_api::etcdserverpb::TxnResponse;
use etcd_api::etcdserverpb::response_op::Response as Done;

pub(crate) use checks::CheckMetrics;
pub(crate) use evaluation::EvaluationMetrics;
pub(crate) use figures::{load_figures, process_figures, round_trips, store_figures};
pub(crate) use gather::exposition;
pub(crate) use grpc::GrpcMetrics;
pub(crate) use histogram::Histogram;
pub(crate) use times::Times;
pub(crate) use versions::ClientVersions;

use crate::turn::LongTurns;

/// A number that goes up, and down where it is a gauge.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Subtracts a number that was added before.
    pub(crate) fn sub(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }

    /// Adds 1, and subtracts it when the returned guard is dropped.
    pub(crate) fn hold(&self) -> HeldGauge<'_> {
        self.add(1);
        HeldGauge(self)
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts 1 in a gauge until it is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct HeldGauge<'a>(&'a Counter);

impl Drop for HeldGauge<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// All numbers that the server counts itself.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Calls by method.
    pub(crate) grpc: GrpcMetrics,
    /// Calls by the version that the client says it speaks.
    pub(crate) client_versions: ClientVersions,
    pub(crate) operations: OperationMetrics,
    /// Proposals that were refused for a reason of the server.
    pub(crate) proposals_failed: Counter,
    pub(crate) watches: WatchMetrics,
    pub(crate) leases: LeaseMetrics,
    pub(crate) health: HealthMetrics,
    /// Turns of calls that held a core for too long.
    pub(crate) long_turns: LongTurns,
    /// Open connections of clients.
    pub(crate) connections: Counter,
    /// Learners that were given a vote through this member.
    pub(crate) promotions: Counter,
    /// Defragmentations under way.
    pub(crate) defragmenting: Counter,
    pub(crate) times: Times,
    pub(crate) network: NetworkMetrics,
    /// Runs of the named checks.
    pub(crate) checks: CheckMetrics,
    pub(crate) scrapes: ScrapeMetrics,
}

/// Operations on keys, those in transactions included.
#[derive(Debug, Default)]
pub(crate) struct OperationMetrics {
    pub(crate) ranges: Counter,
    puts: Counter,
    /// Bytes of keys and values put outside of transactions.
    put_bytes: Counter,
    pub(crate) deletes: Counter,
    /// Transactions of more than one operation.
    txns: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct WatchMetrics {
    /// Open streams.
    pub(crate) streams: Counter,
    /// Watches on them.
    pub(crate) live: Counter,
    /// Events sent.
    pub(crate) events: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct LeaseMetrics {
    pub(crate) granted: Counter,
    /// Leases ended by a client.
    pub(crate) revoked: Counter,
    pub(crate) renewed: Counter,
}

/// Runs of `/health`.
#[derive(Debug, Default)]
pub(crate) struct HealthMetrics {
    pub(crate) passed: Counter,
    pub(crate) failed: Counter,
}

/// Bytes from and to clients, pages included.
#[derive(Debug, Default)]
pub(crate) struct NetworkMetrics {
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct ScrapeMetrics {
    /// Scrapes answered with the metrics.
    pub(crate) answered: Counter,
    /// Scrapes without an answer, because the server was stopping.
    pub(crate) refused: Counter,
    /// Scrapes under way.
    pub(crate) under_way: Counter,
}

impl OperationMetrics {
    /// Counts a put outside of a transaction.
    pub(crate) fn count_put(&self, bytes: usize) {
        self.puts.add(1);
        self.put_bytes.add(bytes as u64);
    }

    /// Counts a transaction and its operations.
    pub(crate) fn count_txn(&self, response: &TxnResponse) {
        self.count_operations(response);
        self.txns.add(u64::from(response.responses.len() > 1));
    }

    fn count_operations(&self, response: &TxnResponse) {
        for done in &response.responses {
            match &done.response {
                Some(Done::ResponseRange(_)) => self.ranges.add(1),
                Some(Done::ResponsePut(_)) => self.puts.add(1),
                Some(Done::ResponseDeleteRange(_)) => self.deletes.add(1),
                Some(Done::ResponseTxn(nested)) => self.count_operations(nested),
                None => {}
            }
        }
    }
}

impl Metrics {
    /// Counts a refusal that the server caused, not the request.
    pub(crate) fn count_failed_proposal(&self, error: &cluster::Error) {
        use etcd_api::Error::{LeaderChanged, Timeout, TimeoutDueToLeaderFail};
        let about_request = match error {
            cluster::Error::Refused(revisions::Error::Etcd(error)) => {
                !matches!(error, LeaderChanged | Timeout | TimeoutDueToLeaderFail)
            }
            _ => false,
        };
        self.proposals_failed.add(u64::from(!about_request));
    }
}
