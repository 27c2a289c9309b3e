//! The alert rules and the board: valid, and about metrics that exist.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use yaml_rust2::Yaml;

use crate::expressions::{check, check_selectors};
use crate::kubernetes::StatefulCluster;
use crate::manifest::{one, path, read, text};
use crate::scraped::Scraped;

pub const RULES: &str = "monitoring/inkstone.rules.yml";
const RULES_TEST: &str = "monitoring/inkstone.rules.test.yml";
const BOARD: &str = "monitoring/inkstone-dashboard.json";
const PAGE: &str = "../docs/use/monitoring.md";

/// Columns of a board.
const COLUMNS: u64 = 24;

/// Metrics of three members with TLS after one request of each kind. Some rows exist only
/// after the first request, or only with other members.
static SCRAPED: LazyLock<Scraped> = LazyLock::new(|| {
    let cluster = StatefulCluster::start();
    requests_of_each_kind(&cluster);
    let mut scraped = Scraped::default();
    for (instance, page) in cluster.metrics() {
        scraped.add(&instance, &page);
    }
    scraped
});

/// One request of each kind that has rows of its own.
pub fn requests_of_each_kind(cluster: &StatefulCluster) {
    for words in [
        &["put", "k", "v"][..],
        &["get", "k"],
        &["del", "k"],
        &["lease", "grant", "60"],
    ] {
        cluster.etcdctl(words);
    }
    transact(cluster);
}

/// The expressions of all panels, with values in place of the board's variables.
pub fn expressions_of_panels() -> Vec<String> {
    let board = board();
    let targets = panels(&board).iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| without_variables(target["expr"].as_str().unwrap()));
    expressions.collect()
}

/// A transaction without conditions, as `etcdctl` reads it.
fn transact(cluster: &StatefulCluster) {
    let mut command: Command = cluster.command("etcdctl", &["txn"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"\nput k v\n\n\n").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// All rules: those that alert.
fn rules() -> Vec<Yaml> {
    let file = one(RULES);
    let groups = file["groups"].as_vec().unwrap();
    let rules = groups.iter().flat_map(|it| it["rules"].as_vec().unwrap());
    rules.cloned().collect()
}

fn board() -> Value {
    serde_json::from_str(&read(BOARD)).unwrap()
}

fn panels(board: &Value) -> &Vec<Value> {
    board["panels"].as_array().unwrap()
}

/// The expression with values in place of the board's variables.
fn without_variables(expression: &str) -> String {
    expression
        .replace("$__rate_interval", "5m")
        .replace("$__interval", "5m")
        .replace("\"$job\"", "\"inkstone\"")
        .replace("\"$instance\"", "\".+\"")
}

/// The words that stand between `open` and `close`.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| Some(part.split_once(close)?.0.trim()))
}

#[test]
fn every_rule_asks_for_metrics_and_labels_that_exist() {
    for rule in rules() {
        let labels = check(&SCRAPED, &text(&rule["expr"])).unwrap().unwrap();
        let summary = text(&rule["annotations"]["summary"]);
        for word in between(&summary, "$labels.", '}') {
            let label = word.split(' ').next().unwrap();
            assert!(labels.contains(label), "{summary}: {label} in {labels:?}");
        }
    }
}

#[test]
fn every_panel_asks_for_metrics_and_labels_that_exist() {
    let board = board();
    let mut asked = 0;
    for panel in panels(&board) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = without_variables(target["expr"].as_str().unwrap());
            let labels = check(&SCRAPED, &expression).unwrap().unwrap();
            let legend = target["legendFormat"].as_str().unwrap();
            for label in between(legend, "{{", '}') {
                assert!(labels.contains(label), "{expression}: {legend}");
            }
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked} expressions");
    for note in board["annotations"]["list"].as_array().unwrap() {
        let expression = without_variables(note["expr"].as_str().unwrap());
        check(&SCRAPED, &expression).unwrap();
    }
}

#[test]
fn the_choices_of_the_board_come_from_labels_that_exist() {
    let board = board();
    let variables = board["templating"]["list"].as_array().unwrap();
    let mut names: Vec<&str> = Vec::new();
    for variable in variables {
        names.push(variable["name"].as_str().unwrap());
        let Some(query) = variable["query"]["query"].as_str() else {
            continue;
        };
        let query = without_variables(query);
        let inside = query.strip_prefix("label_values(").unwrap();
        let (series, label) = inside.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
        let labels = check(&SCRAPED, series).unwrap().unwrap();
        assert!(labels.contains(label), "{query}");
    }
    assert_eq!(names, ["datasource", "job", "instance"]);
}

#[test]
fn panels_have_numbers_of_their_own_and_do_not_overlap() {
    let board = board();
    let (mut numbers, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&board) {
        let title = panel["title"].as_str().unwrap();
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{title}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= COLUMNS, "{title}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} covers another panel");
            }
        }
    }
}

#[test]
fn every_alert_has_a_name_of_its_own_and_a_row_on_the_page() {
    let page = read(PAGE);
    let mut names = BTreeSet::new();
    for rule in rules() {
        let name = text(&rule["alert"]);
        let severity = text(&rule["labels"]["severity"]);
        assert!(["info", "warning", "critical"].contains(&&*severity));
        let row = format!("| `{name}` | {severity} |");
        assert!(page.contains(&row), "{PAGE} has no row `{row}`");
        assert!(names.insert(name));
    }
    let named = between(&page, "| `Inkstone", '`');
    for name in named.map(|it| format!("Inkstone{it}")) {
        assert!(names.contains(&name), "{PAGE}: there is no alert {name}");
    }
}

/// The page says the same.
#[test]
fn all_of_etcd_s_mixin_but_one_alert_finds_its_metrics() {
    let lines = include_str!("mixin.txt").lines();
    let mut refused = Vec::new();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (name, expression) = line.split_once(' ').unwrap();
        if let Err(complaint) = check_selectors(&SCRAPED, expression) {
            refused.push((name, complaint));
        }
    }
    // etcd measures it with `--metrics=extensive` alone, too.
    let complaint = "there is no metric grpc_server_handling_seconds_bucket".to_owned();
    assert_eq!(refused, [("etcdGRPCRequestsSlow", complaint)]);
}

#[test]
fn every_metric_that_the_page_names_exists() {
    let page = read(PAGE);
    let names = SCRAPED.names();
    let quoted = page.split('`').skip(1).step_by(2);
    let metrics = quoted.filter(|it| {
        let prefixes = ["inkstone_", "etcd_", "grpc_", "process_"];
        prefixes.iter().any(|prefix| it.starts_with(prefix))
    });
    let metrics: Vec<&str> = metrics.map(|it| it.split('{').next().unwrap()).collect();
    assert!(metrics.len() > 5, "{metrics:?}");
    for metric in metrics {
        assert!(names.contains(metric), "{PAGE}: there is no {metric}");
    }
}

#[test]
fn alerts_fire_when_prometheus_reads_what_they_are_for() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: promtool is not on this machine");
    }
    for words in [
        ["check", "rules", "--lint-fatal", RULES].as_slice(),
        &["test", "rules", RULES_TEST],
    ] {
        let (file, flags) = words.split_last().unwrap();
        let output = Command::new("promtool")
            .args(flags)
            .arg(path(file))
            .output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}{complaint}");
    }
}
