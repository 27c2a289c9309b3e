//! etcd's state machine: revisions, transactions, leases, watches, compaction.
