//! Statistics of few and noisy numbers.
//!
//! Everything here works on logarithms of ratios: a run that is twice as fast and one that is
//! half as fast cancel, a percentage means the same in both directions, and a factor that
//! affects both runs of a pair (a busy minute, a warm processor) cancels in their ratio.
//!
//! ```text
//!   student      quantiles of Student's t and of F
//!   log_ratio    the interval that a verdict is based on
//!   sign_flip    an exact test that assumes no distribution, for n <= 16
//!   discovery    many cells at once: Benjamini and Hochberg
//!   geometric    geometric means of ratios
//!   position     the effect of the position in the order
//!   further      the number of further pairs that a verdict needs
//!   fairness     Jain's index over the clients
//!   steady       the end of the warm-up
//! ```
//!
//! There is no bootstrap: at eight pairs its percentile interval calls identical
//! programs different in 10 to 13 of 100 experiments, where the t-interval
//! does so in 3 to 6.

pub mod discovery;
pub mod fairness;
pub mod further;
pub mod geometric;
pub mod log_ratio;
pub mod position;
pub mod sign_flip;
pub mod steady;
pub mod student;
pub mod summary;

pub use fairness::jain;
pub use further::further_pairs;
pub use log_ratio::{LogRatio, log_ratio};
pub use position::{Placed, PositionEffect, position_effect};
pub use sign_flip::sign_flip;
pub use steady::{Steadiness, steadiness};
