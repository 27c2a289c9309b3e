//! A transaction's conditions.
//!
//! All of them, those of nested transactions included, are decided on the
//! state before the transaction; what it writes changes none of them. The
//! outcome is a tree: which branch each transaction takes, and below it the
//! outcomes of the transactions nested in that branch.

use std::cmp::Ordering;

use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{Compare, RequestOp, TxnRequest};

use crate::Error;
use crate::key_range::KeyRange;
use crate::view::{Direction, Found, KeyVersion, View};

/// Which way a transaction goes.
#[derive(Debug)]
pub struct Branch {
    /// The conditions hold.
    pub succeeded: bool,
    /// The same for each transaction in the list taken, in order.
    pub nested: Vec<Branch>,
}

impl Branch {
    /// Decides a transaction and all that it will run.
    pub fn decide(view: View<'_>, request: &TxnRequest) -> Result<Branch, Error> {
        let mut succeeded = true;
        for compare in &request.compare {
            if !holds(view, compare)? {
                succeeded = false;
                break;
            }
        }
        let mut branch = Branch {
            succeeded,
            nested: Vec::new(),
        };
        for operation in branch.operations(request) {
            if let Some(Operation::RequestTxn(nested)) = &operation.request {
                branch.nested.push(Branch::decide(view, nested)?);
            }
        }
        Ok(branch)
    }

    /// The list of operations that is taken.
    pub fn operations<'r>(&self, request: &'r TxnRequest) -> &'r [RequestOp] {
        if self.succeeded {
            &request.success
        } else {
            &request.failure
        }
    }
}

/// Returns whether the condition holds for every key in its range. An empty range counts as one
/// key with all numbers zero; a comparison of its value is always false.
fn holds(view: View<'_>, compare: &Compare) -> Result<bool, Error> {
    let keys = KeyRange::of_request(&compare.key, &compare.range_end);
    let found = view.scan_for_reading(keys, view.revision, Direction::Ascending, usize::MAX)?;
    let target = CompareTarget::try_from(compare.target).ok();
    if found.is_empty() {
        return Ok(target != Some(CompareTarget::Value) && accepts(compare, of_numbers(compare, 0)));
    }
    for found in &found {
        let order = match target {
            // The index knows it: no need to read the value.
            Some(CompareTarget::Mod) => of_numbers(compare, found.modified()),
            _ => of_version(compare, target, &read(view, target, found)?),
        };
        if !accepts(compare, order) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The version; without its value where that is damaged and not compared.
fn read(view: View<'_>, target: Option<CompareTarget>, found: &Found) -> Result<KeyVersion, Error> {
    match view.read(found) {
        Err(Error::Storage(_)) if target != Some(CompareTarget::Value) => view.read_head(found),
        read => read,
    }
}

/// How the key stands to what it is compared with.
fn of_version(compare: &Compare, target: Option<CompareTarget>, version: &KeyVersion) -> Ordering {
    match target {
        Some(CompareTarget::Value) => version.value().cmp(wanted_value(compare)),
        Some(CompareTarget::Version) => of_numbers(compare, version.lineage.version),
        Some(CompareTarget::Create) => of_numbers(compare, version.lineage.created),
        Some(CompareTarget::Mod) => of_numbers(compare, version.modified),
        Some(CompareTarget::Lease) => of_numbers(compare, version.lineage.lease),
        None => Ordering::Equal,
    }
}

fn wanted_value(compare: &Compare) -> &[u8] {
    match &compare.target_union {
        Some(TargetUnion::Value(value)) => value,
        _ => &[],
    }
}

/// A number of another kind than the target's counts as 0, as if not given.
fn of_numbers(compare: &Compare, number: i64) -> Ordering {
    let target = CompareTarget::try_from(compare.target);
    let wanted = match (target, &compare.target_union) {
        (Ok(CompareTarget::Version), Some(TargetUnion::Version(wanted)))
        | (Ok(CompareTarget::Create), Some(TargetUnion::CreateRevision(wanted)))
        | (Ok(CompareTarget::Mod), Some(TargetUnion::ModRevision(wanted)))
        | (Ok(CompareTarget::Lease), Some(TargetUnion::Lease(wanted))) => *wanted,
        (Err(_), _) => number,
        _ => 0,
    };
    number.cmp(&wanted)
}

fn accepts(compare: &Compare, order: Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => order.is_eq(),
        Ok(CompareResult::NotEqual) => order.is_ne(),
        Ok(CompareResult::Greater) => order.is_gt(),
        Ok(CompareResult::Less) => order.is_lt(),
        // A relation of the future: etcd lets it pass.
        Err(_) => true,
    }
}
