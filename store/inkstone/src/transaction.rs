//! Transactions: changes that depend on conditions.

use bytes::Bytes;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::response_op::Response as Part;
use etcd_api::etcdserverpb::{Compare, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use revisions::{Command, Response};

use crate::requests::unexpected;
use crate::{Error, KeyValue, WriteBatch};

/// A condition on a key, on which a [`Transaction`] depends.
#[derive(Clone, Debug)]
pub struct Condition {
    compare: Compare,
}

impl Condition {
    /// The key does not exist.
    pub fn missing(key: impl Into<Bytes>) -> Condition {
        let zero = TargetUnion::CreateRevision(0);
        Condition::new(key, CompareTarget::Create, CompareResult::Equal, zero)
    }

    /// The key exists.
    pub fn exists(key: impl Into<Bytes>) -> Condition {
        let zero = TargetUnion::CreateRevision(0);
        Condition::new(key, CompareTarget::Create, CompareResult::Greater, zero)
    }

    /// The key exists and has this value.
    pub fn value(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Condition {
        let value = TargetUnion::Value(value.into());
        Condition::new(key, CompareTarget::Value, CompareResult::Equal, value)
    }

    /// The key was last written by this revision ([`KeyValue::mod_revision`]), so no write
    /// has changed it since it was read. Unlike a comparison of values, the condition also
    /// fails if the value was changed and changed back.
    pub fn written_by(key: impl Into<Bytes>, revision: i64) -> Condition {
        let revision = TargetUnion::ModRevision(revision);
        Condition::new(key, CompareTarget::Mod, CompareResult::Equal, revision)
    }

    fn new(
        key: impl Into<Bytes>,
        target: CompareTarget,
        result: CompareResult,
        wanted: TargetUnion,
    ) -> Condition {
        Condition {
            compare: Compare {
                key: key.into(),
                result: result.into(),
                target: target.into(),
                target_union: Some(wanted),
                ..Default::default()
            },
        }
    }
}

/// Applies one batch if all conditions hold, and otherwise another. The conditions are
/// evaluated and the batch is applied atomically, as one revision.
///
/// ```
/// # fn main() -> Result<(), inkstone::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let store = inkstone::Options::new(directory.path().join("data"))
/// #     .segment_bytes(1 << 20).open()?;
/// use inkstone::{WriteBatch, Condition, Transaction};
///
/// // The first worker gets the job; the others learn which worker has it.
/// let take = |worker: &'static str| {
///     Transaction::new()
///         .when(Condition::missing("job"))
///         .then(WriteBatch::new().put("job", worker))
///         .read("job")
/// };
/// assert!(store.transact(take("ada"))?.succeeded);
/// let late = store.transact(take("grace"))?;
/// assert!(!late.succeeded);
/// assert_eq!(late.entries[0].value, "ada");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    conditions: Vec<Compare>,
    then: WriteBatch,
    otherwise: WriteBatch,
    reads: Vec<RequestOp>,
}

impl Transaction {
    /// A transaction without conditions, so that they hold, and without changes.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Adds a condition; all of them must hold.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Transaction {
        self.conditions.push(condition.compare);
        self
    }

    /// Sets the batch that is applied when all conditions hold.
    #[must_use]
    pub fn then(mut self, batch: WriteBatch) -> Transaction {
        self.then = batch;
        self
    }

    /// Sets the batch that is applied when a condition does not hold.
    #[must_use]
    pub fn otherwise(mut self, batch: WriteBatch) -> Transaction {
        self.otherwise = batch;
        self
    }

    /// Adds a read of a key after the changes, with either batch.
    #[must_use]
    pub fn read(mut self, key: impl Into<Bytes>) -> Transaction {
        let range = RangeRequest {
            key: key.into(),
            ..Default::default()
        };
        self.reads.push(RequestOp {
            request: Some(Request::RequestRange(range)),
        });
        self
    }

    pub(crate) fn into_command(self) -> Command {
        let with_reads = |batch: WriteBatch| {
            let mut operations = batch.into_operations();
            operations.extend(self.reads.iter().cloned());
            operations
        };
        Command::Txn(TxnRequest {
            success: with_reads(self.then),
            failure: with_reads(self.otherwise),
            compare: self.conditions,
        })
    }
}

/// The outcome of a [`Transaction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The store's revision after the transaction.
    pub revision: i64,
    /// The existing keys among those of [`Transaction::read`], in the order of these calls.
    pub entries: Vec<KeyValue>,
}

impl Transacted {
    pub(crate) fn of(response: Response) -> Result<Transacted, Error> {
        match response {
            Response::Txn(txn) => Ok(Transacted::of_txn(txn)),
            other => Err(unexpected(&other)),
        }
    }

    fn of_txn(txn: TxnResponse) -> Transacted {
        let ranges = txn
            .responses
            .iter()
            .filter_map(|part| match &part.response {
                Some(Part::ResponseRange(range)) => Some(&range.kvs),
                _ => None,
            });
        Transacted {
            succeeded: txn.succeeded,
            revision: txn.header.as_ref().map_or(0, |header| header.revision),
            entries: ranges.flatten().map(KeyValue::from).collect(),
        }
    }
}
