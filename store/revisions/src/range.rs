//! Ranges: which keys, in which order, how many of them.
//!
//! ```text
//!   fetch (limit + 1 where the order allows) ─► filter by revision ─► sort ─► cut at limit
//! ```
//!
//! `count` is the number of keys in the range whatever limit and filters say.
//! etcd walks the range for it; here the index knows.
//!
//! Three corners that clients see and that are kept as they are in etcd:
//! a sort target with order NONE sorts only what the limit let through;
//! filters apply before the limit; `keys_only` gives no lease, unless the
//! order is by value.

use bytes::Bytes;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use etcd_api::{EncodedKeyValue, Fields};

use crate::Error;
use crate::header::header;
use crate::key_range::KeyRange;
use crate::view::{Direction, Found, KeyVersion, View};

/// The answer comes in key order, ascending, without sorting.
pub fn is_default_order(request: &RangeRequest) -> bool {
    request.sort_order == SortOrder::None as i32
        || (request.sort_target == SortTarget::Key as i32
            && request.sort_order == SortOrder::Ascend as i32)
}

/// Keys are left out by their revisions.
pub fn has_revision_filters(request: &RangeRequest) -> bool {
    [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ]
    .into_iter()
    .any(|revision| revision != 0)
}

/// The keys of a range as found in the index; their records are not read yet.
#[derive(Debug)]
pub struct FoundRange {
    /// The newest revision when the keys were looked up, for the answer's header.
    revision: i64,
    /// Number of keys in the range, regardless of limit and filters.
    count: i64,
    found: Vec<Found>,
    /// Whether there is a key beyond the limit.
    beyond: bool,
    /// What to sort by, and whether the largest comes first.
    sort: Option<(SortTarget, bool)>,
}

impl FoundRange {
    /// Bytes that reading the records takes: at least what the answer will have.
    pub fn log_bytes(&self) -> u64 {
        self.found.iter().map(Found::log_bytes).sum()
    }
}

/// Answers a range.
pub fn range(view: View<'_>, request: &RangeRequest) -> Result<RangeResponse, Error> {
    let found = find(view, request)?;
    read(view, request, found)
}

/// Looks a range's keys up.
pub(crate) fn find(view: View<'_>, request: &RangeRequest) -> Result<FoundRange, Error> {
    let at = view.resolve(request.revision)?;
    let keys = KeyRange::of_request(&request.key, &request.range_end);
    if request.count_only {
        return Ok(FoundRange {
            revision: view.revision,
            count: view.count(keys, at),
            found: Vec::new(),
            beyond: false,
            sort: None,
        });
    }
    let plan = Plan::of(request);
    let mut found = view.scan_for_reading(keys, at, plan.direction, plan.fetch_max)?;
    let count = if found.len() < plan.fetch_max {
        i64::try_from(found.len()).expect("a count of keys in memory")
    } else {
        view.count(keys, at)
    };
    assert!(found.len() <= plan.fetch_max, "a scan stops at its limit");
    assert!(
        found.len() as u64 <= count as u64,
        "{} keys found, {count} counted",
        found.len()
    );
    // The one beyond the limit only says that there is more and need not be read,
    // unless sorting brings it before the cut.
    let stopped = plan.fetch_max < usize::MAX && found.len() == plan.fetch_max;
    let beyond = stopped && plan.sort.is_none();
    if beyond {
        found.pop();
    }
    Ok(FoundRange {
        revision: view.revision,
        count,
        found,
        beyond,
        sort: plan.sort,
    })
}

/// Reads what was found, and makes the answer of it.
pub(crate) fn read(
    view: View<'_>,
    request: &RangeRequest,
    range: FoundRange,
) -> Result<RangeResponse, Error> {
    let mut versions = match view.read_all(&range.found) {
        // A value may be damaged that the request does not ask for.
        Err(Error::Storage(_)) if needs_no_value(request) => view.read_heads(&range.found)?,
        read => read?,
    };
    if has_revision_filters(request) {
        versions.retain(|version| passes(request, version));
    }
    if let Some((target, descending)) = range.sort {
        sort(&mut versions, target, descending);
    }
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let beyond = limit > 0 && versions.len() > limit;
    if beyond {
        versions.truncate(limit);
    }
    // Versions that were read together share memory, also with those that are not answered.
    let is_part = versions.len() < range.found.len();
    let kvs = versions.into_iter().map(|version| match request.keys_only {
        true => without_value(&version, request),
        false if is_part => EncodedKeyValue(Bytes::copy_from_slice(&version.encoded.0)),
        false => version.encoded,
    });
    Ok(RangeResponse {
        header: header(range.revision),
        kvs: kvs.collect(),
        more: beyond || range.beyond,
        count: range.count,
    })
}

/// How to fetch a range's keys.
struct Plan {
    direction: Direction,
    /// `usize::MAX`: everything.
    fetch_max: usize,
    /// What to sort by afterwards, and whether the largest comes first.
    sort: Option<(SortTarget, bool)>,
}

impl Plan {
    fn of(request: &RangeRequest) -> Plan {
        let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
        let order = SortOrder::try_from(request.sort_order).unwrap_or(SortOrder::None);
        let largest_key_first = target == SortTarget::Key && order == SortOrder::Descend;
        let may_stop_early = is_default_order(request) || largest_key_first;
        let limit = usize::try_from(request.limit)
            .ok()
            .filter(|&limit| limit > 0);
        let fetch_max = match limit {
            Some(limit) if may_stop_early && !has_revision_filters(request) => {
                limit.saturating_add(1)
            }
            _ => usize::MAX,
        };
        let direction = if largest_key_first {
            Direction::Descending
        } else {
            Direction::Ascending
        };
        let sort = (target != SortTarget::Key).then_some((target, order == SortOrder::Descend));
        Plan {
            direction,
            fetch_max,
            sort,
        }
    }
}

fn needs_no_value(request: &RangeRequest) -> bool {
    request.keys_only && request.sort_target != SortTarget::Value as i32
}

fn passes(request: &RangeRequest, version: &KeyVersion) -> bool {
    let within =
        |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
    within(
        version.modified,
        request.min_mod_revision,
        request.max_mod_revision,
    ) && within(
        version.lineage.created,
        request.min_create_revision,
        request.max_create_revision,
    )
}

/// Sorts by anything but the key; equal ones stay in key order.
fn sort(versions: &mut [KeyVersion], target: SortTarget, descending: bool) {
    versions.sort_by(|a, b| {
        let order = match target {
            SortTarget::Key => a.key().cmp(b.key()),
            SortTarget::Version => a.lineage.version.cmp(&b.lineage.version),
            SortTarget::Create => a.lineage.created.cmp(&b.lineage.created),
            SortTarget::Mod => a.modified.cmp(&b.modified),
            SortTarget::Value => a.value().cmp(b.value()),
        };
        if descending { order.reverse() } else { order }
    });
}

fn without_value(version: &KeyVersion, request: &RangeRequest) -> EncodedKeyValue {
    let whole = version.encoded.fields();
    let with_lease = request.sort_target == SortTarget::Value as i32;
    let fields = Fields {
        value: &[],
        lease: if with_lease { whole.lease } else { 0 },
        ..whole
    };
    fields.encode()
}
