//! A prefix-truncated B+-tree in memory: one writer, readers that never wait, counts in O(log n).
