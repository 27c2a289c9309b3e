//! The lab's proof of itself: simulated experiments with known truths.
