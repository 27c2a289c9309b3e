//! Load on a cluster, as etcdctl's checks make it: clients that put random keys below a prefix.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, ResponseHeader,
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use crate::client::{Connection, Endpoints, prefix_end, quoted};
use crate::defrag;
use crate::failure::Failure;

/// A size of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LoadModel {
    // No doc comments here: clap would add them to the help.
    #[value(name = "s", alias = "small")]
    Small,
    #[value(name = "m", alias = "medium")]
    Medium,
    #[value(name = "l", alias = "large")]
    Large,
    #[value(name = "xl", alias = "xLarge")]
    ExtraLarge,
}

/// Flags of both checks.
#[derive(Debug, clap::Args)]
pub(super) struct CleaningWords {
    /// Compact the history when the check has ended
    #[arg(long)]
    auto_compact: bool,
    /// Defragment each endpoint when the check has ended
    #[arg(long)]
    auto_defrag: bool,
}

/// Keys below a prefix, and the connections that put them.
pub(super) struct PutLoad<'a> {
    pub(super) prefix: &'a str,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    pub(super) connections: Vec<Connection>,
}

/// When the puts begin and end.
pub(super) enum Plan {
    /// This many each second, for a time.
    Paced { per_second: f64, time: Duration },
    /// This many, as fast as they are answered.
    Counted(u64),
}

/// The result of each put.
#[derive(Default)]
pub(super) struct Results {
    /// Seconds that the answers took.
    pub(super) seconds: Vec<f64>,
    pub(super) errors: Vec<String>,
    /// Seconds from the first put to the last answer.
    pub(super) total_seconds: f64,
}

impl PutLoad<'_> {
    /// Connects the clients; an error if there are keys below the prefix already.
    pub(super) async fn begin<'a>(
        endpoints: &Endpoints,
        clients: usize,
        prefix: &'a str,
        (key_bytes, value_bytes): (usize, usize),
    ) -> Result<PutLoad<'a>, Failure> {
        let first = endpoints.any().await?;
        let below = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: prefix_end(prefix.as_bytes()),
            limit: 1,
            ..RangeRequest::default()
        };
        let send = async |request| first.kv().range(request).await;
        if !first.call(below, send).await?.kvs.is_empty() {
            let quoted = quoted(prefix.as_bytes());
            return Err(Failure::failed(
                format_args!("prefix {quoted} has keys"),
                format_args!("Delete them with: inkstone del --prefix {prefix}"),
            ));
        }
        let others = join_all((1..clients).map(|_| endpoints.any())).await;
        let connections = std::iter::once(Ok(first)).chain(others);
        Ok(PutLoad {
            prefix,
            key_bytes,
            value_bytes,
            connections: connections.collect::<Result<_, _>>()?,
        })
    }

    /// Puts keys with all clients.
    pub(super) async fn run(&self, plan: &Plan) -> Results {
        let (next, begun) = (Cell::new(0), Instant::now());
        let random = RandomState::new();
        let clients = self.connections.iter();
        let clients = clients.map(|connection| self.client(connection, plan, &next, &random));
        let mut all = Results::default();
        for results in join_all(clients).await {
            all.seconds.extend(results.seconds);
            all.errors.extend(results.errors);
        }
        all.total_seconds = begun.elapsed().as_secs_f64();
        all
    }

    async fn client(
        &self,
        connection: &Connection,
        plan: &Plan,
        next: &Cell<u64>,
        random: &RandomState,
    ) -> Results {
        let begun = Instant::now();
        let mut results = Results::default();
        loop {
            let number = next.get();
            next.set(number + 1);
            match plan {
                Plan::Counted(all) if number >= *all => return results,
                Plan::Counted(_) => {}
                Plan::Paced { per_second, time } => {
                    let at = Duration::from_secs_f64(number as f64 / per_second);
                    if at >= *time {
                        return results;
                    }
                    sleep_until(begun + at).await;
                }
            }
            let sent = RealClock.now();
            let send = async |request| connection.kv().put(request).await;
            let message = self.put(random.hash_one(number));
            match connection.call(message, send).await {
                Ok(_) => {
                    let took = RealClock.now().saturating_since(sent);
                    results.seconds.push(took.as_secs_f64());
                }
                Err(failure) => results.errors.push(failure.what()),
            }
        }
    }

    fn put(&self, number: u64) -> PutRequest {
        let mut key = Vec::with_capacity(self.prefix.len() + self.key_bytes);
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(&number.to_be_bytes());
        key.resize(self.prefix.len() + self.key_bytes, 0);
        PutRequest {
            key: key.into(),
            value: vec![0; self.value_bytes].into(),
            ..PutRequest::default()
        }
    }

    /// Deletes the keys; compacts and defragments if the flags say so.
    pub(super) async fn clean(
        &self,
        endpoints: &Endpoints,
        words: &CleaningWords,
        say: &mut impl FnMut(String) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let header = self.delete().await?;
        if words.auto_compact {
            let revision = header.map_or(0, |header| header.revision);
            say(format!("Compacting with revision {revision}"))?;
            let connection = &self.connections[0];
            let send = async |request| connection.kv().compact(request).await;
            let physical = true;
            let message = CompactionRequest { revision, physical };
            connection.call(message, send).await?;
            say(format!("Compacted with revision {revision}"))?;
        }
        for endpoint in endpoints.iter().filter(|_| words.auto_defrag) {
            let name = quoted(endpoint.name.as_bytes());
            say(format!("Defragmenting {name}"))?;
            defrag::ask(&endpoints.connect(endpoint).await?).await?;
            say(format!("Defragmented {name}"))?;
        }
        Ok(())
    }

    /// Deletes the keys below the prefix.
    pub(super) async fn delete(&self) -> Result<Option<ResponseHeader>, Failure> {
        let connection = &self.connections[0];
        let send = async |request| connection.kv().delete_range(request).await;
        let message = DeleteRangeRequest {
            key: Bytes::copy_from_slice(self.prefix.as_bytes()),
            range_end: prefix_end(self.prefix.as_bytes()),
            ..DeleteRangeRequest::default()
        };
        Ok(connection.call(message, send).await?.header)
    }
}

impl Results {
    /// Each kind of error, with its number.
    pub(super) fn error_lines(&self) -> Vec<String> {
        let mut kinds = std::collections::BTreeMap::new();
        for error in &self.errors {
            *kinds.entry(error).or_insert(0u64) += 1;
        }
        let lines = kinds.into_iter();
        let lines = lines.map(|(error, number)| format!("FAIL: ERROR({error}) -> {number}"));
        lines.collect()
    }

    /// Answers per second.
    pub(super) fn rate(&self) -> f64 {
        self.seconds.len() as f64 / self.total_seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    /// The standard deviation of the times, in seconds.
    pub(super) fn deviation(&self) -> f64 {
        let number = (self.seconds.len() as f64).max(1.0);
        let mean = self.seconds.iter().sum::<f64>() / number;
        let squares = self.seconds.iter().map(|it| (it - mean).powi(2));
        (squares.sum::<f64>() / number).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_up() {
        let results = Results {
            seconds: vec![1.0, 3.0],
            errors: ["a", "b", "a"].map(str::to_owned).to_vec(),
            total_seconds: 4.0,
        };
        assert_eq!(
            (results.rate(), results.slowest(), results.deviation()),
            (0.5, 3.0, 1.0)
        );
        let lines = ["FAIL: ERROR(a) -> 2", "FAIL: ERROR(b) -> 1"];
        assert_eq!(results.error_lines(), lines);
    }

    #[test]
    fn nothing_done_has_no_rate_and_no_deviation() {
        let results = Results::default();
        assert_eq!(
            (results.rate(), results.slowest(), results.deviation()),
            (0.0, 0.0, 0.0)
        );
    }
}
