//! Trend of samples: the straight line through them.

/// Slope of the least-squares line through samples that are one unit apart.
/// 0 for fewer than two, which have no direction.
pub fn slope(samples: &[f64]) -> f64 {
    let many = samples.len() as f64;
    if samples.len() < 2 {
        return 0.0;
    }
    let middle = (many - 1.0) / 2.0;
    let mean = samples.iter().sum::<f64>() / many;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (place, sample) in samples.iter().enumerate() {
        let distance = place as f64 - middle;
        covariance += distance * (sample - mean);
        variance += distance * distance;
    }
    covariance / variance
}

/// The later half of a row: the earlier one fills caches and pools.
pub fn last_half<T>(row: &[T]) -> &[T] {
    &row[row.len() / 2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_noise_around_it_hardly_matters() {
        let line: Vec<f64> = (0..60).map(|at| 5.0 + 2.0 * f64::from(at)).collect();
        assert!((slope(&line) - 2.0).abs() < 1e-9);
        let noise = line
            .iter()
            .enumerate()
            .map(|(at, sample)| sample + f64::from(at as u32 % 2));
        assert!((slope(&noise.collect::<Vec<_>>()) - 2.0).abs() < 0.01);
    }

    #[test]
    fn fewer_than_two_samples_have_slope_zero() {
        assert_eq!(slope(&[]), 0.0);
        assert_eq!(slope(&[7.0]), 0.0);
        assert_eq!(slope(&[7.0; 10]), 0.0);
    }

    #[test]
    fn the_last_half_leaves_the_warm_up_out() {
        assert_eq!(last_half(&[1, 2, 3, 4, 5]), [3, 4, 5]);
        assert!(last_half::<u8>(&[]).is_empty());
    }
}
