//! How evenly several were served.

/// Jain's index: 1 where all got as much, 1/n where one of n got everything. None
/// of fewer than two, or where nobody got anything.
pub fn jain(counts: &[u64]) -> Option<f64> {
    if counts.len() < 2 {
        return None;
    }
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (counts.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_gets_everything_makes_one_part_of_all() {
        assert_eq!(jain(&[8, 0, 0, 0]), Some(0.25));
        assert_eq!(jain(&[5, 5, 5]), Some(1.0));
        let uneven = jain(&[1, 3]).unwrap();
        assert!((uneven - 0.8).abs() < 1e-12, "{uneven}");
    }

    #[test]
    fn of_one_or_of_nothing_there_is_no_fairness() {
        assert_eq!(jain(&[7]), None);
        assert_eq!(jain(&[0, 0]), None);
    }
}
