//! etcd's rw-heatmap CSV, in and out.
