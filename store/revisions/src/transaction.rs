//! Transactions: decide, check everything, then do it.
//!
//! ```text
//!   conditions ──► branch tree ──► checks of all operations ──► operations in order
//!        └──────── on the state before ────────┘                └ see each other's writes
//! ```
//!
//! Nothing is written before every check has passed, so a refused transaction
//! leaves no trace. Headers are etcd's to the letter: the transaction's own
//! carries the revision after it, each operation's the revision as it saw it,
//! a nested transaction's is empty.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Outcome;
use etcd_api::etcdserverpb::{RangeRequest, ResponseHeader, ResponseOp, TxnRequest, TxnResponse};

use crate::Error;
use crate::compare::Branch;
use crate::evaluate::Evaluation;
use crate::header::header;
use crate::range::range;
use crate::view::View;

impl Evaluation<'_> {
    /// Evaluates a transaction.
    pub fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, Error> {
        let branch = Branch::decide(self.view(), request)?;
        self.check(request, &branch)?;
        let mut response = self.execute(request, &branch)?;
        response.header = header(self.now());
        Ok(response)
    }

    fn check(&self, request: &TxnRequest, branch: &Branch) -> Result<(), Error> {
        let mut nested = branch.nested.iter();
        for operation in branch.operations(request) {
            match &operation.request {
                Some(Operation::RequestRange(request)) => check_revision(self.view(), request)?,
                Some(Operation::RequestPut(request)) => self.check_put(request)?,
                Some(Operation::RequestTxn(request)) => {
                    let branch = nested.next().expect("a branch per nested transaction");
                    self.check(request, branch)?;
                }
                Some(Operation::RequestDeleteRange(_)) | None => {}
            }
        }
        Ok(())
    }

    fn execute(&mut self, request: &TxnRequest, branch: &Branch) -> Result<TxnResponse, Error> {
        let mut nested = branch.nested.iter();
        let mut responses = Vec::new();
        for operation in branch.operations(request) {
            let outcome = match &operation.request {
                Some(Operation::RequestRange(request)) => {
                    Some(Outcome::ResponseRange(range(self.view(), request)?))
                }
                Some(Operation::RequestPut(request)) => {
                    Some(Outcome::ResponsePut(self.put_checked(request)?))
                }
                Some(Operation::RequestDeleteRange(request)) => {
                    Some(Outcome::ResponseDeleteRange(self.delete_range(request)?))
                }
                Some(Operation::RequestTxn(request)) => {
                    let branch = nested.next().expect("a branch per nested transaction");
                    Some(Outcome::ResponseTxn(self.execute(request, branch)?))
                }
                None => None,
            };
            responses.push(ResponseOp { response: outcome });
        }
        Ok(outcome(branch, responses))
    }
}

/// Answers a transaction that holds ranges only.
pub(crate) fn read_only(view: View<'_>, request: &TxnRequest) -> Result<TxnResponse, Error> {
    let branch = Branch::decide(view, request)?;
    let ranges = branch
        .operations(request)
        .iter()
        .map(|operation| match &operation.request {
            Some(Operation::RequestRange(request)) => Ok(request),
            // Only a caller that did not ask `is_read_only` gets here.
            _ => Err(Error::from(Refusal::NotCapable)),
        });
    let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
    ranges
        .iter()
        .try_for_each(|request| check_revision(view, request))?;
    let mut responses = Vec::new();
    for request in ranges {
        let outcome = Outcome::ResponseRange(range(view, request)?);
        responses.push(ResponseOp {
            response: Some(outcome),
        });
    }
    Ok(TxnResponse {
        header: header(view.revision),
        ..outcome(&branch, responses)
    })
}

fn outcome(branch: &Branch, responses: Vec<ResponseOp>) -> TxnResponse {
    TxnResponse {
        header: Some(ResponseHeader::default()),
        succeeded: branch.succeeded,
        responses,
    }
}

/// A transaction's range may read the past as it was before the transaction.
/// Unlike a plain range, a negative revision below the compaction is refused.
fn check_revision(view: View<'_>, request: &RangeRequest) -> Result<(), Error> {
    match request.revision {
        0 => Ok(()),
        future if future > view.revision => Err(Refusal::FutureRevision.into()),
        past if past < view.compacted => Err(Refusal::Compacted.into()),
        _ => Ok(()),
    }
}
