//! The handle of the request tasks, for reads that never wait for the replica thread.

use std::sync::Arc;

use engine::{Engine, Snapshot};
use etcd_api::EncodedKeyValue;
use etcd_api::etcdserverpb::{
    AlarmMember, AlarmType, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

use etcd_api::inkstonepb::{ChildrenRequest, ChildrenResponse};

use crate::hash::hash_versions;
use crate::source::SourceCluster;
use etcd_api::Error as Refusal;

use crate::key_range::KeyRange;
use crate::machine_state::MachineState;
use crate::member::Members;
use crate::user_reader::UserReader;
use crate::view::{KeyVersion, View};
use crate::{
    Error, FoundRange, KeyValueHash, RangeStream, WatchHub, checkpoint, children, range,
    transaction,
};

/// Reads of applied state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) shared: Arc<MachineState>,
}

impl Reader {
    /// The engine, for its status and sizes.
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Newest applied revision; 1 when nothing was ever written.
    pub fn revision(&self) -> i64 {
        self.shared.engine.snapshot().revision()
    }

    /// Reads below this revision are refused; -1 before the first compaction.
    pub fn compacted(&self) -> i64 {
        self.shared.engine.snapshot().compacted()
    }

    /// Returns the version of one key at a revision (0 and below: the newest), as a range request
    /// for that key would.
    pub fn get(&self, key: &[u8], revision: i64) -> Result<Option<EncodedKeyValue>, Error> {
        let snapshot = self.shared.engine.snapshot();
        // The newest revision is never compacted: no need to look.
        let at = match revision {
            ..=0 => snapshot.revision(),
            _ => self.view(&snapshot).resolve(revision)?,
        };
        let stored = self.shared.engine.fetch(snapshot, key, at)?;
        Ok(stored.map(|stored| KeyVersion::from(stored).encoded))
    }

    /// Answers a range.
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let snapshot = self.shared.engine.snapshot();
        range::range(self.view(&snapshot), request)
    }

    /// Answers a range if that reads at most `bytes_max` bytes of records. Otherwise returns
    /// `None` and reads no record.
    pub fn range_within(
        &self,
        request: &RangeRequest,
        bytes_max: u64,
    ) -> Result<Option<RangeResponse>, Error> {
        let snapshot = self.shared.engine.snapshot();
        let view = self.view(&snapshot);
        let found = range::find(view, request)?;
        if found.log_bytes() > bytes_max {
            return Ok(None);
        }
        range::read(view, request, found).map(Some)
    }

    /// Lists a prefix as a folder, in a bounded time, and reads no value.
    pub fn children(&self, request: &ChildrenRequest) -> Result<ChildrenResponse, Error> {
        let snapshot = self.shared.engine.snapshot();
        children::children(self.view(&snapshot), request)
    }

    /// Looks up the keys of a range, so that the caller knows how many bytes reading them takes.
    pub fn find_range(&self, request: &RangeRequest) -> Result<FoundRange, Error> {
        let snapshot = self.shared.engine.snapshot();
        range::find(self.view(&snapshot), request)
    }

    /// Answers a range with the keys that [`Reader::find_range`] returned for the same request.
    /// Fails if a version was compacted in between.
    pub fn read_range(
        &self,
        request: &RangeRequest,
        found: FoundRange,
    ) -> Result<RangeResponse, Error> {
        let snapshot = self.shared.engine.snapshot();
        range::read(self.view(&snapshot), request, found)
    }

    /// Answers a range in chunks, all at one revision. `chunk_bytes`: about
    /// how large a chunk may become (etcd: max-request-bytes).
    pub fn range_stream(&self, request: RangeRequest, chunk_bytes: usize) -> RangeStream {
        RangeStream::new(self.clone(), request, chunk_bytes)
    }

    /// Counts the keys in a range at a revision, without visiting them.
    pub(crate) fn count(&self, keys: KeyRange<'_>, revision: i64) -> Result<i64, Error> {
        let snapshot = self.shared.engine.snapshot();
        let view = self.view(&snapshot);
        Ok(view.count(keys, view.resolve(revision)?))
    }

    /// Answers a transaction that holds ranges only
    /// ([`crate::is_read_only`]); refuses any other as `NotCapable`.
    pub fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, Error> {
        let snapshot = self.shared.engine.snapshot();
        transaction::read_only(self.view(&snapshot), request)
    }

    /// The applied members of the cluster.
    pub fn members(&self) -> Arc<Members> {
        Arc::clone(&self.shared.applied().members)
    }

    /// Returns whether a removed member had this id.
    pub fn is_removed(&self, id: u64) -> bool {
        self.shared.applied().members.is_removed(id)
    }

    /// Raised alarms.
    pub fn alarms(&self) -> Vec<AlarmMember> {
        self.shared.applied().alarms.members(AlarmType::None as i32)
    }

    /// The version that a downgrade goes to, while one is enabled.
    pub fn downgrade(&self) -> Option<String> {
        self.shared.applied().downgrade.clone()
    }

    /// Bytes that count against the quota, and the quota.
    pub fn quota(&self) -> (u64, Option<u64>) {
        (self.shared.used_bytes(), self.shared.options.quota_bytes)
    }

    /// Reads users and roles.
    pub fn users(&self) -> UserReader<'_> {
        UserReader {
            shared: &self.shared,
        }
    }

    /// The cluster that the store follows.
    pub fn source(&self) -> Option<SourceCluster> {
        self.shared.applied().source.clone()
    }

    pub fn watch_hub(&self) -> &Arc<WatchHub> {
        &self.shared.hub
    }

    pub(crate) fn view<'a>(&'a self, snapshot: &'a Snapshot) -> View<'a> {
        View {
            engine: &self.shared.engine,
            snapshot,
            overlay: &self.shared.no_overlay,
            revision: snapshot.revision(),
            compacted: snapshot.compacted(),
            budget: None,
        }
    }

    /// Computes etcd's HashKV at a revision; 0 is the newest. A negative revision has no
    /// versions; etcd accepts it without an error.
    pub fn hash_kv(&self, revision: i64) -> Result<KeyValueHash, Error> {
        let snapshot = self.shared.engine.snapshot();
        let (newest, compacted) = (snapshot.revision(), snapshot.compacted());
        drop(snapshot);
        if let Some(hash) = self.shared.compacted_hashes.of(revision, newest)? {
            return Ok(hash);
        }
        if revision > 0 && revision < compacted {
            return Err(Refusal::Compacted.into());
        }
        if revision > newest {
            return Err(Refusal::FutureRevision.into());
        }
        if revision < 0 {
            return Ok(KeyValueHash::of_nothing(revision, compacted, newest));
        }
        let hash_revision = if revision == 0 { newest } else { revision };
        let engine = &self.shared.engine;
        let versions = engine.versions_in_revision_order(hash_revision)?;
        // The revision may have been compacted just now. If it was requested as 0, the remaining
        // versions are hashed nevertheless, as in etcd.
        if revision > 0
            && versions.compacted() == hash_revision
            && let Some(hash) = self.shared.compacted_hashes.of(hash_revision, newest)?
        {
            return Ok(hash);
        }
        hash_versions(versions, hash_revision, || true)
    }

    /// The hashes of compacted revisions that are kept, the newest first.
    pub fn compacted_hashes(&self) -> Vec<KeyValueHash> {
        self.shared.compacted_hashes.taken()
    }

    /// Returns a hash of the whole state and the revision that was hashed. Nodes with equal state
    /// have equal hashes; etcd's hash is another one.
    pub fn hash(&self) -> Result<(u32, i64), Error> {
        let keys = self.hash_kv(0)?;
        let state = checkpoint::encode(&self.shared.applied(), keys.hash_revision);
        Ok((keys.with_state(&state), keys.revision))
    }
}
