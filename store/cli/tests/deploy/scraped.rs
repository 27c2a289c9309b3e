//! Pages `/metrics` as Prometheus would store them.

use std::collections::{BTreeMap, BTreeSet};

/// Name that a scrape gives to a cluster, as in docs/use/monitoring.md.
pub const JOB: &str = "inkstone";

/// Labels of one series and their values.
pub type Labels = BTreeMap<String, String>;

/// The series of all members.
#[derive(Debug, Default)]
pub struct Scraped {
    series: BTreeMap<String, Vec<Labels>>,
    /// Kinds by the name of the family.
    kinds: BTreeMap<String, String>,
}

impl Scraped {
    /// Adds a page, with the labels and the series `up` that Prometheus adds to each scrape.
    pub fn add(&mut self, instance: &str, page: &str) {
        let target = || Labels::from([pair("job", JOB), pair("instance", instance)]);
        self.series
            .entry("up".to_owned())
            .or_default()
            .push(target());
        for line in page.lines() {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').unwrap();
                self.kinds.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (name, mut labels) = sample(line);
                labels.extend(target());
                self.series.entry(name).or_default().push(labels);
            }
        }
    }

    /// The series of a metric.
    pub fn of(&self, name: &str) -> &[Labels] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// Names of all metrics, and of the families of histograms.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.series.keys().chain(self.kinds.keys());
        names.map(String::as_str).collect()
    }

    /// Whether a metric only grows. etcd declares some counters as gauges; their names end with
    /// `_total` all the same.
    pub fn is_counter(&self, name: &str) -> bool {
        let parts = ["_bucket", "_sum", "_count"];
        let family = parts.iter().find_map(|part| name.strip_suffix(part));
        let kind = |name: &str| self.kinds.get(name).map(String::as_str);
        kind(name) == Some("counter")
            || family.and_then(kind) == Some("histogram")
            || name.ends_with("_total")
    }
}

fn pair(label: &str, value: &str) -> (String, String) {
    (label.to_owned(), value.to_owned())
}

/// Name and labels of a line. No value of this server's labels has a quotation mark in it.
fn sample(line: &str) -> (String, Labels) {
    let (series, _) = line.rsplit_once(' ').unwrap();
    let Some((name, labels)) = series.split_once('{') else {
        return (series.to_owned(), Labels::new());
    };
    let labels = labels.strip_suffix("\"}").unwrap();
    let pairs = labels.split("\",").map(|it| it.split_once("=\"").unwrap());
    let labels = pairs.map(|(label, value)| pair(label, value)).collect();
    (name.to_owned(), labels)
}
