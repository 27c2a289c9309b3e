//! `workloads`: lists the workloads that come with the lab, or prints one of them.

use std::path::Path;

use crate::verdict::Exit;
use crate::workload::{Workload, load, parse};

/// Name and text of files of `lab/workloads`.
macro_rules! workloads {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../workloads/", $name, ".toml")))),*]
    };
}

const ALL: [(&str, &str); 25] = workloads![
    "put",
    "get",
    "mixed",
    "range",
    "range-first",
    "open",
    "search",
    "fillrandom",
    "readrandom",
    "rw-heatmap",
    "overwrite",
    "overwrite-zipf",
    "fillseq",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "churn",
    "churn-zipf",
    "cold",
    "cold-range",
    "keys-random",
    "keys-kubernetes",
];

#[derive(clap::Args)]
pub struct Options {
    /// Print one of them, to begin a file of your own with
    name: Option<String>,
}

pub fn run(options: &Options) -> super::Outcome {
    match &options.name {
        Some(name) => {
            let text = ALL.iter().find(|(known, _)| known == name);
            let (_, text) = text.ok_or_else(|| unknown(name))?;
            print_text!("{text}");
        }
        None => {
            for (name, _) in ALL {
                print_line!("{name:15} {}", find(name)?.description);
            }
        }
    }
    Ok(Exit::Fine)
}

/// Reads a workload: one that comes with the lab, or a file.
pub fn find(name: &str) -> Result<Workload, String> {
    if let Some((name, text)) = ALL.iter().find(|(known, _)| *known == name) {
        return parse(name, text).map_err(|mistake| mistake.to_string());
    }
    let path = Path::new(name);
    match path.exists() || name.ends_with(".toml") {
        true => load(path).map_err(|mistake| mistake.to_string()),
        false => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    format!(
        "there is no workload `{name}`: give a file, or one of {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_that_comes_with_the_lab_is_valid_and_described() {
        for (name, _) in ALL {
            let workload = find(name).unwrap();
            assert_eq!(workload.name, name);
            assert!(!workload.description.is_empty());
        }
    }

    #[test]
    fn the_mixes_of_ycsb_are_those_of_its_core_workloads() {
        // Reads, updates, inserts, scans, reads with an update.
        let published = [
            ("ycsb-a", [0.5, 0.5, 0.0, 0.0, 0.0], "zipf:0.99"),
            ("ycsb-b", [0.95, 0.05, 0.0, 0.0, 0.0], "zipf:0.99"),
            ("ycsb-c", [1.0, 0.0, 0.0, 0.0, 0.0], "zipf:0.99"),
            ("ycsb-d", [0.95, 0.0, 0.05, 0.0, 0.0], "latest"),
            ("ycsb-e", [0.0, 0.0, 0.05, 0.95, 0.0], "zipf:0.99"),
            ("ycsb-f", [0.5, 0.0, 0.0, 0.0, 0.5], "zipf:0.99"),
        ];
        for (name, shares, distribution) in published {
            let Workload { mix, access, .. } = find(name).unwrap();
            let found = [
                mix.get,
                mix.put,
                mix.insert,
                mix.range.share,
                mix.read_modify_write,
            ];
            assert_eq!(found, shares, "{name}");
            assert_eq!(access.distribution.to_string(), distribution, "{name}");
        }
    }

    #[test]
    fn data_of_cold_workloads_are_three_times_their_memory_or_more() {
        for name in ["cold", "cold-range"] {
            let Workload { load, memory, .. } = find(name).unwrap();
            let entry_bytes = load.key_bytes_mean() + load.value.length.mean();
            let limit = memory.limit.unwrap().0 as f64;
            assert!(load.keys as f64 * entry_bytes >= 3.0 * limit, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = find("putt").unwrap_err();
        assert!(
            error.contains("`putt`") && error.contains("put, get"),
            "{error}"
        );
        assert!(
            find("nowhere.toml")
                .unwrap_err()
                .starts_with("nowhere.toml: ")
        );
    }
}
