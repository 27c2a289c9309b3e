//! Tests that the tables keep published and measured figures apart.

use super::*;
use crate::record::{Environment, FORMAT, Outcome, Run};
use crate::worker::Job;

/// A record with one measured run for each cell.
fn record(verb: &str, cells: &[(&str, &str, u32)]) -> Record {
    let run = |(name, workload, clients): &(&str, &str, u32)| {
        let workload = crate::workload::parse("test", &format!("name = \"{workload}\"")).unwrap();
        let mut run = Run {
            arm: "engine".into(),
            outcome: Outcome::Measured,
            ..Run::of(&Job::bare(workload))
        };
        run.cell.name = (*name).to_owned();
        run.cell.clients = *clients;
        run
    };
    Record {
        format: FORMAT,
        verb: verb.into(),
        title: "a table".into(),
        command_line: Vec::new(),
        tool: String::new(),
        complete: true,
        incomplete_because: None,
        started_unix_ms: 0,
        seed: 1,
        environment: Environment::default(),
        schedule: Vec::new(),
        runs: cells.iter().map(run).collect(),
    }
}

fn all_reports(record: &Record) -> [String; 3] {
    [
        crate::report::terminal::render(record).unwrap(),
        crate::report::markdown::render(record).unwrap(),
        crate::report::page::render(record).unwrap(),
    ]
}

#[test]
fn published_figures_are_shown_on_terminal_markdown_and_page() {
    let record = record("seed 002", &[("fillrandom, 4 clients", "fillrandom", 4)]);
    for text in all_reports(&record) {
        // 127,404 is four times the published figure of one of four threads.
        for words in ["published", "127,404", "31,851", "LevelDB 1.23 on 96 cores"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn rows_without_published_figures_have_no_published_column() {
    let published = record("seed 003", &[("Buffer_2MB", "Buffer_2MB", 1)]);
    for text in all_reports(&published) {
        assert!(
            text.contains("published (M1)") && text.contains("1.54"),
            "{text}"
        );
    }
    let honest = record("seed 003", &[("1 producer, each put durable", "x", 1)]);
    for text in all_reports(&honest) {
        assert!(text.contains("Time for each put of one producer"), "{text}");
        assert!(!text.contains("published (M1)"), "{text}");
    }
}

#[test]
fn other_records_have_no_published_tables() {
    assert!(beside(&record("run", &[("put", "fillrandom", 4)])).is_none());
    assert!(beside(&record("seed 002", &[])).is_none());
}
