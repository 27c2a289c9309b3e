//! Releasing segments.

use crate::Error;
use crate::shared::Shared;

impl Shared {
    /// Recycles or removes sealed segments: none if one of them must not be released, otherwise
    /// all of them, or all before the one at which the disk fails, which stays in use. Releases
    /// are durable when this returns.
    pub fn release(&self, ids: &[u32]) -> Result<(), Error> {
        for &id in ids {
            self.check_releasable(id)?;
        }
        if ids.is_empty() {
            return Ok(());
        }
        let mut spares = Vec::new();
        let recycled = ids.iter().try_for_each(|&id| self.recycle(id, &mut spares));
        self.supply.sync_directory()?;
        self.supply.put_back(&spares);
        self.supply.retry();
        recycled
    }

    /// Adds the number of the spare that the file becomes, if it becomes one.
    fn recycle(&self, id: u32, spares: &mut Vec<u32>) -> Result<(), Error> {
        // It is absent when the caller named it twice.
        let Some(segment) = self.segments.remove(id) else {
            return Ok(());
        };
        match self.supply.recycle(&segment) {
            Ok(number) => {
                segment.set_released();
                spares.extend(number);
                Ok(())
            }
            Err(error) => {
                self.segments.insert(segment);
                Err(error)
            }
        }
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
