//! The sides of a record, which reports show beside each other.

use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B, ARM_NULL, Cell, Record, Run};
use crate::report::svg::series_class;
use crate::targets::UNDER_HANDOFF;
use crate::verdict::evidence::product;

/// One side in one cell.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// Name of the arm in the record.
    pub arm: &'a str,
    /// Label for readers, with product and version.
    pub label: String,
    /// Style class of the side's colour.
    pub class: String,
    /// The runs that count, in the order of time.
    pub runs: Vec<&'a Run>,
}

impl Side<'_> {
    /// Whether this is the null target, the generator's own ceiling.
    pub fn is_ceiling(&self) -> bool {
        self.arm == ARM_NULL
    }
}

/// All arms of a record in the order in which they are shown: A, its copy, B, others by
/// name, the generator's ceiling.
pub fn arms(record: &Record) -> Vec<&str> {
    let mut arms = distinct(record.runs.iter().map(|run| run.arm.as_str()));
    arms.sort_by_key(|arm| match *arm {
        ARM_A => (0, *arm),
        ARM_A_AGAIN => (1, *arm),
        ARM_B => (2, *arm),
        ARM_NULL => (4, *arm),
        _ => (3, *arm),
    });
    arms
}

/// The sides of a cell, including sides without a run that counts.
pub fn sides<'a>(record: &'a Record, cell: &Cell) -> Vec<Side<'a>> {
    let here = |run: &&Run, arm: &str| run.cell.name == cell.name && run.arm == arm;
    let in_cell = |arm: &&str| record.runs.iter().any(|run| here(&run, arm));
    arms(record)
        .into_iter()
        .filter(in_cell)
        .map(|arm| Side {
            arm,
            label: label(record, arm),
            class: class(record, arm),
            runs: record.valid_runs().filter(|run| here(run, arm)).collect(),
        })
        .collect()
}

/// Label of an arm: `A etcd 3.7.3`, `redb 4.4.0`, or `new: inkstone 0.1.0`. The arm's name
/// is left out where the product begins with it.
pub fn label(record: &Record, arm: &str) -> String {
    let Some(run) = record.runs.iter().find(|run| run.arm == arm) else {
        return arm.to_owned();
    };
    let product = product(run);
    match arm {
        ARM_NULL => "generator's ceiling".to_owned(),
        ARM_A | ARM_A_AGAIN | ARM_B if builds(record).is_some() => {
            format!("{arm} {}, {product}", run.target.name)
        }
        ARM_A | ARM_A_AGAIN | ARM_B => format!("{arm} {product}"),
        _ if arm.ends_with("@handoff") && product.ends_with(UNDER_HANDOFF) => product,
        _ if product.to_lowercase().starts_with(&arm.to_lowercase()) => product,
        _ => format!("{arm}: {product}"),
    }
}

/// The names of the targets A and B, where both are the same product.
fn builds(record: &Record) -> Option<[String; 2]> {
    let [a, b] = [ARM_A, ARM_B].map(|arm| record.runs.iter().find(|run| run.arm == arm));
    let (a, b) = a.zip(b)?;
    let are_builds = product(a) == product(b) && a.target.name != b.target.name;
    are_builds.then(|| [a, b].map(|run| run.target.name.clone()))
}

/// Names of A and B in sentences: their products; for two builds of one product, the names
/// of the targets; where those are equal, the letters.
pub fn names(record: &Record) -> [String; 2] {
    let products = [ARM_A, ARM_B].map(|arm| record.runs.iter().find(|run| run.arm == arm));
    match (builds(record), products.map(|run| run.map(product))) {
        (Some(names), _) => names,
        (None, [Some(a), Some(b)]) if a != b => [a, b],
        _ => [ARM_A, ARM_B].map(str::to_owned),
    }
}

/// The different items, in the order of their first appearance.
pub fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for item in items {
        if !known.contains(&item) {
            known.push(item);
        }
    }
    known
}

/// The label in two parts: a short name, and its explanation.
pub fn label_parts(record: &Record, arm: &str) -> (String, String) {
    let label = label(record, arm);
    match (arm, label.split_once(' ')) {
        (ARM_NULL, _) | (_, None) => (label, String::new()),
        (_, Some((name, rest))) => (name.trim_end_matches(':').to_owned(), rest.to_owned()),
    }
}

/// Style class of an arm's colour. The copy of A has A's colour and is dashed.
pub fn class(record: &Record, arm: &str) -> String {
    match arm {
        ARM_A => series_class(0),
        ARM_A_AGAIN => "s0 again".to_owned(),
        ARM_B => series_class(1),
        ARM_NULL => "ceiling".to_owned(),
        _ => {
            let place = arms(record).iter().position(|known| *known == arm);
            series_class(place.unwrap_or(0))
        }
    }
}
