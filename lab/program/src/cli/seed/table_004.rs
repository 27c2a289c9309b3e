//! Seed 004: large values by many threads, beside a plain file in the same run, which shows
//! the speed of the device and the page cache.

use std::collections::BTreeSet;

use super::{Options, points, rows, targets_or};
use crate::cli::finish::Measurement;
use crate::cli::run::side_by_side;

const FILE: &str = "file";

/// Table 004, as published or honest.
pub fn table(options: &Options) -> Result<Measurement, String> {
    let targets = targets_or(options, &["engine", FILE])?;
    let beside = match targets.iter().any(|target| target.name == FILE) {
        true => ", beside a plain file",
        false => "",
    };
    let rows = rows(
        options,
        include_str!("../../../../workloads/table-004.toml"),
    );
    let points = points(options, rows)?;
    let threads: BTreeSet<u32> = points.iter().map(|point| point.cell.clients).collect();
    let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
    let title = format!("4 KiB values by {} threads{beside}", threads.join(", "));
    Ok(options.measurement(title, points, side_by_side(&targets)?, 3))
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    #[test]
    fn a_title_says_how_many_threads_there_are() {
        let title = |words: &[&str]| table(&options(words)).unwrap().title;
        assert!(title(&["004"]).contains("by 64 threads"));
        assert!(title(&["004", "--clients", "1,4"]).contains("by 1, 4 threads"));
    }

    #[test]
    fn targets_of_004_can_be_replaced() {
        let table = table(&options(&["004", "--targets", "engine,null"])).unwrap();
        assert_eq!(table.arms[1].name, "null");
        assert!(table.title.ends_with("by 64 threads"));
    }

    #[test]
    fn the_honest_rows_of_004_are_durable() {
        let level = |words: &[&str]| {
            let table = table(&options(words)).unwrap();
            table.points[0].workload.durability.level
        };
        assert_eq!(level(&["004"]), crate::workload::DurabilityLevel::Durable);
        assert_eq!(
            level(&["004", "--as-published"]),
            crate::workload::DurabilityLevel::Os
        );
    }
}
