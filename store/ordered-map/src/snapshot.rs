//! A read-only view of the map at one moment.

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use engine::{Engine, KeyChange};

use crate::bounds::Bounds;
use crate::core::Core;
use crate::held::Hold;
use crate::{Error, Range, pair};

/// The map as it was when the snapshot was made. Clones share it; versions that later writes
/// replace are kept until the last clone is dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let map = ordered_map::Map::open(directory.path().join("data"))?;
/// map.put("stone", "grey")?;
/// let before = map.snapshot();
/// map.put("stone", "black")?;
/// assert_eq!(before.get("stone")?.as_deref(), Some(&b"grey"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    core: Arc<Core>,
    hold: Arc<Hold>,
}

impl Snapshot {
    pub(crate) fn new(core: Arc<Core>) -> Snapshot {
        let hold = Arc::new(core.hold());
        Snapshot { core, hold }
    }

    /// Returns the value that the key had, or `None` if it did not exist.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        read(&self.core.engine, key.as_ref(), self.revision())
    }

    /// Iterates over the keys in a range and their values.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        Range::new(self.clone(), Bounds::of(range))
    }

    /// Iterates over the keys that begin with `prefix` and their values.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::new(self.clone(), Bounds::prefix(prefix.as_ref()))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.core.engine
    }

    pub(crate) fn revision(&self) -> i64 {
        self.hold.revision
    }
}

/// Reads the value that a key has at a revision; `i64::MAX` is the newest.
pub(crate) fn read(engine: &Engine, key: &[u8], at: i64) -> Result<Option<Bytes>, Error> {
    let found = engine.fetch(engine.snapshot(), key, at)?;
    found.map(value).transpose()
}

/// Decodes the value of a stored version.
fn value(stored: KeyChange) -> Result<Bytes, Error> {
    let found = pair::value(stored.kv);
    found.ok_or_else(|| no_pair(&stored.key, stored.revision.main))
}

pub(crate) fn no_pair(key: &[u8], main: i64) -> Error {
    let what = format!(
        "the version of {} written as number {} is no pair of a key and a value; it was \
         written by a newer version, or by another program",
        key.escape_ascii(),
        main
    );
    engine::Error::Replay(what).into()
}
