//! The verbs as commands.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::fixture;

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inkstone-lab"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder_with(record: &lab::record::Record, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(name)).unwrap();
    record
        .save(&folder.path().join(name).join("run.json.gz"))
        .unwrap();
    folder
}

#[test]
fn report_makes_every_file_from_the_record_alone_and_repeatably() {
    let folder = folder_with(&fixture::comparison(), "put");
    let output = lab(folder.path(), &["report", "put"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors_of(&output));
    let page = || std::fs::read(folder.path().join("put/report.html")).unwrap();
    let first = page();
    lab(folder.path(), &["report", "put"]);
    assert!(first == page());
    assert!(folder.path().join("put/summary.md").exists());
    assert!(folder.path().join("put/runs.csv").exists());
}

#[test]
fn pack_compresses_a_record_of_an_earlier_lab_and_removes_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("put");
    std::fs::create_dir(&record).unwrap();
    let text = serde_json::to_string(&fixture::comparison()).unwrap();
    std::fs::write(record.join("run.json"), text).unwrap();
    let names = || -> BTreeSet<String> {
        let entries = std::fs::read_dir(&record).unwrap();
        let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
        entries.map(|entry| name(entry.unwrap())).collect()
    };
    lab(folder.path(), &["report", "put"]);
    assert!(names().contains("report.html"));
    let summary = || std::fs::read_to_string(record.join("summary.md")).unwrap();
    let before = summary();
    let output = lab(folder.path(), &["pack", "--digits", "2", "put"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors_of(&output));
    let kept = ["run.json.gz", "runs.csv", "summary.md"].map(str::to_owned);
    assert_eq!(names(), BTreeSet::from(kept));
    assert_eq!(summary(), before, "the tables are of the full latencies");
    let again = lab(folder.path(), &["report", "put"]);
    assert_eq!(again.status.code(), Some(0), "{}", errors_of(&again));
}

#[test]
fn report_has_the_exit_code_of_the_record() {
    let folder = folder_with(&fixture::regression(), "put");
    assert_eq!(
        lab(folder.path(), &["report", "put"]).status.code(),
        Some(3)
    );
    let folder = folder_with(&fixture::inconclusive(), "put");
    assert_eq!(
        lab(folder.path(), &["report", "put"]).status.code(),
        Some(4)
    );
    let compared = lab(folder.path(), &["compare", "put", "put/run.json.gz"]);
    assert_eq!(compared.status.code(), Some(4), "{}", errors_of(&compared));
}

#[test]
fn damaged_foreign_and_missing_records_are_named() {
    let folder = folder_with(&fixture::noise_record(), "good");
    let path = folder.path().join("good/run.json.gz");
    let text = serde_json::to_string(&fixture::noise_record()).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let output = lab(folder.path(), &["report", "good"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors_of(&output).contains("good/run.json.gz: this is no record"),
        "{}",
        errors_of(&output)
    );
    std::fs::write(&path, "{\"name\": \"a package\"}").unwrap();
    let output = lab(folder.path(), &["compare", "good", "good"]);
    assert!(
        errors_of(&output).contains("missing field"),
        "{}",
        errors_of(&output)
    );
    let output = lab(folder.path(), &["report", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors_of(&output).contains("nowhere: not a folder"),
        "{}",
        errors_of(&output)
    );
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let output = lab(folder.path(), &["report", "empty"]);
    assert!(
        errors_of(&output).contains("empty/run.json.gz"),
        "{}",
        errors_of(&output)
    );
}

#[test]
fn export_reverses_import() {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("../heatmap_csv/result.csv");
    std::fs::write(folder.path().join("result.csv"), text).unwrap();
    let output = lab(folder.path(), &["import", "result.csv", "--out", "record"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors_of(&output));
    let output = lab(folder.path(), &["export", "record"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    let output = lab(folder.path(), &["export", "record", "--out", "again.csv"]);
    assert_eq!(output.status.code(), Some(0));
    let again = std::fs::read_to_string(folder.path().join("again.csv")).unwrap();
    assert_eq!(again, text);
    std::fs::write(folder.path().join("bad.csv"), [0xff, 0xfe, 0]).unwrap();
    let output = lab(folder.path(), &["import", "bad.csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors_of(&output).contains("bad.csv: it is no text"),
        "{}",
        errors_of(&output)
    );
}

#[test]
fn readme_checks_without_writing() {
    let folder = folder_with(&fixture::comparison(), "put");
    let marker = "<!-- lab: put -->\n<!-- lab end -->\n";
    let page = folder.path().join("README.md");
    std::fs::write(&page, marker).unwrap();
    let check = || lab(folder.path(), &["readme", "--records", ".", "--check"]);
    assert_eq!(check().status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), marker);
    assert!(
        lab(folder.path(), &["readme", "--records", "."])
            .status
            .success()
    );
    assert_eq!(check().status.code(), Some(0));
}

#[test]
fn share_writes_a_picture_beside_the_record_or_where_it_is_asked_to() {
    let folder = folder_with(&fixture::comparison(), "put");
    let output = lab(folder.path(), &["share", "put"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors_of(&output));
    let beside = std::fs::read(folder.path().join("put/share.svg")).unwrap();
    lab(
        folder.path(),
        &["share", "put/run.json.gz", "--out", "a.svg"],
    );
    assert_eq!(std::fs::read(folder.path().join("a.svg")).unwrap(), beside);
    let output = lab(folder.path(), &["share", "put", "--column", "speed"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("no column `speed`"));
    let output = lab(folder.path(), &["share", "put", "--row", "get"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = errors_of(&output);
    assert!(errors.contains("put: there is no row `get`"), "{errors}");
}

#[test]
fn index_writes_a_page_and_on_request_the_pages_that_it_links() {
    let folder = folder_with(&fixture::comparison(), "put");
    let page = || std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    let output = lab(folder.path(), &["index", "."]);
    assert_eq!(output.status.code(), Some(0), "{}", errors_of(&output));
    assert!(!page().contains("put/report.html"));
    lab(folder.path(), &["index", ".", "--pages"]);
    assert!(page().contains("put/report.html") && folder.path().join("put/report.html").exists());
    let output = lab(folder.path(), &["index", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("nowhere: "));
}

#[test]
fn index_names_a_damaged_record_and_shows_the_others() {
    let folder = folder_with(&fixture::comparison(), "put");
    std::fs::create_dir(folder.path().join("bad")).unwrap();
    std::fs::write(folder.path().join("bad/run.json.gz"), "{").unwrap();
    let output = lab(folder.path(), &["index", "."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors_of(&output).contains("bad/run.json.gz: this is no record"));
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(page.contains("inkstone against etcd: durable put"));
    assert!(page.contains("bad/run.json.gz: this is no record"));
}

#[test]
fn index_replaces_its_own_page_and_no_other() {
    let folder = folder_with(&fixture::comparison(), "put");
    let index = folder.path().join("index.html");
    std::fs::write(&index, "a page of mine").unwrap();
    let refused = lab(folder.path(), &["index", "."]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors_of(&refused).contains("is no page of `inkstone-lab index`"));
    assert_eq!(std::fs::read_to_string(&index).unwrap(), "a page of mine");
    std::fs::remove_file(&index).unwrap();
    for _ in 0..2 {
        let made = lab(folder.path(), &["index", "."]);
        assert_eq!(made.status.code(), Some(0), "{}", errors_of(&made));
    }
}

#[test]
fn a_picture_of_a_quantity_that_no_run_has_is_refused() {
    let mut record = fixture::comparison();
    record.runs.iter_mut().for_each(|run| run.device = None);
    let folder = folder_with(&record, "put");
    let refused = lab(folder.path(), &["share", "put", "--column", "flushes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", errors_of(&refused));
    assert!(errors_of(&refused).contains("no run has a value for `flushes`"));
    assert!(!folder.path().join("put/share.svg").exists());
}
