//! Reading and writing files of etcd's rw-benchmark.sh.

use lab::heatmap_csv::{Iteration, parse, to_csv};

const RESULT: &str = include_str!("heatmap_csv/result.csv");

#[test]
fn a_file_of_the_script_is_written_back_byte_for_byte() {
    let map = parse("result.csv", RESULT).unwrap();
    assert_eq!(to_csv(&map), RESULT);
}

#[test]
fn cells_have_the_values_of_their_rows() {
    let map = parse("result.csv", RESULT).unwrap();
    assert!(map.parameters.ends_with("commit=7d4a9b2cc"));
    assert_eq!(map.cells.len(), 5);
    let cell = &map.cells[3];
    assert_eq!((cell.connections, cell.value_bytes), (32, 256));
    assert_eq!(cell.reads_per_write, 4.0);
    let first = Iteration {
        reads: 23_101.44,
        writes: 5_775.36,
    };
    assert_eq!(cell.iterations[0], first);
    assert_eq!(map.cells[4].comment, "busy neighbour, see log");
}

#[test]
fn failed_runs_are_distinguished() {
    let map = parse("result.csv", RESULT).unwrap();
    let cell = &map.cells[1];
    assert_eq!((cell.failures(), cell.iterations.len()), (1, 3));
}

#[test]
fn a_file_with_another_first_line_is_refused() {
    let mistake = parse("x.csv", "a,b,c\n1,2,3\n").unwrap_err().to_string();
    assert!(
        mistake.starts_with("x.csv: the first line is `a,b,c`"),
        "{mistake}"
    );
    let empty = parse("x.csv", "").unwrap_err().to_string();
    assert!(empty.contains("rw-benchmark.sh"), "{empty}");
}

#[test]
fn a_wrong_field_is_named_with_its_line() {
    let cases = [
        ("DATA,4.0000,x,256,1:2,", "conn_size is `x`"),
        ("DATA,0,32,256,1:2,", "ratio is `0`"),
        ("DATA,4.0000,32,256,12,", "iter1 is `12`"),
        ("DATA,4.0000,32,256,1:-2,", "iter1 is `1:-2`"),
        ("DATA,4.0000,32", "value_size is ``"),
        ("NOTE,4.0000,32,256,1:2,", "type is `NOTE`"),
    ];
    for (row, expected) in cases {
        let text = format!("type,ratio,conn_size,value_size,iter1,comment\n{row}\n");
        let mistake = parse("x.csv", &text).unwrap_err().to_string();
        assert!(mistake.contains("x.csv:2: "), "{mistake}");
        assert!(mistake.contains(expected), "{mistake}");
    }
}

#[test]
fn an_incomplete_map_is_filled_up_with_failures() {
    let mut map = parse("result.csv", RESULT).unwrap();
    map.cells[4].iterations.pop();
    let text = to_csv(&map);
    assert!(text.contains("1798.0800:14.0475,0:0,"), "{text}");
}
