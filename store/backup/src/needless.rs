//! Objects that may be deleted because others make them needless. Those others are read first: a name says what
//! an object should have, and not that it has it.

use std::collections::BTreeSet;

use crate::Error;
use crate::catalog::Catalog;
use crate::name::ObjectName;
use crate::place::BackupPlace;
use crate::restore::check_base;

/// Finds objects that may be deleted.
pub(crate) struct Needless<'p> {
    place: &'p BackupPlace,
    /// Paths of objects that were read, and are whole.
    whole: BTreeSet<String>,
}

impl<'p> Needless<'p> {
    pub fn new(place: &'p BackupPlace) -> Needless<'p> {
        Needless {
            place,
            whole: BTreeSet::new(),
        }
    }

    /// The objects that `pairs` names first, once each that it names second was read. One that is lost or
    /// damaged is taken out of the catalog, and `pairs` is asked again.
    pub async fn find(
        &mut self,
        catalog: &mut Catalog,
        pairs: impl Fn(&Catalog) -> Vec<(ObjectName, ObjectName)>,
    ) -> Result<Vec<ObjectName>, Error> {
        loop {
            let pairs = pairs(catalog);
            let others: Vec<ObjectName> = pairs.iter().map(|pair| pair.1).collect();
            match self.first_lost(&others).await? {
                Some(lost) => catalog.remove(&lost),
                None => return Ok(pairs.into_iter().map(|pair| pair.0).collect()),
            }
        }
    }

    async fn first_lost(&mut self, names: &[ObjectName]) -> Result<Option<ObjectName>, Error> {
        for name in names {
            if self.whole.contains(&name.path()) {
                continue;
            }
            let read = match name.is_base() {
                true => check_base(self.place, name).await,
                false => self.place.read(name).await.map(drop),
            };
            match read {
                Ok(()) => self.whole.insert(name.path()),
                Err(error) if error.is_loss() => return Ok(Some(*name)),
                Err(error) => return Err(error),
            };
        }
        Ok(None)
    }
}
