//! Fairness among several clients.

/// Jain's index: 1 where all counts are equal, 1/n where one of n counts is the whole sum.
/// `None` for fewer than two counts, or where all are zero.
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
    fn the_index_is_one_over_n_where_one_client_got_everything() {
        assert_eq!(jain(&[8, 0, 0, 0]), Some(0.25));
        assert_eq!(jain(&[5, 5, 5]), Some(1.0));
        let uneven = jain(&[1, 3]).unwrap();
        assert!((uneven - 0.8).abs() < 1e-12, "{uneven}");
    }

    #[test]
    fn one_client_or_no_operations_have_no_index() {
        assert_eq!(jain(&[7]), None);
        assert_eq!(jain(&[0, 0]), None);
    }
}
