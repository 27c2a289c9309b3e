//! A process that adds to a history.

use environment::Mutex;

use crate::base::BaseFile;
use crate::catalog::{BackupHistory, Catalog, ID_RANDOM_BITS};
use crate::changes::{Origin, seal};
use crate::mark::Mark;
use crate::merge::{Unmerged, merge};
use crate::name::ObjectName;
use crate::needless::Needless;
use crate::place::{BackupPlace, Pauses, StoredObject};
use crate::retention::Retention;
use crate::{ChangeBatch, Error};

/// A history that this process adds to.
#[derive(Debug)]
pub struct BackupSession {
    place: BackupPlace,
    origin: Origin,
    /// The objects that this process knows to be there.
    history: Mutex<BackupHistory>,
}

/// The newest revision that is stored. A watch that begins at it must show the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The revision.
    pub revision: i64,
    /// Of its rows.
    pub mark: Mark,
}

/// How a session begins.
#[derive(Debug)]
pub enum SessionStart {
    /// It goes on behind the anchor.
    Continued(Anchor),
    /// It has no objects yet.
    New,
    /// It has no objects yet, because the newest of the history before cannot be used.
    Replaced(Error),
}

/// Receives errors after which another attempt is made.
type Notice<'n> = &'n dyn Fn(&Error);

impl BackupSession {
    /// Continues the newest history of a cluster, or begins the first one. `nonce` is a random number.
    pub async fn open(
        place: BackupPlace,
        cluster: u64,
        nonce: u64,
        now_ms: u64,
    ) -> Result<(BackupSession, SessionStart), Error> {
        let catalog = Catalog::read(&place).await?;
        let newest = catalog.of_cluster(cluster).next_back();
        let continued = newest.and_then(|history| Some((history, history.end()?)));
        let Some((history, name)) = continued else {
            return Ok((
                BackupSession::begin(place, cluster, nonce, now_ms),
                SessionStart::New,
            ));
        };
        match anchor(&place, &name).await {
            Ok(anchor) => {
                let origin = Origin {
                    cluster,
                    history: history.id,
                    nonce,
                };
                let history = Mutex::new(history.clone());
                let session = BackupSession {
                    place,
                    origin,
                    history,
                };
                Ok((session, SessionStart::Continued(anchor)))
            }
            Err(error) if error.is_loss() => {
                let session = BackupSession::begin(place, cluster, nonce, now_ms);
                Ok((session, SessionStart::Replaced(error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Begins a history.
    pub fn begin(place: BackupPlace, cluster: u64, nonce: u64, now_ms: u64) -> BackupSession {
        let random = nonce & ((1 << ID_RANDOM_BITS) - 1);
        let history = (now_ms << ID_RANDOM_BITS) | random;
        BackupSession {
            place,
            origin: Origin {
                cluster,
                history,
                nonce,
            },
            history: Mutex::new(BackupHistory::new(cluster, history)),
        }
    }

    /// The same process, with a new history.
    pub fn begin_another(&self, now_ms: u64) -> BackupSession {
        let origin = self.origin;
        BackupSession::begin(self.place.clone(), origin.cluster, origin.nonce, now_ms)
    }

    /// Where objects of this process belong.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// A copy of what is known to be there.
    pub fn history(&self) -> BackupHistory {
        self.history.lock().clone()
    }

    /// The newest base.
    pub fn newest_base(&self) -> Option<ObjectName> {
        let history = self.history.lock();
        history.bases.last().map(|base| base.name)
    }

    /// Number of the state of users in a base.
    pub async fn auth_revision(&self, base: &ObjectName) -> Result<u64, Error> {
        Ok(self.place.base_facts(base).await?.auth_revision)
    }

    /// Stores batches, each of which follows the one before, as one object. Repeats it until it works, or
    /// until an operator has to change something.
    pub async fn store_changes(
        &self,
        batches: &[ChangeBatch],
        notice: Notice<'_>,
    ) -> Result<(), Error> {
        let object = seal(self.origin, 0, batches);
        repeating(notice, || self.place.put_once(&object)).await?;
        self.added(object.name, object.bytes.len() as u64);
        Ok(())
    }

    /// Stores a base, and reads it back. Repeats it as [`BackupSession::store_changes`].
    pub async fn store_base(
        &self,
        file: &BaseFile,
        begun_ms: u64,
        time_ms: u64,
        notice: Notice<'_>,
    ) -> Result<ObjectName, Error> {
        let store = || file.store(&self.place, self.origin, begun_ms, time_ms);
        let name = repeating(notice, store).await?;
        self.added(name, 0);
        Ok(name)
    }

    fn added(&self, name: ObjectName, bytes: u64) {
        self.history.lock().insert(StoredObject { name, bytes });
    }

    /// Merges objects, if there are enough. An object that is lost or damaged is an error, once: later merges
    /// leave it out.
    pub async fn merge_once(&self) -> Result<bool, Error> {
        let Some(names) = self.history.lock().next_merge() else {
            return Ok(false);
        };
        let merged = match merge(&self.place, self.origin, &names).await {
            Ok(merged) => merged,
            Err(Unmerged::Unread(name, error)) => {
                if error.is_loss() {
                    self.history.lock().remove(&name);
                }
                return Err(error);
            }
            Err(Unmerged::Unstored(error)) => return Err(error),
        };
        self.added(merged.object.name, merged.object.bytes.len() as u64);
        // An object that is not deleted is not merged again: `expire` finds it.
        for name in &merged.contained {
            self.history.lock().remove(name);
        }
        for name in &merged.contained {
            self.place.delete(name).await?;
        }
        Ok(true)
    }

    /// Deletes what no revision of the kept time needs, and what larger objects contain. Nothing is deleted before
    /// the objects that make it needless were read. Returns the number of deleted objects.
    pub async fn expire(&self, retention: Retention, now_ms: u64) -> Result<usize, Error> {
        let mut catalog = Catalog::read(&self.place).await?;
        let mut needless = Needless::new(&self.place);
        let cluster = self.origin.cluster;
        let expired = |catalog: &Catalog| retention.expired(catalog, cluster, now_ms);
        let mut names = needless.find(&mut catalog, expired).await?;
        let superseded = |catalog: &Catalog| self.superseded(catalog);
        names.extend(needless.find(&mut catalog, superseded).await?);
        for name in &names {
            self.place.delete(name).await?;
            self.history.lock().remove(name);
        }
        Ok(names.len())
    }

    fn superseded(&self, catalog: &Catalog) -> Vec<(ObjectName, ObjectName)> {
        let own = catalog.of_cluster(self.origin.cluster);
        let own = own.filter(|history| history.id == self.origin.history);
        own.flat_map(BackupHistory::superseded).collect()
    }
}

async fn anchor(place: &BackupPlace, name: &ObjectName) -> Result<Anchor, Error> {
    let mark = match name.is_base() {
        true => place.base_facts(name).await?.mark,
        false => place.read(name).await?.mark,
    };
    let revision = name.last;
    Ok(Anchor { revision, mark })
}

/// Repeats what another attempt may do.
async fn repeating<T>(
    notice: Notice<'_>,
    action: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut pauses = Pauses::default();
    loop {
        match action().await {
            // What was read back may be right the next time.
            Err(error) if error.is_loss() || !error.is_permanent() => {
                notice(&error);
                pauses.pause().await;
            }
            outcome => return outcome,
        }
    }
}
