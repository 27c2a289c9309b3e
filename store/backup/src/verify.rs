//! Reads every object of a history, and says which are damaged.

use crate::catalog::BackupHistory;
use crate::name::ObjectName;
use crate::place::BackupPlace;
use crate::{Error, restore};

/// Reads every object. `progress` gets the bytes of each object behind it. Returns those that cannot be used,
/// with the reason.
pub async fn verify(
    place: &BackupPlace,
    history: &BackupHistory,
    mut progress: impl FnMut(u64),
) -> Result<Vec<(ObjectName, Error)>, Error> {
    let mut faults = Vec::new();
    for object in history.objects() {
        let name = object.name;
        let read = match name.is_base() {
            true => restore::check_base(place, &name).await,
            false => place.read(&name).await.map(drop),
        };
        match read {
            Err(error) if error.is_loss() || matches!(error, Error::Version { .. }) => {
                faults.push((name, error));
            }
            read => read?,
        }
        progress(object.bytes);
    }
    Ok(faults)
}
