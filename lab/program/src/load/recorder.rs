//! Records the answers of one thread's operations: latencies, counts, and a series in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

use super::{NEVER, Plan};
use crate::record::{Fairness, Interval, Kind, KindResult, LoadResult};
use crate::statistics::jain;

/// Number of different error texts that a run keeps.
const ERRORS_KEPT: usize = 5;

/// Outcome of one operation.
#[derive(Clone, Debug, Default)]
pub struct OperationResult {
    /// Error text of a failed operation.
    pub failure: Option<String>,
    /// The operation was a point read and found no key.
    pub not_found: bool,
    /// Number of pairs that a range returned.
    pub keys_returned: u64,
    /// Bytes of keys and values, in either direction.
    pub user_bytes: u64,
    /// Those of them that were written.
    pub user_bytes_written: u64,
}

/// Operations that one thread has finished. Only that thread writes the counters, on a cache
/// line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    /// Operations of all kinds, failed ones included.
    pub operations: AtomicU64,
    pub failed: AtomicU64,
    /// Acknowledged writes, inserts included.
    pub written: AtomicU64,
    /// Acknowledged inserts.
    pub inserted: AtomicU64,
    /// Bytes of keys and values of the acknowledged writes.
    pub user_bytes_written: AtomicU64,
}

/// Adds 1 to a counter of which the calling thread is the only writer.
fn add_one(counter: &AtomicU64) {
    add_up(counter, 1);
}

/// Adds to a counter of which the calling thread is the only writer.
fn add_up(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
}

impl OperationResult {
    /// Counts a key and the value that was written under it.
    pub fn has_written(&mut self, key: &[u8], value: &[u8]) {
        self.user_bytes_written += (key.len() + value.len()) as u64;
        self.user_bytes += (key.len() + value.len()) as u64;
    }

    /// Counts the read of a key; `value` is empty where the key was not found.
    pub fn has_read(&mut self, key: &[u8], value: &[u8], found: bool) {
        self.not_found = !found;
        self.user_bytes += (key.len() + value.len()) as u64;
    }
}

/// Records the operations of one thread, which may drive many clients.
#[derive(Debug)]
pub struct Recorder {
    plan: Arc<Plan>,
    progress: Arc<ThreadCounters>,
    recorded: Recorded,
}

/// Operations of one thread in one interval.
#[derive(Debug)]
struct IntervalCounts {
    operations: u64,
    failed: u64,
    /// Response times with one significant digit, in 2 KiB: precise enough for a line in a plot.
    times: Histogram<u32>,
    /// The longest of them, in nanoseconds.
    time_max: u64,
}

/// Longer times count as this in a series: one hour, in nanoseconds.
const SERIES_TIME_MAX: u64 = 3_600_000_000_000;

impl Default for IntervalCounts {
    fn default() -> IntervalCounts {
        let times = Histogram::new_with_max(SERIES_TIME_MAX, 1);
        IntervalCounts {
            operations: 0,
            failed: 0,
            times: times.expect("the bounds are valid"),
            time_max: 0,
        }
    }
}

/// Recorded data of one thread, ready to be merged.
#[derive(Debug, Default)]
pub struct Recorded {
    kinds: [Option<Box<KindResult>>; Kind::ALL.len()],
    series: Vec<IntervalCounts>,
    backlog_max: u64,
    errors: Vec<String>,
    /// Operations of each client that has ended.
    by_client: Vec<u64>,
}

impl IntervalCounts {
    fn percentile_us(&self, percent: f64) -> f64 {
        let time = self.times.value_at_percentile(percent);
        time.min(self.time_max) as f64 / 1e3
    }
}

impl Recorder {
    /// An empty recorder. It counts finished operations in `progress`, for the coordinator.
    pub fn new(plan: &Arc<Plan>, progress: Arc<ThreadCounters>) -> Recorder {
        Recorder {
            plan: Arc::clone(plan),
            progress,
            recorded: Recorded::default(),
        }
    }

    /// Records one operation. `due` is the time at which it should have begun; in a closed loop
    /// it equals `begun`.
    ///
    /// Returns whether the operation counts: it succeeded in the measured part.
    pub fn note(
        &mut self,
        kind: Kind,
        due: u64,
        begun: u64,
        ended: u64,
        answer: &OperationResult,
    ) -> bool {
        let failed = answer.failure.is_some();
        if let Some(failure) = &answer.failure {
            self.recorded.note_error(failure);
        }
        self.note_progress(kind, answer);
        // A closed loop counts operations that were answered in the measured part, an
        // open loop those that were due in it, so that a stall at its end shows.
        let moment = match self.plan.arrivals {
            None => ended,
            Some(_) => due,
        };
        let response = ended.saturating_sub(due);
        self.note_interval(moment, response, failed);
        if let Some(arrivals) = &self.plan.arrivals {
            // The backlog is computed only when an operation begins late; otherwise it is
            // small.
            if begun > due + self.plan.interval_ns / 1000 {
                let late = arrivals.due_before(begun);
                let backlog = late.saturating_sub(self.plan.arrivals_taken());
                self.recorded.backlog_max = self.recorded.backlog_max.max(backlog);
            }
        }
        let (from, until) = self.plan.measured();
        if moment < from || moment >= until || from == NEVER {
            return false;
        }
        let is_open = self.plan.arrivals.is_some();
        let result = self.recorded.kinds[kind as usize]
            .get_or_insert_with(|| Box::new(KindResult::of_thread(is_open)));
        if failed {
            result.failed += 1;
            return false;
        }
        result.operations += 1;
        result.not_found += u64::from(answer.not_found);
        result.keys_returned += answer.keys_returned;
        result.user_bytes += answer.user_bytes;
        result.user_bytes_written += answer.user_bytes_written;
        result.response.record(response);
        if let Some(service) = &mut result.service {
            service.record(ended - begun);
        }
        true
    }

    /// Records that one of the thread's clients has ended, and how many of its operations
    /// count.
    pub fn client_ended(&mut self, operations: u64) {
        self.recorded.by_client.push(operations);
    }

    /// The plan of the recorded operations.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn note_progress(&mut self, kind: Kind, answer: &OperationResult) {
        let progress = &self.progress;
        add_one(&progress.operations);
        if answer.failure.is_some() {
            add_one(&progress.failed);
        } else if kind.writes() {
            add_one(&progress.written);
            add_up(&progress.user_bytes_written, answer.user_bytes_written);
        }
    }

    /// Counts an acknowledged insert.
    pub fn note_insert(&mut self) {
        add_one(&self.progress.inserted);
    }

    fn note_interval(&mut self, moment: u64, response: u64, failed: bool) {
        let index = (moment / self.plan.interval_ns) as usize;
        let series = &mut self.recorded.series;
        if index >= series.len() {
            series.resize_with(index + 1, IntervalCounts::default);
        }
        let interval = &mut series[index];
        interval.operations += u64::from(!failed);
        interval.failed += u64::from(failed);
        interval.times.saturating_record(response);
        interval.time_max = interval.time_max.max(response);
    }

    /// The recorded data, in a form that other threads can take.
    pub fn into_recorded(self) -> Recorded {
        self.recorded
    }
}

impl Recorded {
    /// Keeps the first few different errors.
    fn note_error(&mut self, error: &str) {
        if self.errors.len() < ERRORS_KEPT && !self.errors.iter().any(|known| known == error) {
            self.errors.push(error.to_owned());
        }
    }

    /// Merges the data of all threads of a run.
    pub fn merge(plan: &Plan, all: Vec<Recorded>) -> LoadResult {
        let (from, until) = plan.measured();
        let mut result = LoadResult {
            seconds: (until - from) as f64 / 1e9,
            ..LoadResult::default()
        };
        let mut sum = Recorded::default();
        for recorded in all {
            sum.by_client.extend(recorded.by_client);
            for (kind, part) in Kind::ALL.into_iter().zip(recorded.kinds) {
                if let Some(part) = part {
                    add(result.kinds.entry(kind).or_default(), &part);
                }
            }
            sum.backlog_max = sum.backlog_max.max(recorded.backlog_max);
            recorded
                .errors
                .iter()
                .for_each(|error| sum.note_error(error));
            add_series(&mut sum.series, recorded.series);
        }
        result.backlog_max = sum.backlog_max;
        result.series = intervals(plan, &sum.series);
        result.fairness = fairness(&sum.by_client);
        result.errors = sum.errors;
        result
    }
}

fn fairness(by_client: &[u64]) -> Option<Fairness> {
    Some(Fairness {
        jain: jain(by_client)?,
        least: *by_client.iter().min()?,
        most: *by_client.iter().max()?,
    })
}

fn add(sum: &mut KindResult, part: &KindResult) {
    sum.operations += part.operations;
    sum.failed += part.failed;
    sum.not_found += part.not_found;
    sum.keys_returned += part.keys_returned;
    sum.user_bytes += part.user_bytes;
    sum.user_bytes_written += part.user_bytes_written;
    sum.response.add(&part.response);
    if let Some(service) = &part.service {
        sum.service.get_or_insert_default().add(service);
    }
}

fn add_series(sum: &mut Vec<IntervalCounts>, part: Vec<IntervalCounts>) {
    if part.len() > sum.len() {
        sum.resize_with(part.len(), IntervalCounts::default);
    }
    for (own, others) in sum.iter_mut().zip(part) {
        own.operations += others.operations;
        own.failed += others.failed;
        own.time_max = own.time_max.max(others.time_max);
        let added = own.times.add(others.times);
        added.expect("all intervals have the same bounds");
    }
}

/// The intervals of the series that ended before the measured part did.
fn intervals(plan: &Plan, series: &[IntervalCounts]) -> Vec<Interval> {
    let (from, until) = plan.measured();
    let length = plan.interval_ns;
    let whole = series
        .iter()
        .enumerate()
        .filter(|(index, _)| (*index as u64 + 1) * length <= until);
    whole
        .map(|(index, counts)| Interval {
            at_seconds: (index as u64 * length) as f64 / 1e9 - from as f64 / 1e9,
            seconds: length as f64 / 1e9,
            operations: counts.operations,
            failed: counts.failed,
            p50_us: counts.percentile_us(50.0),
            p99_us: counts.percentile_us(99.0),
            p999_us: counts.percentile_us(99.9),
            max_us: counts.time_max as f64 / 1e3,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Arrivals;
    use crate::workload::{Process, parse};

    const MS: u64 = 1_000_000;

    fn plan(open: bool) -> Arc<Plan> {
        let workload = parse("test", "name = \"test\"\n[time]\ninterval = \"100ms\"\n").unwrap();
        let arrivals = open.then(|| Arrivals::new(Process::Uniform, 1000.0, 10.0, 1).unwrap());
        let plan = Plan::new(&workload, 1, arrivals);
        plan.measure(0, 1000 * MS);
        Arc::new(plan)
    }

    /// One client in simulated time against a target that answers in 0.1 ms but stalls from
    /// 400 to 600 ms.
    fn stalling(plan: &Arc<Plan>) -> LoadResult {
        let mut recorder = Recorder::new(plan, Arc::default());
        let mut ready = 0;
        for operation in 0.. {
            let due = match &plan.arrivals {
                Some(arrivals) => arrivals.at(operation).unwrap(),
                // A closed loop with one operation a millisecond unless the target stalls.
                None => ready,
            };
            if due >= 1000 * MS {
                break;
            }
            let begun = due.max(ready);
            let stalled = (400 * MS..600 * MS).contains(&begun);
            let ended = if stalled { 600 * MS } else { begun + MS / 10 };
            recorder.note(Kind::Put, due, begun, ended, &OperationResult::default());
            ready = match plan.arrivals {
                Some(_) => ended,
                None => (begun + MS).max(ended),
            };
        }
        Recorded::merge(plan, vec![recorder.into_recorded()])
    }

    #[test]
    fn an_open_loop_counts_from_the_intended_start_and_shows_the_stall() {
        let result = stalling(&plan(true));
        let put = &result.kinds[&Kind::Put];
        // 200 of 1000 were due in the stall: a tenth waited 100 ms or more.
        let p90 = put.response.percentile(90.0) as f64 / MS as f64;
        assert!((90.0..115.0).contains(&p90), "{p90}");
        let served = result.service().percentile(99.0) as f64 / MS as f64;
        assert!(served < 1.0, "the service time hides it: {served}");
    }

    #[test]
    fn a_closed_loop_hides_the_stall_which_is_why_there_is_an_open_one() {
        let result = stalling(&plan(false));
        let p99 = result.kinds[&Kind::Put].response.percentile(99.0);
        assert!(p99 < MS, "{p99}");
        assert!(result.response().max() >= 199 * MS);
    }

    #[test]
    fn operations_outside_of_the_measured_part_do_not_count() {
        let plan = plan(false);
        plan.measure(100 * MS, 300 * MS);
        let mut recorder = Recorder::new(&plan, Arc::default());
        for ended in [50, 150, 250, 350] {
            let begun = (ended - 1) * MS;
            recorder.note(
                Kind::Get,
                begun,
                begun,
                ended * MS,
                &OperationResult::default(),
            );
        }
        let result = Recorded::merge(&plan, vec![recorder.into_recorded()]);
        assert_eq!(result.operations(), 2);
        assert_eq!(result.seconds, 0.2);
        let series: Vec<f64> = result.series.iter().map(|point| point.at_seconds).collect();
        assert_eq!(series.len(), 3, "{series:?}");
        assert!((series[0] + 0.1).abs() < 1e-9, "the warm-up is negative");
    }

    #[test]
    fn clients_that_get_less_show_in_the_fairness() {
        let plan = plan(false);
        let threads: [&[u64]; 2] = [&[1, 2, 3], &[2]];
        let recorded = threads.map(|moments| {
            let mut recorder = Recorder::new(&plan, Arc::default());
            let counted = moments.iter().filter(|at| {
                recorder.note(
                    Kind::Put,
                    **at,
                    **at,
                    **at + MS,
                    &OperationResult::default(),
                )
            });
            let counted = counted.count() as u64;
            recorder.client_ended(counted);
            recorder.into_recorded()
        });
        let fairness = Recorded::merge(&plan, recorded.into()).fairness.unwrap();
        assert_eq!((fairness.least, fairness.most), (1, 3));
        assert!((fairness.jain - 0.8).abs() < 1e-12);
    }

    #[test]
    fn failures_are_counted_and_have_no_latency() {
        let plan = plan(false);
        let mut recorder = Recorder::new(&plan, Arc::default());
        let failed = OperationResult {
            failure: Some("no".into()),
            ..OperationResult::default()
        };
        recorder.note(Kind::Put, 0, 0, MS, &failed);
        let result = Recorded::merge(&plan, vec![recorder.into_recorded()]);
        assert_eq!((result.operations(), result.failed()), (0, 1));
        assert_eq!(result.response().count(), 0);
    }

    #[test]
    fn percentiles_of_an_interval_are_within_an_eighth_and_its_maximum_is_exact() {
        let mut counts = IntervalCounts::default();
        assert_eq!(counts.percentile_us(99.0), 0.0);
        for time in 1..=1000 {
            counts.times.saturating_record(time * 1000);
            counts.time_max = counts.time_max.max(time * 1000);
        }
        for (percent, expected) in [(99.0, 990.0), (99.9, 999.0)] {
            let found = counts.percentile_us(percent);
            assert!((found / expected - 1.0).abs() < 0.125, "{found}");
        }
        assert_eq!(counts.percentile_us(100.0), 1000.0);
    }
}
