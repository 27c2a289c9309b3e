//! etcd's wire contract: messages, services and the error table; no logic.
