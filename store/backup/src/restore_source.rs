//! The objects of a history that a restore can read, while another process merges and deletes them.
//!
//! An object that is missing may have been merged into another one since the place was listed, so the place is
//! listed again before anything is given up.

use crate::Error;
use crate::catalog::{BackupHistory, Catalog};
use crate::name::ObjectName;
use crate::place::BackupPlace;

/// How often a restore lists a place again. Sixty objects are merged at a time, so that few are needed.
const LISTS_MAX: usize = 20;

/// Objects that a restore reads.
pub(crate) struct RestoreSource<'p> {
    place: &'p BackupPlace,
    /// Objects that are listed, without those that were given up.
    left: BackupHistory,
    /// Objects that cannot be used, with the reason.
    given_up: Vec<(ObjectName, Error)>,
    lists: usize,
}

impl<'p> RestoreSource<'p> {
    pub fn new(place: &'p BackupPlace, history: &BackupHistory) -> RestoreSource<'p> {
        RestoreSource {
            place,
            left: history.clone(),
            given_up: Vec::new(),
            lists: 0,
        }
    }

    pub fn place(&self) -> &'p BackupPlace {
        self.place
    }

    /// The objects that are left.
    pub fn left(&self) -> &BackupHistory {
        &self.left
    }

    /// Objects that cannot be used, with the reason.
    pub fn finish(self) -> Vec<(ObjectName, Error)> {
        self.given_up
    }

    /// Objects that have the revisions behind `base` up to `revision`, from a new list; `None` if there are none
    /// or if the place was listed too often.
    pub async fn cover_again(
        &mut self,
        base: i64,
        revision: i64,
    ) -> Result<Option<Vec<ObjectName>>, Error> {
        match self.list_again().await? {
            true => Ok(self.left.cover(base, revision)),
            false => Ok(None),
        }
    }

    /// Goes on without an object.
    pub async fn give_up(&mut self, name: ObjectName, error: Error) -> Result<(), Error> {
        if error.is_missing() {
            self.list_again().await?;
        }
        self.left.remove(&name);
        self.given_up.push((name, error));
        Ok(())
    }

    async fn list_again(&mut self) -> Result<bool, Error> {
        if self.lists == LISTS_MAX {
            return Ok(false);
        }
        self.lists += 1;
        self.left = Catalog::read_history(self.place, &self.left).await?;
        for (name, _) in &self.given_up {
            self.left.remove(name);
        }
        Ok(true)
    }
}
