//! The store to embed: open, get, put, delete, batch, range, watch.
