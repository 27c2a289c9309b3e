//! Releasing segments.

use crate::Error;
use crate::segment::{Segments, SpareFile};
use crate::segment_pool::SegmentPool;

/// Recycles or removes sealed segments: none if one of them must not be released, otherwise
/// all of them, or all before the one at which the disk fails, which stays in use. Releases
/// are durable when this returns.
pub(crate) fn release(segments: &Segments, pool: &SegmentPool, ids: &[u32]) -> Result<(), Error> {
    for &id in ids {
        check_releasable(segments, id)?;
    }
    if ids.is_empty() {
        return Ok(());
    }
    let mut spares = Vec::new();
    let recycled = ids
        .iter()
        .try_for_each(|&id| recycle(segments, pool, id, &mut spares));
    pool.sync_directory()?;
    pool.put_back(&spares);
    pool.retry();
    recycled
}

/// Adds the spare that the file becomes, if it becomes one.
fn recycle(
    segments: &Segments,
    pool: &SegmentPool,
    id: u32,
    spares: &mut Vec<SpareFile>,
) -> Result<(), Error> {
    // It is absent when the caller named it twice.
    let Some(segment) = segments.remove(id) else {
        return Ok(());
    };
    let is_pinned = !segment.pins.close();
    let recycled = match is_pinned {
        true => pool.remove(&segment.path).map(|()| None),
        false => pool.recycle(&segment),
    };
    match recycled {
        Ok(spare) => {
            segment.set_released();
            spares.extend(spare);
            Ok(())
        }
        Err(error) => {
            segment.pins.reopen();
            segments.insert(segment);
            Err(error)
        }
    }
}

fn check_releasable(segments: &Segments, id: u32) -> Result<(), Error> {
    match segments.get(id) {
        None => Err(Error::Misuse {
            what: format!("there is no segment {id:08x} to release"),
        }),
        Some(segment) if !segment.extent().sealed => Err(Error::Misuse {
            what: format!(
                "segment {id:08x} is still being written; rotate the log before releasing it"
            ),
        }),
        Some(_) => Ok(()),
    }
}
