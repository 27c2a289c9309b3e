//! No transaction writes a key twice: the static check.
//!
//! Decided from the request alone, whatever branch will be taken, exactly as
//! etcd does it, its two blind spots included (clients may rely on what gets
//! through, and HashKV must agree):
//!
//! - A nested transaction's deletions are compared with what comes *after* it
//!   in the list and with the list's own puts, not with the puts of nested
//!   transactions before it: `[txn{put a}, txn{delete a}]` passes.
//! - A deletion "from key on" (`range_end = "\0"`) is taken for the interval
//!   that ends before the one-byte key `\0`, which is empty: it overlaps
//!   nothing.
//!
//! Two branches of one nested transaction may write the same key: only one of
//! them runs.

use std::collections::HashSet;

use etcd_api::Error;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{DeleteRangeRequest, RequestOp, TxnRequest};

/// What a list of operations may write.
#[derive(Default)]
struct Writes<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: Intervals<'a>,
}

/// Half-open intervals of keys.
#[derive(Default)]
struct Intervals<'a>(Vec<(&'a [u8], Option<&'a [u8]>)>);

impl<'a> Intervals<'a> {
    fn add(&mut self, request: &'a DeleteRangeRequest) {
        let end = Some(&request.range_end[..]).filter(|end| !end.is_empty());
        self.0.push((&request.key, end));
    }

    /// `None` as an end is the single key.
    fn contain(&self, key: &[u8]) -> bool {
        self.0.iter().any(|&(start, end)| match end {
            None => start == key,
            Some(end) => start <= key && key < end,
        })
    }
}

/// Refuses a list in which a key could be written twice.
pub fn check(operations: &[RequestOp]) -> Result<(), Error> {
    writes(operations).map(drop)
}

fn writes(operations: &[RequestOp]) -> Result<Writes<'_>, Error> {
    let mut writes = Writes::default();
    for operation in operations {
        if let Some(Operation::RequestDeleteRange(request)) = &operation.request {
            writes.deletes.add(request);
        }
    }
    for operation in operations {
        if let Some(Operation::RequestTxn(request)) = &operation.request {
            writes.include(request)?;
        }
    }
    for operation in operations {
        if let Some(Operation::RequestPut(request)) = &operation.request {
            writes.put(&request.key, &HashSet::new())?;
        }
    }
    Ok(writes)
}

impl<'a> Writes<'a> {
    /// Adds a put. A key in `exclusive` may be there already.
    fn put(&mut self, key: &'a [u8], exclusive: &HashSet<&[u8]>) -> Result<(), Error> {
        let twice = self.puts.contains(key) && !exclusive.contains(key);
        if twice || self.deletes.contain(key) {
            return Err(Error::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }

    /// Adds what either branch of a nested transaction may write.
    fn include(&mut self, request: &'a TxnRequest) -> Result<(), Error> {
        let success = writes(&request.success)?;
        let failure = writes(&request.failure)?;
        for key in &success.puts {
            self.put(key, &HashSet::new())?;
        }
        for key in &failure.puts {
            self.put(key, &success.puts)?;
        }
        self.deletes.0.extend(success.deletes.0);
        self.deletes.0.extend(failure.deletes.0);
        Ok(())
    }
}
