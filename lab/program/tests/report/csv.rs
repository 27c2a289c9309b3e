//! Conversion of etcd's rw-heatmap CSV to records and back.

use lab::heatmap_csv::{RwHeatmap, parse, to_csv};
use lab::record::Record;
use lab::report::etcd_csv::{from_map, to_map};
use lab::report::{markdown, page};

use crate::fixture;

const RESULT: &str = include_str!("../heatmap_csv/result.csv");

fn through_a_record(text: &str) -> String {
    let map = parse("result.csv", text).unwrap();
    let record = from_map("result.csv", &map, "etcd").unwrap();
    let stored = serde_json::to_string(&record).unwrap();
    let record = Record::parse("run.json", &stored).unwrap();
    to_csv(&to_map(&record, None).unwrap())
}

#[test]
fn an_imported_file_is_exported_byte_for_byte() {
    assert_eq!(through_a_record(RESULT), RESULT);
}

/// The shape of what etcd publishes: eight ratios, seven sizes, seven numbers of
/// connections, five iterations, in the order and with the formats of the script.
#[test]
fn a_file_of_the_full_size_is_exported_byte_for_byte() {
    let mut text = String::from(
        "type,ratio,conn_size,value_size,iter1,iter2,iter3,iter4,iter5,comment\n\
         PARAM,,,,,,,,,\"key_size=256,key_space_size=65536,backend_size=21474836480,\
         range_limit=100,commit=7d4a9b2\"\n",
    );
    let ratios = [
        ".0078", ".1250", ".2500", ".5000", "2.0000", "4.0000", "8.0000", "128.0000",
    ];
    for (at, ratio) in ratios.into_iter().enumerate() {
        for value in 8..=14 {
            for connections in 5..=11 {
                let (value, connections) = (1 << value, 1 << connections);
                text.push_str(&format!("DATA,{ratio},{connections},{value}"));
                for iteration in 0..5 {
                    let rate = f64::from(at as i32 * 7919 + value + connections * 3 + iteration);
                    text.push_str(&format!(",{:.4}:{:.4}", rate * 1.0007, rate * 0.3333));
                }
                text.push_str(",\n");
            }
        }
    }
    assert_eq!(through_a_record(&text), text);
}

#[test]
fn an_imported_file_is_shown_and_its_failures_are_named() {
    let map = parse("result.csv", RESULT).unwrap();
    let record = from_map("result.csv", &map, "etcd").unwrap();
    let text = markdown::render(&record).unwrap();
    assert!(text.contains("imported from etcd's rw-heatmap"));
    assert!(text.contains("failed: the file has 0:0"));
    let page = page::render(&record).unwrap();
    assert!(page.contains("busy neighbour, see log") && page.contains("4 reads for each write"));
}

#[test]
fn a_duplicate_cell_is_refused() {
    let row = "DATA,4.0000,32,256,1.0:2.0,\n";
    let text = format!("type,ratio,conn_size,value_size,iter1,comment\n{row}{row}");
    let map = parse("x.csv", &text).unwrap();
    let error = from_map("x.csv", &map, "etcd").unwrap_err().to_string();
    assert!(
        error.starts_with("x.csv: two rows are the cell `R/W 4, 256 B"),
        "{error}"
    );
}

#[test]
fn a_file_without_cells_and_one_with_impossible_ones_are_refused() {
    let header = "type,ratio,conn_size,value_size,iter1,comment\n";
    let map = parse("x.csv", header).unwrap();
    let error = from_map("x.csv", &map, "etcd").unwrap_err().to_string();
    assert!(error.contains("no DATA row"), "{error}");
    let text = format!("{header}DATA,4.0000,99999999999,256,1.0:2.0,\n");
    let map = parse("x.csv", &text).unwrap();
    let error = from_map("x.csv", &map, "etcd").unwrap_err().to_string();
    assert!(error.contains("conn_size is `99999999999`"), "{error}");
}

#[test]
fn a_side_of_a_comparison_is_chosen_by_name() {
    let record = fixture::map();
    let error = to_map(&record, None).unwrap_err().to_string();
    assert!(error.contains("--side with one of A, A', B"), "{error}");
    let error = to_map(&record, Some("C")).unwrap_err().to_string();
    assert!(error.contains("no side `C`"), "{error}");
    let map = to_map(&record, Some("B")).unwrap();
    assert_eq!(map.cells.len(), 31);
    let again = parse("b.csv", &to_csv(&map)).unwrap();
    let rates = |map: &RwHeatmap| -> Vec<f64> {
        let iterations = map.cells[0].iterations.iter();
        iterations.map(|it| it.reads + it.writes).collect()
    };
    let (ours, theirs) = (rates(&map), rates(&again));
    assert!((ours[0] - theirs[0]).abs() < 1e-3);
    assert!(map.parameters.contains("commit=1a2b3c4d5e6f"));
}

#[test]
fn a_record_without_a_map_is_not_exported() {
    let error = to_map(&fixture::comparison(), Some("A"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`ab` is no map"), "{error}");
}
