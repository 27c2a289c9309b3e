//! A place in an object store: objects by their names.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetResult, MultipartUpload, ObjectStore, ObjectStoreExt};

use crate::changes::SealedChanges;
use crate::format::HEADER_BYTES;
use crate::header::Header;
use crate::name::ObjectName;
use crate::{Error, Mark, changes};

/// Time that one request to the store may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Pause after the first attempt that failed; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often a reader asks for an object before it gives up.
const READ_ATTEMPTS: u32 = 4;

/// The folder of an object store that has backups.
#[derive(Clone, Debug)]
pub struct BackupPlace {
    store: Arc<dyn ObjectStore>,
    root: Path,
}

/// An object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name.
    pub name: ObjectName,
    /// Its size.
    pub bytes: u64,
}

/// The facts in the header of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseFacts {
    /// Its compaction; -1: none.
    pub compacted: i64,
    /// Number of the state of users.
    pub auth_revision: u64,
    /// Of its revision.
    pub mark: Mark,
}

impl BackupPlace {
    /// The folder `root` of a store.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path) -> BackupPlace {
        BackupPlace { store, root }
    }

    fn path(&self, name: &ObjectName) -> Path {
        self.root
            .parts()
            .chain(Path::from(name.path()).parts())
            .collect()
    }

    /// All objects of backups, ascending by path. Others are left out.
    pub async fn list(&self) -> Result<Vec<StoredObject>, Error> {
        reading(|| self.list_once()).await
    }

    async fn list_once(&self) -> Result<Vec<StoredObject>, Error> {
        let found = self.store.list(Some(&self.root)).try_collect::<Vec<_>>();
        let root = match self.root.as_ref() {
            "" => "the backup's folder",
            root => root,
        };
        let found = within(root, "list", found).await?;
        let objects = found.iter().filter_map(|meta| {
            let below: Path = meta.location.prefix_match(&self.root)?.collect();
            let name = ObjectName::parse(below.as_ref())?;
            let bytes = meta.size;
            Some(StoredObject { name, bytes })
        });
        let mut objects: Vec<StoredObject> = objects.collect();
        objects.sort_by_key(|object| object.name.path());
        Ok(objects)
    }

    /// Stores an object in one attempt. A repetition writes the same bytes again.
    pub async fn put_once(&self, object: &SealedChanges) -> Result<(), Error> {
        let path = self.path(&object.name);
        let put = self.store.put(&path, object.bytes.clone().into());
        within(path.as_ref(), "write", put).await.map(drop)
    }

    pub(crate) async fn begin(&self, name: &ObjectName) -> Result<Box<dyn MultipartUpload>, Error> {
        let path = self.path(name);
        within(path.as_ref(), "write", self.store.put_multipart(&path)).await
    }

    /// Reads changes, and checks everything about them.
    pub async fn read(&self, name: &ObjectName) -> Result<changes::OpenedChanges, Error> {
        reading(|| async {
            let got = self.get(name).await?;
            let bytes = within(name.path(), "read", got.bytes()).await?;
            changes::open(name, &bytes)
        })
        .await
    }

    pub(crate) async fn get(&self, name: &ObjectName) -> Result<GetResult, Error> {
        let path = self.path(name);
        within(path.as_ref(), "read", self.store.get(&path)).await
    }

    /// The facts in the header of a base. Its SHA-256 is not compared.
    pub async fn base_facts(&self, name: &ObjectName) -> Result<BaseFacts, Error> {
        let path = self.path(name);
        let begin = reading(|| async {
            let got = self.store.get_range(&path, 0..HEADER_BYTES as u64);
            Header::decode(name, &within(path.as_ref(), "read", got).await?)
        });
        let header = begin.await?;
        Ok(BaseFacts {
            compacted: header.compacted,
            auth_revision: header.auth_revision,
            mark: header.mark,
        })
    }

    /// Deletes an object. One that is not there is no error.
    pub async fn delete(&self, name: &ObjectName) -> Result<(), Error> {
        let path = self.path(name);
        match within(path.as_ref(), "delete", self.store.delete(&path)).await {
            Err(error) if error.is_missing() => Ok(()),
            outcome => outcome,
        }
    }
}

/// Waits for an answer of the store.
pub(crate) async fn within<T>(
    object: impl ToString,
    action: &'static str,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(REQUEST_TIME_MAX, request).await {
        Ok(answer) => answer.map_err(|source| Error::Store {
            object: object.to_string(),
            action,
            source,
        }),
        Err(_) => Err(Error::Late {
            object: object.to_string(),
            action,
            seconds: REQUEST_TIME_MAX.as_secs(),
        }),
    }
}

/// Pauses between attempts: each is twice as long as the one before, up to a bound.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(PAUSE_MIN)
    }
}

impl Pauses {
    /// Waits for the next attempt.
    pub async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

/// Repeats what only reads. An object that is damaged is read once more, because a connection may have
/// damaged it.
pub(crate) async fn reading<T>(read: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let mut pauses = Pauses::default();
    for _ in 1..READ_ATTEMPTS {
        match read().await {
            Err(error) if error.is_loss() || !error.is_permanent() => pauses.pause().await,
            outcome => return outcome,
        }
    }
    read().await
}
