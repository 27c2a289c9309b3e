//! The road of a command: propose, append, flush, apply, answer.
