//! Comparison of two records that were not measured together.

use lab::record::{ARM_B, Record};
use lab::report::across::across;
use lab::verdict::Exit;

use crate::fixture;

/// The record with all operations of an arm (or of all arms) scaled by a factor.
fn scaled(mut record: Record, arm: Option<&str>, factor: f64) -> Record {
    let scaled = |run: &&mut lab::record::Run| arm.is_none_or(|arm| run.arm == arm);
    for run in record.runs.iter_mut().filter(scaled) {
        for kind in run.load.kinds.values_mut() {
            kind.operations = (kind.operations as f64 * factor) as u64;
        }
    }
    record
}

/// A record without A, so without a ratio that cancels the influence of the hour.
fn plain() -> Record {
    let mut record = fixture::regression();
    record
        .runs
        .retain(|run| run.arm != ARM_B && run.arm != "A'");
    record
}

#[test]
fn worse_better_and_inconclusive_have_different_codes() {
    let exit = |factor: f64| {
        let found = across(&plain(), &scaled(plain(), None, factor)).unwrap();
        let row = found.rows.iter().find(|row| row.decides).unwrap();
        (found.exit, row.word)
    };
    assert_eq!(exit(0.7), (Exit::Regression, "differs"));
    assert_eq!(exit(1.4), (Exit::Fine, "differs"));
    assert_eq!(exit(1.0), (Exit::Inconclusive, "inconclusive"));
}

#[test]
fn a_slower_hour_of_the_machine_is_no_regression_of_b() {
    let (old, new) = (
        fixture::regression(),
        scaled(fixture::regression(), None, 0.6),
    );
    let found = across(&old, &new).unwrap();
    let row = &found.rows[0];
    assert_eq!(
        (row.side.as_str(), row.word),
        ("B against A", "inconclusive")
    );
    assert_eq!(found.exit, Exit::Inconclusive);
    let plain = found.rows.iter().filter(|row| row.metric == "throughput");
    assert!(
        plain
            .skip(1)
            .all(|row| row.word == "differs" && !row.decides)
    );
    let worse = across(&old, &scaled(old.clone(), Some(ARM_B), 0.6)).unwrap();
    assert_eq!(worse.exit, Exit::Regression);
}

#[test]
fn records_of_another_machine_decide_nothing_and_it_is_named() {
    let mut other = scaled(plain(), None, 0.5);
    other.environment.processor = "another".to_owned();
    let found = across(&plain(), &other).unwrap();
    assert_eq!(found.exit, Exit::Inconclusive);
    assert!(found.cautions[0].contains("processor `AMD EPYC`, then `another`"));
}

#[test]
fn cells_with_other_work_are_left_out_and_no_common_cell_is_an_error() {
    let mut other = fixture::comparison();
    for run in other.runs.iter_mut().filter(|run| run.cell.clients == 16) {
        run.workload.load.keys += 1;
    }
    let found = across(&fixture::comparison(), &other).unwrap();
    let caution = "durable put, 16 clients: not the same work (load differ): left out";
    assert!(
        found.cautions.iter().any(|it| it == caution),
        "{:?}",
        found.cautions
    );
    assert!(
        found
            .rows
            .iter()
            .all(|row| !row.cell.contains("16 clients"))
    );
    let error = across(&fixture::comparison(), &fixture::map())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no cell in common"), "{error}");
}

#[test]
fn lost_data_is_an_error_independent_of_the_numbers() {
    let record = fixture::side_by_side();
    assert_eq!(across(&record, &record).unwrap().exit, Exit::Error);
}
