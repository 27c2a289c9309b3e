//! Student's t and Fisher's F, through the regularised incomplete beta function.
//!
//! A continued fraction (Lentz) gives the function to about twelve digits. Bisection finds
//! quantiles; it needs no good first guess and always ends.

/// Relative size below which a factor of the continued fraction has converged.
const CONVERGED: f64 = 1e-14;

/// Replaces zero where the fraction would divide by it.
const TINY: f64 = 1e-300;

/// The share of Student's distribution below `t`.
pub fn student_below(t: f64, freedom: f64) -> f64 {
    assert!(
        freedom > 0.0,
        "a distribution needs at least one degree of freedom"
    );
    let both_tails = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t > 0.0 {
        1.0 - both_tails / 2.0
    } else {
        both_tails / 2.0
    }
}

/// The probability of a `t` at least as far from zero, either way.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    2.0 * student_below(-t.abs(), freedom)
}

/// The `t` below which the given share of the distribution lies.
pub fn student_quantile(share: f64, freedom: f64) -> f64 {
    assert!(
        share > 0.0 && share < 1.0,
        "a quantile lies strictly between 0 and 1, not at {share}"
    );
    if share < 0.5 {
        return -student_quantile(1.0 - share, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_below(high, freedom) < share {
        high *= 2.0;
    }
    while high - low > 1e-13 * high {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if student_below(middle, freedom) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of an `F` at least as large.
pub fn fisher_above(f: f64, freedom_between: f64, freedom_within: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    let x = freedom_within / (freedom_within + freedom_between * f);
    incomplete_beta(x, freedom_within / 2.0, freedom_between / 2.0)
}

/// The regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges quickly only on this side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for step in 1..=500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        product *= d * c;
        if (d * c - 1.0).abs() < CONVERGED {
            break;
        }
    }
    product
}

fn away_from_zero(value: f64) -> f64 {
    if value.abs() < TINY { TINY } else { value }
}

/// Lanczos' approximation, for positive arguments.
#[expect(
    clippy::excessive_precision,
    reason = "the coefficients as they are published"
)]
fn log_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_13,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_571_6e-6,
        1.505_632_735_149_311_6e-7,
    ];
    assert!(x > 0.0, "log_gamma of {x}");
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - log_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_93;
    for (index, coefficient) in (1_u32..).zip(COEFFICIENTS) {
        sum += coefficient / (x + f64::from(index));
    }
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
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
