//! Pictures to share.

use lab::record::Record;
use lab::report::quantity::{THROUGHPUT, with_key};
use lab::report::share::render;

use crate::{fixture, golden, repository};

#[test]
fn picture_of_a_comparison_matches_the_golden_file() {
    let record = fixture::comparison();
    golden("share.svg", &render(&record, THROUGHPUT, &[]).unwrap());
}

#[test]
fn a_picture_has_the_origin_of_its_numbers_and_both_styles() {
    let picture = render(&fixture::comparison(), THROUGHPUT, &[]).unwrap();
    for part in [
        "AMD EPYC, 2 cores",
        "2026-11-21, commit 1a2b3c4d5e6f",
        "6 runs of each side",
    ] {
        assert!(picture.contains(part), "{part}");
    }
    assert!(picture.contains("prefers-color-scheme: dark"));
    let namespace = "http://www.w3.org/2000/svg";
    assert_eq!(
        picture.matches("http").count(),
        picture.matches(namespace).count()
    );
    assert!(!picture.contains("url(") && !picture.contains("@import"));
}

#[test]
fn every_kind_of_record_with_few_rows_has_a_picture() {
    for (name, record) in fixture::all() {
        if name == "map" {
            let error = render(&record, THROUGHPUT, &[]).unwrap_err().to_string();
            assert!(
                error.contains("31 rows are too many") && error.contains("--row"),
                "{error}"
            );
            continue;
        }
        let picture = render(&record, THROUGHPUT, &[]).unwrap();
        assert!(
            !picture.contains("NaN") && !picture.contains("inf\""),
            "{name}"
        );
        let (open, closed) = (
            picture.matches("<text").count(),
            picture.matches("</text>").count(),
        );
        assert!(open > 5 && open == closed, "{name}");
    }
}

#[test]
fn only_the_named_rows_are_shown() {
    let record = fixture::comparison();
    let rows = ["durable put, 16 clients".to_owned()];
    let picture = render(&record, with_key("server-cpu").unwrap(), &rows).unwrap();
    assert!(picture.contains("durable put, 16 clients") && picture.contains("less is better"));
    assert!(!picture.contains("durable put, 100 clients"));
}

#[test]
fn a_record_without_runs_has_no_picture() {
    let mut record = fixture::comparison();
    record.runs.clear();
    let error = render(&record, THROUGHPUT, &[]).unwrap_err().to_string();
    assert_eq!(error, "the record has no run");
}

#[test]
fn an_incomplete_record_says_so_in_its_picture() {
    let picture = render(&fixture::search(), THROUGHPUT, &[]).unwrap();
    assert!(picture.contains("Incomplete: it was interrupted."));
}

#[test]
fn markup_and_control_characters_in_names_are_escaped() {
    let mut record = fixture::inconclusive();
    record.title = "</title><script>\u{1}".to_owned();
    for run in &mut record.runs {
        run.cell.name = "<b>\u{8}&".to_owned();
        run.target.product = "\"><script>".to_owned();
    }
    let picture = render(&record, THROUGHPUT, &[]).unwrap();
    assert!(!picture.contains("<script") && !picture.contains("<b>"));
    assert!(!picture.contains(['\u{1}', '\u{8}']));
}

/// The pictures in the repository agree with the records beside them.
#[test]
fn pictures_of_this_repository_agree_with_their_records() {
    let mut seen = 0;
    for entry in std::fs::read_dir(repository().join("lab/records")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(known) = std::fs::read_to_string(folder.join("share.svg")) else {
            continue;
        };
        let record = Record::load(&folder).unwrap();
        let made = render(&record, THROUGHPUT, &[]).unwrap();
        let shown = folder.display();
        assert!(
            made == known,
            "make it again with `inkstone-lab share {shown}`"
        );
        seen += 1;
    }
    assert!(seen > 0);
}
