//! Retention: which objects no revision of the kept time needs.
//!
//! ```text
//!   base A ── changes ── base B ── changes ── base C ── changes ── now
//!                          └─ the newest base that is older than the kept time: all before it goes
//! ```

use crate::catalog::{BackupHistory, Catalog};
use crate::name::ObjectName;
use crate::place::StoredObject;

/// How much stays.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Every revision that was the newest one within this time can be restored.
    pub keep_ms: u64,
    /// The newest bases of a cluster that stay, whatever their age.
    pub bases_min: usize,
}

impl Retention {
    /// Objects of a cluster that may be deleted if a base can be read, each with that base. Bases come first:
    /// an interrupted deletion leaves no base behind which the changes are gone.
    pub fn expired(
        &self,
        catalog: &Catalog,
        cluster: u64,
        now_ms: u64,
    ) -> Vec<(ObjectName, ObjectName)> {
        let limit_ms = now_ms.saturating_sub(self.keep_ms);
        let (mut expired, mut kept_bases) = (Vec::new(), 0);
        // A base of a later history that is older than the kept time.
        let mut replacing = None::<StoredObject>;
        for history in catalog.of_cluster(cluster).rev() {
            let mut bases = history.bases.iter().rev();
            let boundary = bases.find(|base| {
                kept_bases += 1;
                base.name.time_ms <= limit_ms && kept_bases >= self.bases_min
            });
            match (replacing, boundary) {
                (Some(base), _) => {
                    let all = history.objects().map(|object| object.name);
                    expired.extend(all.map(|name| (name, base.name)));
                }
                (None, Some(base)) => {
                    let before = before(history, base.name.last);
                    expired.extend(before.map(|name| (name, base.name)));
                }
                (None, None) => {}
            }
            replacing = replacing.or(boundary.copied());
        }
        expired.sort_by_key(|(name, _)| !name.is_base());
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
