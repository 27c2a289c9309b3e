//! 000: etcd's rw-heatmap, which once showed a regression of 30 % that was none.
//!
//! | as published | honest |
//! |---|---|
//! | one run of each side in each cell, and the larger number is right | A, a copy of A, and B in random order; a cell differs when it is outside what the copy makes out of nothing |
//!
//! What the published order alone makes of two identical servers, `selftest`
//! shows.

use super::{Options, etcd, ours, title};
use crate::cli::ab::triple;
use crate::cli::finish::{finish, measure};
use crate::cli::heatmap::points;
use crate::cli::run::side_by_side;
use crate::cli::{Outcome, workloads};
use crate::schedule::Arm;
use crate::targets::TargetSpec;

const PAIRS_HONEST: usize = 4;

/// Measures the map.
pub fn run(options: &Options) -> Outcome {
    let workload = options.changes.applied(workloads::find("rw-heatmap")?)?;
    let points = points(&workload, &options.axes)?;
    let (arms, pairs) = sides(options)?;
    let experiment = options.how.experiment(points, arms, pairs);
    let title = title(options, "reads and writes beside etcd");
    let (record, folder) = measure("seed 000", &title, &options.how, &experiment)?;
    finish(&record, &folder)
}

fn sides(options: &Options) -> Result<(Vec<Arm>, usize), String> {
    let target = |name: &str, path: &std::path::Path| {
        format!("{name}=server:{}", path.display()).parse::<TargetSpec>()
    };
    let b = target("inkstone", &ours(options)?)?;
    let a = target("etcd", &etcd(options)?)?;
    Ok(match options.as_published {
        true => (side_by_side(&[a, b])?, 1),
        false => (triple(&a, &b), PAIRS_HONEST),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    #[test]
    fn only_the_honest_map_has_a_copy_of_a() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        let words = ["000", "--ours", here, "--etcd", here];
        let (arms, pairs) = sides(&options(&words)).unwrap();
        assert_eq!((arms.len(), pairs), (3, PAIRS_HONEST));
        assert_eq!(arms[0].target, arms[1].target);
        let published = [&words[..], &["--as-published"]].concat();
        assert_eq!(sides(&options(&published)).unwrap().0.len(), 2);
    }
}
