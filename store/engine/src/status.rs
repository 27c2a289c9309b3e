//! Figures for people and metrics.

/// State of the engine now. Counters run since open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Last applied main revision (1: nothing written yet).
    pub revision: i64,
    /// Last compacted main revision (-1: never compacted).
    pub compacted: i64,
    /// Index of the last applied batch.
    pub applied_index: u64,
    /// Term of the last applied batch.
    pub applied_term: u64,
    /// Keys that exist.
    pub keys: u64,
    /// Versions kept, tombstones included.
    pub versions: u64,
    /// Bytes in use in all segments: etcd's `dbSize`.
    pub log_bytes: u64,
    /// Bytes among them that are still needed, live records and headers of segments: etcd's
    /// `dbSizeInUse`. At most `log_bytes`, and never 0.
    pub live_bytes: u64,
    /// Segments, spares not counted.
    pub segments: usize,
    /// Heap bytes of the index, and of the keys noted as created and deleted.
    pub index_bytes: u64,
    /// The log's own figures.
    pub log: value_log::Status,
    /// Work of upkeep.
    pub upkeep: UpkeepStatus,
}

/// Counters of upkeep since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepStatus {
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes of the checkpoints written.
    pub checkpoint_bytes: u64,
    /// Bytes of survivors copied by reclaim.
    pub relocated_bytes: u64,
    /// Segments released.
    pub released_segments: u64,
    /// Key versions dropped after compactions.
    pub swept_versions: u64,
}
