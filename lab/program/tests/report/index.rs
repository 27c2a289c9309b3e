//! The page of all records, and trends over records.

use std::path::Path;

use lab::record::Record;
use lab::report::index::{Shelf, render};
use lab::report::quantity::THROUGHPUT;
use lab::report::trends::{Filed, Trend, trends};

use crate::{fixture, repository};

const DAY_MS: u64 = 86_400_000;

/// The comparison as measured on a day of November, with rates that are `factor` times as high.
fn on_day(day: u64, factor: f64) -> Filed {
    let mut record = fixture::comparison();
    record.environment.date = format!("2026-11-{day:02}");
    record.started_unix_ms = day * DAY_MS;
    for run in &mut record.runs {
        for kind in run.load.kinds.values_mut() {
            kind.operations = (kind.operations as f64 * factor) as u64;
        }
    }
    Filed {
        folder: format!("2026-11-{day:02}-put"),
        record,
    }
}

fn of_b<'a>(trends: &'a [Trend], cell: &str) -> &'a Trend {
    let mut found = trends
        .iter()
        .filter(|it| it.cell == cell && it.side.starts_with("B "));
    found.next().unwrap()
}

const CELL: &str = "durable put, 100 clients";

#[test]
fn a_row_of_two_records_has_a_trend_that_differs_and_is_never_faster() {
    let records = [on_day(21, 1.0), on_day(24, 1.5)];
    let trends = trends(&records, THROUGHPUT);
    assert_eq!(trends.len(), 6, "three rows of two sides");
    let trend = of_b(&trends, CELL);
    assert!(trend.sentence.starts_with("+50 % ["), "{}", trend.sentence);
    assert!(trend.sentence.ends_with("since 2026-11-21: differs."));
    assert!(trend.cautions.is_empty());
    assert!(
        trend
            .points
            .iter()
            .all(|it| it.is_alike && it.band.is_some())
    );
    let days: Vec<&str> = trend.points.iter().map(|it| it.day.as_str()).collect();
    assert_eq!(days, ["11-21", "11-24"]);
}

#[test]
fn records_of_another_machine_are_shown_and_not_compared() {
    let mut records = [on_day(21, 1.0), on_day(22, 3.0), on_day(24, 1.0)];
    records[1].record.environment.kernel = "Linux 7.0".to_owned();
    let trends = trends(&records, THROUGHPUT);
    let trend = of_b(&trends, CELL);
    let alike: Vec<bool> = trend.points.iter().map(|it| it.is_alike).collect();
    assert_eq!(alike, [true, false, true]);
    assert!(
        trend.sentence.ends_with("since 2026-11-21: inconclusive."),
        "{}",
        trend.sentence
    );
    assert_eq!(
        trend.cautions,
        ["2026-11-22: another machine (other kernel)"]
    );
}

#[test]
fn a_first_record_of_a_machine_is_compared_with_none() {
    let mut records = [on_day(21, 1.0), on_day(24, 1.0)];
    records[1].record.environment.cores = 64;
    let trends = trends(&records, THROUGHPUT);
    let sentence = &of_b(&trends, CELL).sentence;
    assert_eq!(sentence, "No earlier record is of this machine.");
}

#[test]
fn other_work_and_other_targets_are_other_rows() {
    let mut records = [on_day(21, 1.0), on_day(24, 1.0)];
    for run in &mut records[1].record.runs {
        run.workload.load.keys += 1;
    }
    assert!(trends(&records, THROUGHPUT).is_empty());
    let mut records = [on_day(21, 1.0), on_day(24, 1.0)];
    for run in &mut records[1].record.runs {
        run.target.command.push("--cert-file=a.pem".to_owned());
    }
    assert!(trends(&records, THROUGHPUT).is_empty());
    let mut records = [on_day(21, 1.0), on_day(24, 1.0)];
    for run in &mut records[1].record.runs {
        run.target.version = "9.9.9".to_owned();
        run.target.command = vec![run.target.product.clone(), "--name=two".to_owned()];
    }
    assert_eq!(trends(&records, THROUGHPUT).len(), 6);
}

#[test]
fn of_two_builds_of_one_product_the_newer_one_is_shown() {
    let mut records = [on_day(21, 1.0), on_day(24, 1.0)];
    for run in records.iter_mut().flat_map(|it| &mut it.record.runs) {
        run.target.product = "inkstone".to_owned();
        run.target.command.clear();
    }
    let trends = trends(&records, THROUGHPUT);
    let sides: Vec<&str> = trends.iter().map(|it| &it.side[..1]).collect();
    assert_eq!(sides, ["B", "B", "B"]);
    assert!(trends.iter().all(|it| it.points.len() == 2));
}

fn shelf_of(records: &[(&str, Record)]) -> (tempfile::TempDir, Shelf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, record) in records {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).unwrap();
        record.save(&own.join("run.json.gz")).unwrap();
        std::fs::write(own.join("summary.md"), "# A summary\n").unwrap();
    }
    let shelf = Shelf::read(folder.path()).unwrap();
    (folder, shelf)
}

#[test]
fn the_page_has_date_machine_commit_verdicts_and_links_the_newest_first() {
    let (folder, shelf) = shelf_of(&[
        ("newer", fixture::regression()),
        ("older", on_day(25, 1.0).record),
        ("map", fixture::map()),
        ("beside", fixture::side_by_side()),
    ]);
    let page = render(folder.path(), &shelf, THROUGHPUT).unwrap();
    for part in [
        "2026-11-25",
        "AMD EPYC, 2 cores",
        "1a2b3c4d5e6f",
        "older/summary.md",
        r#"<span class="chip worse">slower</span> durable put"#,
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("the whole map") && page.contains("side by side, without verdicts"));
    let place = |part: &str| page.find(part).unwrap();
    // Days of the fixture are numbers since 1970, so that the others are later.
    assert!(place("newer/summary.md") < place("older/summary.md"));
}

#[test]
fn a_page_of_records_loads_nothing_and_escapes_names() {
    let mut record = fixture::comparison();
    record.title = "</title><script>alert(1)</script>".to_owned();
    let (folder, shelf) = shelf_of(&[("a", record), ("b", fixture::comparison())]);
    let page = render(folder.path(), &shelf, THROUGHPUT).unwrap();
    for foreign in ["http", "<script", "src=", "@import", "<link", "NaN"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(
        page.matches("url(").count(),
        page.matches("url(#hatch)").count()
    );
    assert_eq!(page.matches("<svg").count(), 6);
}

#[test]
fn pages_without_a_record_are_listed_with_their_titles() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("2026-11-22-lab-old")).unwrap();
    write("2026-11-22-lab-old/summary.md", "# An old one\n");
    write("2026-11-24-crash.md", "# Crashes\n");
    write("2026-11-24-crash.csv", "a,b\n");
    write("README.md", "# Records\n");
    let shelf = Shelf::read(folder.path()).unwrap();
    let page = |title: &str, path: &str| (title.to_owned(), path.to_owned());
    let expected = [
        page("Crashes", "2026-11-24-crash.md"),
        page("An old one", "2026-11-22-lab-old/summary.md"),
    ];
    assert_eq!(shelf.pages, expected);
    assert!(
        render(folder.path(), &shelf, THROUGHPUT)
            .unwrap()
            .contains("Crashes")
    );
}

/// Records of all earlier labs are read, and rows that two of them have get a trend.
#[test]
fn every_record_of_this_repository_is_on_its_page() {
    let folder = repository().join("lab/records");
    let shelf = Shelf::read(Path::new(&folder)).unwrap();
    assert!(shelf.faults.is_empty(), "{:?}", shelf.faults);
    let page = render(&folder, &shelf, THROUGHPUT).unwrap();
    for filed in &shelf.records {
        assert!(page.contains(&format!("{}/summary.md", filed.folder)));
    }
    assert!(!trends(&shelf.records, THROUGHPUT).is_empty());
}
