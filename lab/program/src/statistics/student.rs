//! Student's t and Fisher's F.

use statrs::distribution::{Continuous, ContinuousCDF, FisherSnedecor, StudentsT};

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("a distribution needs at least one degree of freedom")
}

/// The share of Student's distribution below `t`.
pub fn student_below(t: f64, freedom: f64) -> f64 {
    student(freedom).cdf(t)
}

/// The probability of a `t` at least as far from zero, either way.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    2.0 * student_below(-t.abs(), freedom)
}

/// The `t` below which the given share of the distribution lies.
pub fn student_quantile(share: f64, freedom: f64) -> f64 {
    assert!(
        share > 0.0 && share < 1.0,
        "a quantile lies strictly between 0 and 1, not at {share}"
    );
    let student = student(freedom);
    let near = student.inverse_cdf(share);
    // The library's quantile has nine digits; one step of Newton's method gives all.
    near - (student.cdf(near) - share) / student.pdf(near)
}

/// The probability of an `F` at least as large.
pub fn fisher_above(f: f64, freedom_between: f64, freedom_within: f64) -> f64 {
    FisherSnedecor::new(freedom_between, freedom_within)
        .expect("a distribution needs at least one degree of freedom")
        .sf(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided 95 % points as every table prints them.
    #[test]
    fn quantiles_agree_with_the_printed_table() {
        let table = [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (5.0, 2.571),
            (7.0, 2.365),
            (9.0, 2.262),
            (15.0, 2.131),
            (29.0, 2.045),
            (60.0, 2.000),
            (120.0, 1.980),
        ];
        for (freedom, expected) in table {
            let found = student_quantile(0.975, freedom);
            assert!((found - expected).abs() < 6e-4, "{freedom}: {found}");
        }
        assert!((student_quantile(0.995, 7.0) - 3.499).abs() < 6e-4);
        assert!((student_quantile(0.90, 12.0) - 1.356).abs() < 6e-4);
    }

    #[test]
    fn quantiles_are_odd_around_the_middle() {
        assert!(student_quantile(0.5, 4.0).abs() < 1e-9);
        let above = student_quantile(0.8, 4.0);
        assert!((student_quantile(0.2, 4.0) + above).abs() < 1e-9);
    }

    #[test]
    fn shares_and_quantiles_are_inverse() {
        for freedom in [1.0, 2.5, 7.0, 31.0, 400.0] {
            for share in [0.01, 0.2, 0.6, 0.975, 0.9999] {
                let t = student_quantile(share, freedom);
                assert!((student_below(t, freedom) - share).abs() < 1e-9);
            }
        }
    }

    /// 5 % points of F from the printed table.
    #[test]
    fn upper_points_of_f_agree_with_the_printed_table() {
        for (between, within, point) in [(2.0, 10.0, 4.103), (3.0, 20.0, 3.098), (1.0, 5.0, 6.608)]
        {
            let p = fisher_above(point, between, within);
            assert!((p - 0.05).abs() < 1e-4, "F({between}, {within}): {p}");
        }
    }

    #[test]
    fn f_with_one_degree_is_t_squared() {
        let t = 2.3_f64;
        let difference = fisher_above(t * t, 1.0, 9.0) - student_two_sided(t, 9.0);
        assert!(difference.abs() < 1e-10);
    }
}
