//! A crate uses only lower storeys: compares cargo's metadata with the table in `layers.txt`.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use crate::process::{Outcome, capture, cargo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storey {
    Level(u32),
    /// Uses anything, used by nothing.
    Aside,
}

/// One dependency between two crates of the workspace.
struct Edge {
    from: String,
    to: String,
    /// Only the tests of `from` use it.
    for_tests: bool,
}

/// Every crate without a storey and every edge that points up or sideways.
pub fn faults(root: &Path) -> Outcome<Vec<String>> {
    let table = parse(&std::fs::read_to_string(root.join("xtask/layers.txt"))?)?;
    let metadata = capture(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let crates = names(&metadata);
    let homeless = crates
        .iter()
        .filter(|name| !table.contains_key(*name))
        .map(|name| format!("crate {name} has no storey: add it to xtask/layers.txt"));
    let gone = table
        .keys()
        .filter(|name| !crates.contains(name))
        .map(|name| format!("xtask/layers.txt names {name}, which is no crate"));
    let crooked = edges(&metadata)
        .into_iter()
        .filter_map(|edge| judge(&table, &edge));
    Ok(homeless.chain(gone).chain(crooked).collect())
}

fn parse(table: &str) -> Outcome<BTreeMap<String, Storey>> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| match row.split_whitespace().collect::<Vec<_>>()[..] {
        [name, "aside"] => Ok((name.to_owned(), Storey::Aside)),
        [name, level] => Ok((name.to_owned(), Storey::Level(level.parse()?))),
        _ => Err(format!("xtask/layers.txt: no crate and storey in `{row}`").into()),
    })
    .collect()
}

fn names(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| text(&package["name"]))
        .collect()
}

fn edges(metadata: &Value) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Only crates of the workspace are named by a path.
            if let (Some(from), Some(to), Some(_)) = (
                text(&package["name"]),
                text(&dependency["name"]),
                text(&dependency["path"]),
            ) {
                let for_tests = dependency["kind"] == "dev";
                edges.push(Edge {
                    from,
                    to,
                    for_tests,
                });
            }
        }
    }
    edges
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn judge(table: &BTreeMap<String, Storey>, edge: &Edge) -> Option<String> {
    let (from, to) = (table.get(&edge.from)?, table.get(&edge.to)?);
    let allowed = match (from, to) {
        (_, Storey::Aside) => false,
        (Storey::Aside, _) => true,
        (Storey::Level(from), Storey::Level(to)) if edge.for_tests => to <= from,
        (Storey::Level(from), Storey::Level(to)) => to < from,
    };
    let tests = if edge.for_tests { " (its tests)" } else { "" };
    (!allowed).then(|| {
        format!(
            "{}{tests} uses {}: {from:?} may not use {to:?}",
            edge.from, edge.to
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(from: &str, to: &str, for_tests: bool) -> bool {
        let table = parse("low 0\nlow-too 0\nhigh 1\ntool aside").unwrap();
        let edge = Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            for_tests,
        };
        judge(&table, &edge).is_none()
    }

    #[test]
    fn every_crate_of_the_workspace_uses_only_lower_storeys() {
        let faults = faults(&crate::process::root()).unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn edges_up_and_sideways_are_found() {
        assert!(judged("high", "low", false));
        assert!(!judged("low", "high", false));
        assert!(!judged("low", "low-too", false));
    }

    #[test]
    fn tests_may_use_their_own_storey_and_none_above() {
        assert!(judged("low", "low-too", true));
        assert!(!judged("low", "high", true));
    }

    #[test]
    fn tools_use_anything_and_are_used_by_nothing() {
        assert!(judged("tool", "high", false));
        assert!(!judged("high", "tool", true));
    }

    #[test]
    fn a_row_without_a_storey_is_refused() {
        assert!(parse("engine").is_err());
        assert!(parse("engine two").is_err());
    }
}
