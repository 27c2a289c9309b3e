//! Mean, standard deviation and quantiles.

/// The arithmetic mean; `None` of no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values))
}

/// The standard deviation of the population, estimated from the sample `values`; `None` for
/// fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count(values) - 1.0)).sqrt())
}

/// The quantile at `share`, with linear interpolation between neighbours; `None` of no
/// values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor()))
}

/// The median; `None` of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The number of values, as a divisor.
pub fn count(values: &[f64]) -> f64 {
    values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_values_have_neither_mean_nor_median() {
        assert_eq!((mean(&[]), median(&[])), (None, None));
    }

    #[test]
    fn one_value_has_no_deviation() {
        assert_eq!(deviation(&[3.0]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
    }

    #[test]
    fn the_variance_divides_by_one_less_than_the_count() {
        assert_eq!(deviation(&[1.0, 3.0]), Some(2.0_f64.sqrt()));
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
    }
}
