//! Verdicts from numbers: intervals, tests, false-discovery bounds.
