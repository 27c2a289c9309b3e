//! Reads every object of a history, and says which are damaged.

use std::collections::{HashSet, VecDeque};

use crate::catalog::{BackupHistory, Catalog};
use crate::merge::replaces;
use crate::name::ObjectName;
use crate::place::{BackupPlace, StoredObject};
use crate::{Error, restore};

/// Reads every object. `progress` gets the bytes of each object behind it. Returns those that cannot be used,
/// with the reason. An object that another process deletes in the meantime is no fault: in its place, the one
/// is read that contains it.
pub async fn verify(
    place: &BackupPlace,
    history: &BackupHistory,
    mut progress: impl FnMut(u64),
) -> Result<Vec<(ObjectName, Error)>, Error> {
    let mut faults = Vec::new();
    let mut left: VecDeque<StoredObject> = history.objects().copied().collect();
    let mut known: HashSet<ObjectName> = left.iter().map(|object| object.name).collect();
    while let Some(object) = left.pop_front() {
        let name = object.name;
        match read(place, &name).await {
            Err(error) if error.is_missing() => {
                let now = Catalog::read_history(place, history).await?;
                match instead_of(&now, &name) {
                    Deleted::Merged(other) if known.insert(other.name) => left.push_back(other),
                    Deleted::Merged(_) | Deleted::Expired => {}
                    Deleted::Lost => faults.push((name, error)),
                }
            }
            Err(error) if error.is_loss() || matches!(error, Error::Version { .. }) => {
                faults.push((name, error));
            }
            outcome => outcome?,
        }
        progress(object.bytes);
    }
    Ok(faults)
}

async fn read(place: &BackupPlace, name: &ObjectName) -> Result<(), Error> {
    match name.is_base() {
        true => restore::check_base(place, name).await,
        false => place.read(name).await.map(drop),
    }
}

/// Why an object is missing.
enum Deleted {
    /// This one has what it had.
    Merged(StoredObject),
    /// The oldest base is as new as it was.
    Expired,
    /// For no reason.
    Lost,
}

fn instead_of(now: &BackupHistory, name: &ObjectName) -> Deleted {
    let is_listed = now.objects().any(|object| object.name == *name);
    let mut others = now.changes.iter();
    let merged = others.find(|other| !name.is_base() && replaces(&other.name, name));
    let oldest = now.bases.first();
    let is_expired = oldest.is_some_and(|base| name.last <= base.name.last);
    match merged {
        _ if is_listed => Deleted::Lost,
        Some(other) => Deleted::Merged(*other),
        None if is_expired => Deleted::Expired,
        None => Deleted::Lost,
    }
}
