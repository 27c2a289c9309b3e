//! The page `/metrics` of a member, of etcd as well as of Inkstone.

/// Counters of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metrics {
    pub(super) puts: f64,
    pub(super) ranges: f64,
    pub(super) txns: f64,
    pub(super) flushes: Flushes,
}

/// Flushes of the log, counted by their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flushes {
    seconds: f64,
    count: f64,
    /// Upper bounds in seconds, and the number of flushes that took at most that; ascending.
    buckets: Vec<(f64, f64)>,
}

const FLUSH: &str = "etcd_disk_wal_fsync_duration_seconds";

impl Metrics {
    /// Reads the page; counters that it lacks are 0.
    pub(super) fn parse(page: &str) -> Metrics {
        let mut metrics = Metrics::default();
        for line in page.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else {
                continue;
            };
            match name {
                "etcd_mvcc_put_total" => metrics.puts = value,
                "etcd_mvcc_range_total" => metrics.ranges = value,
                "etcd_mvcc_txn_total" => metrics.txns = value,
                _ => {
                    if let Some(rest) = name.strip_prefix(FLUSH) {
                        metrics.flushes.note(rest, value);
                    }
                }
            }
        }
        metrics
    }
}

impl Flushes {
    fn note(&mut self, rest: &str, value: f64) {
        match rest {
            "_sum" => self.seconds = value,
            "_count" => self.count = value,
            _ => {
                let bound = rest.strip_prefix("_bucket{le=\"");
                let bound = bound.and_then(|rest| rest.strip_suffix("\"}"));
                if let Some(bound) = bound.and_then(|bound| bound.parse().ok()) {
                    self.buckets.push((bound, value));
                }
            }
        }
    }

    /// The flushes since an earlier reading, or since the member's start if it has started again.
    pub(super) fn since(&self, before: &Flushes) -> Flushes {
        if self.count < before.count || self.buckets.len() != before.buckets.len() {
            return self.clone();
        }
        let buckets = self.buckets.iter().zip(&before.buckets);
        Flushes {
            seconds: self.seconds - before.seconds,
            count: self.count - before.count,
            buckets: buckets.map(|(now, then)| (now.0, now.1 - then.1)).collect(),
        }
    }

    /// The mean time in seconds, if there was a flush.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }

    /// A bound in seconds that 99 % of the flushes did not exceed, if there was one.
    pub(super) fn bound_of_most(&self) -> Option<f64> {
        let most = self.count * 0.99;
        let bucket = self.buckets.iter().find(|(_, count)| *count >= most);
        bucket.filter(|_| self.count > 0.0).map(|(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP etcd_mvcc_put_total puts
etcd_mvcc_put_total 9
etcd_mvcc_range_total 1.7e+01
etcd_mvcc_txn_total x
nonsense
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 98
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.002\"} 99
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 100
etcd_disk_wal_fsync_duration_seconds_sum 0.5
etcd_disk_wal_fsync_duration_seconds_count 100
";

    #[test]
    fn a_page_is_read_and_what_is_no_number_is_left_out() {
        let metrics = Metrics::parse(PAGE);
        assert_eq!(
            (metrics.puts, metrics.ranges, metrics.txns),
            (9.0, 17.0, 0.0)
        );
        assert_eq!(metrics.flushes.mean(), Some(0.005));
        assert_eq!(metrics.flushes.bound_of_most(), Some(0.002));
    }

    #[test]
    fn only_flushes_between_two_readings_count() {
        let before = Metrics::parse(PAGE).flushes;
        assert_eq!(before.since(&before).mean(), None);
        assert_eq!(before.since(&before).bound_of_most(), None);
        let mut after = before.clone();
        after.count += 1.0;
        after.seconds += 7.0;
        after.buckets[2].1 += 1.0;
        let between = after.since(&before);
        assert_eq!(between.mean(), Some(7.0));
        assert_eq!(between.bound_of_most(), Some(f64::INFINITY));
        assert_eq!(
            before.since(&after),
            before,
            "a member that has started again"
        );
    }
}
