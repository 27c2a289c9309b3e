//! Letting go of segments.

use crate::Error;
use crate::shared::Shared;

impl Shared {
    /// Recycles or removes sealed segments: all of them, or none when one may
    /// not go. Lasting when it returns.
    pub fn release(&self, ids: &[u32]) -> Result<(), Error> {
        for &id in ids {
            self.check_releasable(id)?;
        }
        let mut spares = Vec::new();
        for &id in ids {
            // Absent when the caller named it twice.
            if let Some(segment) = self.segments.remove(id) {
                spares.extend(self.supply.recycle(&segment)?);
            }
        }
        if !ids.is_empty() {
            self.supply.sync_directory()?;
            self.supply.put_back(&spares);
            self.supply.retry();
        }
        Ok(())
    }

    fn check_releasable(&self, id: u32) -> Result<(), Error> {
        match self.segments.get(id) {
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
}
