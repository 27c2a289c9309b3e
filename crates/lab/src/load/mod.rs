//! Clients that put a load on a target and note how long each answer took.
