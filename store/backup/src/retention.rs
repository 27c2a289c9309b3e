//! Retention: which objects no revision of the kept time needs.
//!
//! ```text
//!   base A ── changes ── base B ── changes ── base C ── changes ── now
//!                          └─ the newest base that is older than the kept time: all before it goes
//! ```

use crate::catalog::{BackupHistory, Catalog};
use crate::name::ObjectName;

/// How much stays.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Every revision that was the newest one within this time can be restored.
    pub keep_ms: u64,
    /// The newest bases of a cluster that stay, whatever their age.
    pub bases_min: usize,
}

impl Retention {
    /// Objects of a cluster that may be deleted, bases first: an interrupted deletion leaves no base behind
    /// which the changes are gone.
    pub fn expired(&self, catalog: &Catalog, cluster: u64, now_ms: u64) -> Vec<ObjectName> {
        let limit_ms = now_ms.saturating_sub(self.keep_ms);
        let (mut expired, mut kept_bases) = (Vec::new(), 0);
        // Whether a later history has a base that is older than the kept time.
        let mut is_replaced = false;
        for history in catalog.of_cluster(cluster).rev() {
            let mut bases = history.bases.iter().rev();
            let boundary = bases.find(|base| {
                kept_bases += 1;
                base.name.time_ms <= limit_ms && kept_bases >= self.bases_min
            });
            match boundary {
                _ if is_replaced => expired.extend(history.objects().map(|object| object.name)),
                Some(base) => expired.extend(before(history, base.name.last)),
                None => {}
            }
            is_replaced |= boundary.is_some();
        }
        expired.sort_by_key(|name| !name.is_base());
        expired
    }
}

/// Objects that no restore needs which begins at the base of this revision or later.
fn before(history: &BackupHistory, revision: i64) -> impl Iterator<Item = ObjectName> {
    let names = history.objects().map(|object| object.name);
    names.filter(move |name| match name.is_base() {
        true => name.last < revision,
        false => name.last <= revision && name.first <= revision,
    })
}
