//! A real Prometheus, where one is installed: it reads members, evaluates all rules and panels,
//! and no alert fires on a healthy cluster, neither ours nor one of etcd's mixin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{ServerProcess, page, ports, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubernetes::StatefulCluster;
use crate::manifest::{path, read};
use crate::monitoring::{RULES, expressions_of_panels, requests_of_each_kind};

/// Time limit for what Prometheus is waited for, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Pages that are read of each member. Each stands for a minute, so that an alert that waits for
/// twenty minutes has its time.
const READINGS: usize = 45;

/// Name of the cluster's job, which the rules of this project select, and those of the mixin.
const JOB: &str = "inkstone-etcd";

/// Values that are stored, one megabyte each: some alerts look at databases from 100 MB on.
const VALUES: usize = 110;

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {program} is not on this machine");
    }
    found
}

/// A Prometheus that reads the members of a cluster each second.
struct Prometheus {
    process: ServerProcess,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    fn start(members: &[String]) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [path(RULES)],
            "scrape_configs": [{
                "job_name": JOB,
                "static_configs": [{ "targets": members }],
            }],
        });
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let address = ports::free_address().unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let log = folder.path().join("prometheus.log");
        let mut process = ServerProcess::spawn(command, &log).unwrap();
        crate::running::wait_for_page(&mut process, &address, "/-/ready");
        Prometheus {
            process,
            address,
            _folder: folder,
        }
    }

    /// The data of an answer of Prometheus' API.
    fn get(&self, what: &str) -> Value {
        let page = page::get(&self.address, &format!("/api/v1/{what}")).unwrap();
        let mut answer: Value = serde_json::from_str(&page.body).unwrap();
        assert_eq!(answer["status"], "success", "{what}: {}", page.body);
        answer["data"].take()
    }

    /// Waits until `looks` finds what it looks for in the data of an answer.
    fn wait_for<T>(&mut self, what: &str, looks: impl Fn(&Value) -> Option<T>) -> T {
        let found = wait_for(what, ANSWER_MAX, || {
            self.process.check_running()?;
            Ok(looks(&self.get(what)))
        });
        found.unwrap_or_else(|error| panic!("{error}: {}", self.get(what)))
    }
}

/// The query as a part of a URL.
fn encoded(query: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    query.bytes().map(encode).collect()
}

/// Requests of each kind, a snapshot, and a request that the server refuses.
fn fail_and_succeed(cluster: &StatefulCluster) {
    requests_of_each_kind(cluster);
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.db");
    cluster.etcdctl(&["snapshot", "save", snapshot.to_str().unwrap()]);
    let mut refused = cluster.command("etcdctl", &["get", "k", "--rev=1000000"]);
    let output = refused.output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn prometheus_reads_all_members_and_evaluates_all_rules_and_panels() {
    if !is_installed("prometheus") {
        return;
    }
    let cluster = StatefulCluster::start();
    let members: Vec<String> = cluster.metrics().map(|(address, _)| address).collect();
    let mut prometheus = Prometheus::start(&members);
    prometheus.wait_for("query?query=sum(up)", |data| {
        (data["result"][0]["value"][1] == "3").then_some(())
    });
    requests_of_each_kind(&cluster);
    prometheus.wait_for("rules", |data| {
        let groups = data["groups"].as_array().unwrap();
        let mut rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap());
        let is_fine = |rule: &Value| rule["health"] == "ok";
        (groups.len() >= 3 && rules.all(is_fine)).then_some(())
    });
    for expression in expressions_of_panels() {
        let expression = expression.replace("job=\"inkstone\"", &format!("job=\"{JOB}\""));
        let query = format!("query?query={}", encoded(&expression));
        prometheus.wait_for(&query, |data| {
            let has_rows = !data["result"].as_array()?.is_empty();
            // A panel shows what has changed from one reading to the next.
            (!has_rows).then(|| fail_and_succeed(&cluster));
            has_rows.then_some(())
        });
    }
}

/// Values of each series over the readings; `None` where it was not there.
#[derive(Default)]
struct Series(BTreeMap<String, Vec<Option<f64>>>);

impl Series {
    fn note(&mut self, series: String, reading: usize, value: f64) {
        let values = self.0.entry(series).or_default();
        values.resize(reading, None);
        values.push(Some(value));
    }

    /// Adds a page of the member `instance`.
    fn add(&mut self, reading: usize, instance: &str, page: &str) {
        let target = format!("job=\"{JOB}\",instance=\"{instance}\"");
        self.note(format!("up{{{target}}}"), reading, 1.0);
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let series = match series.strip_suffix('}') {
                Some(labelled) => format!("{labelled},{target}}}"),
                None => format!("{series}{{{target}}}"),
            };
            if value.is_finite() {
                self.note(series, reading, value);
            }
        }
    }

    /// The input of `promtool test rules`.
    fn as_input(&self) -> Vec<Value> {
        let text = |value: &Option<f64>| value.map_or("_".to_owned(), |it| it.to_string());
        let input = self.0.iter().map(|(series, values)| {
            let values: Vec<String> = values.iter().map(text).collect();
            json!({ "series": series, "values": values.join(" ") })
        });
        input.collect()
    }
}

/// Reads the members of a healthy cluster while clients use it.
fn readings() -> Series {
    let cluster = StatefulCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let megabyte = folder.path().join("value");
    std::fs::write(&megabyte, vec![b'v'; 1 << 20]).unwrap();
    let mut series = Series::default();
    for reading in 0..READINGS {
        requests_of_each_kind(&cluster);
        for number in 0..VALUES.div_ceil(READINGS) {
            let mut put =
                cluster.command("etcdctl", &["put", &format!("large-{reading}-{number}")]);
            let input = std::fs::File::open(&megabyte).unwrap();
            let status = put.stdin(input).stdout(Stdio::null()).status();
            assert!(status.unwrap().success());
        }
        for (instance, page) in cluster.metrics() {
            series.add(reading, &instance, &page);
        }
    }
    series
}

/// Evaluates rules over the series; what `promtool` complains about.
fn complaints(folder: &Path, rules: &[PathBuf], alerts: &[String], series: &Series) -> String {
    let last = READINGS - 1;
    let expected = alerts.iter().flat_map(|alert| {
        [last / 2, last].map(|minute| {
            json!({ "eval_time": format!("{minute}m"), "alertname": alert, "exp_alerts": [] })
        })
    });
    let test = json!({
        "rule_files": rules,
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": series.as_input(),
            "alert_rule_test": expected.collect::<Vec<Value>>(),
        }],
    });
    let file = folder.join("healthy.test.json");
    std::fs::write(&file, test.to_string()).unwrap();
    let mut promtool = Command::new("promtool");
    let output = promtool
        .args(["test", "rules"])
        .arg(&file)
        .output()
        .unwrap();
    match output.status.success() {
        true => String::new(),
        false => format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// The alerts' names in a file of rules.
fn alerts(rules: &str) -> Vec<String> {
    let lines = rules.lines();
    let names =
        lines.filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("alert: "));
    names
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}

/// The alert rules of etcd's mixin, unchanged, where its source and Jsonnet are installed.
fn mixin(folder: &Path) -> Option<PathBuf> {
    let source = chores::etcd::mixin();
    if !source.exists() {
        eprintln!(
            "SKIPPED: etcd's mixin is not in {}; `cargo xtask etcd` gets it",
            source.display()
        );
        return None;
    }
    if !is_installed("jsonnet") {
        return None;
    }
    let program = "std.manifestYamlDoc(((import 'config.libsonnet') + \
                   (import 'alerts/alerts.libsonnet')).prometheusAlerts, quote_keys=false)";
    let mut jsonnet = Command::new("jsonnet");
    jsonnet.args(["--string", "--jpath"]).arg(&source);
    let output = jsonnet.args(["--exec", program]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let file = folder.join("mixin.rules.yml");
    std::fs::write(&file, output.stdout).unwrap();
    Some(file)
}

#[test]
fn no_alert_of_ours_or_of_etcd_s_mixin_fires_on_a_healthy_cluster() {
    if !is_installed("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut series = readings();
    let mut rules = vec![(path(RULES), alerts(&read(RULES)))];
    if let Some(file) = mixin(folder.path()) {
        let names = alerts(&std::fs::read_to_string(&file).unwrap());
        assert!(names.len() > 10, "{names:?}");
        rules.push((file, names));
    }
    for (file, names) in &rules {
        let complaints = complaints(folder.path(), std::slice::from_ref(file), names, &series);
        assert_eq!(complaints, "", "{}", file.display());
    }
    // The same readings, but two members did not answer: an alert must fire.
    let down = series
        .0
        .iter_mut()
        .filter(|(name, _)| name.starts_with("up{"));
    for (_, values) in down.take(2) {
        values.iter_mut().for_each(|value| *value = Some(0.0));
    }
    for (file, names) in &rules {
        let complaints = complaints(folder.path(), std::slice::from_ref(file), names, &series);
        assert!(complaints.contains("FAILED"), "{}", file.display());
    }
}
