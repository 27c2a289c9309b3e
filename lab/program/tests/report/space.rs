//! Space on disk and memory in reports.

use lab::record::{Record, Space};
use lab::report::{page, runs_csv, terminal};

use crate::{fixture, golden};

const HEADING: &str = "Space over time";
const SLOWEST: &str = "p99.9 over time";

#[test]
fn space_over_time_is_drawn_where_runs_have_samples() {
    let page = page::render(&fixture::churn()).unwrap();
    assert_eq!(page.matches(HEADING).count(), 1);
    assert_eq!(page.matches(SLOWEST).count(), 1);
    assert!(page.contains("bytes on disk for each live byte"));
    let page = page::render(&fixture::side_by_side()).unwrap();
    assert!(!page.contains(HEADING));
}

#[test]
fn terminal_output_of_a_record_with_samples_matches_the_golden_file() {
    golden(
        "churn.txt",
        &terminal::render_within(&fixture::churn(), 400).unwrap(),
    );
}

#[test]
fn the_table_of_runs_has_space_and_memory_of_each_run() {
    let csv = runs_csv::to_csv(&fixture::churn()).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|it| it == name).unwrap();
    let mut engines = 0;
    for row in reader.records() {
        let row = row.unwrap();
        let value = |name: &str| row[column(name)].to_owned();
        if &row[column("arm")] != "engine" {
            continue;
        }
        engines += 1;
        assert_eq!(value("disk_bytes_per_live_byte"), "1.400");
        assert_eq!(value("disk_bytes_per_live_byte_peak"), "1.400");
        assert_eq!(value("anonymous_bytes_per_key"), "64.000");
        assert_eq!(value("device_bytes_read_per_user_byte"), "0.500");
    }
    assert_eq!(engines, 2);
}

#[test]
fn a_record_of_an_earlier_lab_is_read_and_has_no_samples() {
    let record = fixture::churn();
    let mut json = serde_json::to_value(&record).unwrap();
    for run in json["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("space").unwrap();
        for kind in run["load"]["kinds"].as_object_mut().unwrap().values_mut() {
            let fields = kind.as_object_mut().unwrap();
            fields.remove("user_bytes_written").unwrap();
        }
        for interval in run["load"]["series"].as_array_mut().unwrap() {
            let fields = interval.as_object_mut().unwrap();
            fields.remove("p999_us").unwrap();
        }
    }
    let read = Record::parse("earlier", &json.to_string()).unwrap();
    assert_eq!(read.runs.len(), record.runs.len());
    assert!(read.runs.iter().all(|run| run.space == Space::default()));
    let page = page::render(&read).unwrap();
    assert!(!page.contains(HEADING) && !page.contains(SLOWEST));
}
