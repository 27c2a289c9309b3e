//! One run, in a process of its own.
