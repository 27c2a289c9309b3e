//! Callers: the identity behind a call, and what it may do. The only layer with checks of users.
//!
//! ```text
//!   metadata `token`, `authorization` ─┐
//!   client certificate's common name ──┴─► Credentials ──► Standing: an identity, before the users
//!                                                             │      of this moment
//!        Method::needs ──► Caller::admit  ◄───────────────────┤  identity, administrator
//!        a command     ──► Caller::sign   ◄───────────────────┤  checked where it is evaluated
//!        a read        ──► Caller::may_…  ◄───────────────────┘  checked before and after
//! ```
//!
//! A call cannot forget its check: [`Method::needs`] matches every method; [`Backend::execute`]
//! takes a [`Signed`] command, and reads take a [`Permit`], which nothing but a caller makes.
//! While users are not checked, all of it costs one load.
//!
//! A refusal is never the fault of a member that lags: before a token or an administrator is
//! refused, the member makes sure that it has seen every acknowledged change.

pub(crate) mod signed;
pub(crate) mod standing;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use auth::{Access, Identity, Proof};
use bytes::Bytes;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::TxnRequest;
use revisions::{Command, Response, TraceContext};
use tls::ClientCertificate;
use tonic::codegen::http::Extensions;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Status};

use crate::backend::Backend;
use crate::client::{Client, KnownToken};
use crate::lock;
use crate::methods::Method;
use crate::tokens::Found;

pub(crate) use signed::Signed;
pub(crate) use standing::Standing;

/// Rights that a call needs while users are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it is open to all callers.
    Nothing,
    /// Any identity.
    Identity,
    /// The role `root`.
    Administrator,
    /// The handler derives the rights from the request: permissions on keys, for example.
    OfRequest,
}

impl Method {
    /// Returns the rights that the call needs before its handler runs.
    pub(crate) const fn needs(self) -> Need {
        match self {
            Method::AuthStatus
            | Method::Authenticate
            | Method::HealthCheck
            | Method::HealthList
            | Method::HealthWatch => Need::Nothing,
            Method::LeaseGrant
            | Method::LeaseRevoke
            | Method::LeaseTimeToLive
            | Method::LeaseLeases
            | Method::MemberList
            | Method::Status
            | Method::ViewOverview => Need::Identity,
            Method::Compact
            | Method::MemberRemove
            | Method::MemberUpdate
            | Method::MemberPromote
            | Method::Defragment
            | Method::Hash
            | Method::HashKv
            | Method::Snapshot
            | Method::MoveLeader
            | Method::Downgrade
            | Method::FollowChange
            | Method::FollowSource
            | Method::SnapshotCompressed
            | Method::AuthEnable
            | Method::AuthDisable
            | Method::UserAdd
            | Method::UserList
            | Method::UserDelete
            | Method::UserChangePassword
            | Method::UserGrantRole
            | Method::UserRevokeRole
            | Method::RoleAdd
            | Method::RoleList
            | Method::RoleDelete
            | Method::RoleGrantPermission
            | Method::RoleRevokePermission => Need::Administrator,
            Method::Range
            | Method::RangeStream
            | Method::Put
            | Method::DeleteRange
            | Method::Txn
            | Method::Watch
            | Method::LeaseKeepAlive
            | Method::MemberAdd
            | Method::Alarm
            | Method::UserGet
            | Method::RoleGet
            | Method::Lock
            | Method::Unlock
            | Method::Campaign
            | Method::Proclaim
            | Method::Leader
            | Method::Observe
            | Method::Resign
            | Method::ViewChildren => Need::OfRequest,
        }
    }
}

/// A call's client, with the credentials of the call.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    client: Arc<Client>,
    credentials: Credentials,
    /// The trace that its commands belong to.
    trace: Option<TraceContext>,
}

/// Proofs of an identity that a call brings. Printing them shows none of them.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    /// With or without the word `Bearer` in front.
    token: Option<MetadataValue<Ascii>>,
    /// The certificate's common name, unless the JSON gateway made the connection.
    common_name: Option<Arc<str>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

impl Credentials {
    /// The credentials of a call.
    pub(crate) fn of(metadata: &MetadataMap, extensions: &Extensions) -> Credentials {
        let token = metadata.get("token").or(metadata.get("authorization"));
        let certificate = extensions.get::<ClientCertificate>();
        let certificate = certificate.filter(|it| !it.common_name.is_empty());
        let certificate = certificate.filter(|_| metadata.get("grpcgateway-accept").is_none());
        Credentials {
            token: token.cloned(),
            common_name: certificate.map(|it| it.common_name.as_str().into()),
        }
    }

    fn token(&self) -> Option<&[u8]> {
        let token = self.token.as_ref()?.as_bytes();
        Some(token.strip_prefix(b"Bearer ").unwrap_or(token))
    }
}

/// The permission for one read.
#[must_use]
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    /// Version of the users with which it was checked; `None`: without a check.
    version: Option<u64>,
}

impl Permit {
    const UNCHECKED: Permit = Permit { version: None };

    /// Refuses what was read if the users have changed in between, as etcd does; also if they were
    /// being changed, when the keys of that moment may have been newer than its users.
    pub(crate) fn still_holds(&self, backend: &Backend) -> Result<(), Status> {
        let Some(version) = self.version else {
            return Ok(());
        };
        let is_whole = version.is_multiple_of(2);
        match is_whole && backend.reader().users().version() == version {
            true => Ok(()),
            false => Err(Refusal::AuthOldRevision.to_status()),
        }
    }
}

impl Deref for Caller {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Caller {
    pub(crate) fn new(client: Arc<Client>, credentials: Credentials) -> Caller {
        Caller {
            client,
            credentials,
            trace: None,
        }
    }

    /// The same caller; its commands belong to a trace.
    pub(crate) fn in_trace(mut self, trace: Option<TraceContext>) -> Caller {
        self.trace = trace;
        self
    }

    /// The caller of a request with one message. Its credentials are looked at only if users are
    /// checked.
    pub(crate) fn of(
        client: Arc<Client>,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> Caller {
        let credentials = match client.backend.reader().users().are_checked() {
            true => Credentials::of(metadata, extensions),
            false => Credentials::default(),
        };
        Caller::new(client, credentials)
    }

    /// The caller of a stream, which may outlast the time without users.
    pub(crate) fn of_stream<Q>(client: Arc<Client>, request: &Request<Q>) -> Caller {
        let credentials = Credentials::of(request.metadata(), request.extensions());
        Caller::new(client, credentials)
    }

    /// Refuses a caller that lacks what the call needs.
    pub(crate) async fn admit(&self, need: Need) -> Result<(), Status> {
        if matches!(need, Need::Nothing | Need::OfRequest) || !self.users_are_checked() {
            return Ok(());
        }
        self.check(|standing| match need {
            Need::Administrator => standing.users.check_admin(standing.caller()),
            _ => standing.users.require(standing.caller()),
        })
        .await
        .map(drop)
    }

    /// Adds the caller's identity to a command.
    pub(crate) async fn sign(&self, command: Command) -> Result<Signed, Status> {
        let standing = match self.users_are_checked() {
            true => self.standing().await?,
            false => None,
        };
        let identity = standing.and_then(|standing| standing.identity);
        let command = match identity {
            Some(identity) => command.by_user(&identity),
            None => command,
        };
        Ok(Signed(match self.trace {
            Some(trace) => command.with_trace(trace),
            None => command,
        }))
    }

    /// Proposes a command of the caller and waits until it is durable and applied.
    pub(crate) async fn execute(&self, command: Command) -> Result<Response, Status> {
        self.backend.execute(self.sign(command).await?).await
    }

    /// Permission to read a key, or a range if `range_end` is not empty.
    pub(crate) async fn may_read(&self, key: &[u8], range_end: &[u8]) -> Result<Permit, Status> {
        if !self.users_are_checked() {
            return Ok(Permit::UNCHECKED);
        }
        let check = |standing: &Standing| {
            let (users, identity) = (&standing.users, standing.caller());
            users.check(identity, Access::Read, key, range_end)
        };
        Ok(permit(self.check_as_is(check).await?))
    }

    /// Refuses a caller that may not read each of these keys. An administrator may, whatever its
    /// revision.
    pub(crate) async fn may_read_all(&self, keys: &[Bytes]) -> Result<(), Status> {
        if keys.is_empty() || !self.users_are_checked() {
            return Ok(());
        }
        self.check(|standing| {
            let (users, identity) = (&standing.users, standing.caller());
            if users.check_admin(identity).is_ok() {
                return Ok(());
            }
            let mut keys = keys.iter();
            keys.try_for_each(|key| users.check(identity, Access::Read, key, &[]))
        })
        .await
        .map(drop)
    }

    /// Permission for a transaction that only reads.
    pub(crate) async fn may_read_in_txn(&self, request: &TxnRequest) -> Result<Permit, Status> {
        if !self.users_are_checked() {
            return Ok(Permit::UNCHECKED);
        }
        let reader = self.backend.reader();
        let check = |standing: &Standing| {
            reader
                .users()
                .check_txn(&standing.users, standing.caller(), request)
        };
        Ok(permit(self.check_as_is(check).await?))
    }

    /// Refuses a caller that may not write all keys of a lease.
    pub(crate) async fn may_renew(&self, lease: i64) -> Result<(), Status> {
        if !self.users_are_checked() {
            return Ok(());
        }
        let reader = self.backend.reader();
        self.check(|standing| {
            let (users, identity) = (&standing.users, standing.caller());
            users.require(identity)?;
            reader
                .users()
                .check_keys_of_lease(users, identity, lease, Access::Write)
        })
        .await
        .map(drop)
    }

    /// The caller's standing once this member has seen every acknowledged change; `None` if
    /// users are not checked.
    pub(crate) async fn newest_standing(&self) -> Result<Option<Standing>, Status> {
        self.backend.confirm_reads().await?;
        match self.users_are_checked() {
            true => self.standing().await,
            false => Ok(None),
        }
    }

    fn users_are_checked(&self) -> bool {
        self.backend.reader().users().are_checked()
    }

    /// Checks by the applied users, as they are.
    async fn check_as_is(
        &self,
        check: impl Fn(&Standing) -> Result<(), Refusal>,
    ) -> Result<Option<Standing>, Status> {
        let standing = self.standing().await?;
        if let Some(standing) = &standing {
            check(standing)?;
        }
        Ok(standing)
    }

    /// Checks by the applied users, and before a refusal by the newest.
    async fn check(
        &self,
        check: impl Fn(&Standing) -> Result<(), Refusal>,
    ) -> Result<Option<Standing>, Status> {
        let standing = self.standing().await?;
        let refused = standing.as_ref().is_some_and(|it| check(it).is_err());
        if !refused {
            return Ok(standing);
        }
        Box::pin(self.backend.confirm_reads()).await?;
        self.check_as_is(check).await
    }

    /// The caller before the applied users; `None` if users are not checked any more. An error
    /// if there is a token that does not count.
    async fn standing(&self) -> Result<Option<Standing>, Status> {
        let Some(token) = self.credentials.token() else {
            let identity = self.credentials.common_name.as_deref().map(|name| {
                Arc::new(Identity {
                    user: name.to_owned(),
                    proof: Proof::Certificate,
                })
            });
            let version = self.backend.reader().users().version();
            let users = self.backend.reader().users().current();
            return Ok(users.is_enabled().then_some(Standing {
                users,
                identity,
                version,
            }));
        };
        match self.known_token(token) {
            Some(standing) => Ok(Some(standing)),
            None => Box::pin(self.verify(token)).await,
        }
    }

    /// The standing of a token that this connection has used before, if nothing has changed.
    fn known_token(&self, token: &[u8]) -> Option<Standing> {
        let known = lock(&self.known_token);
        let known = known.as_ref()?;
        let is_same = known.token == token
            && known.standing.version == self.backend.reader().users().version()
            && self.now() < known.fresh_until;
        is_same.then(|| known.standing.clone())
    }

    async fn verify(&self, token: &[u8]) -> Result<Option<Standing>, Status> {
        for is_newest in [false, true] {
            let version = self.backend.reader().users().version();
            let users = self.backend.reader().users().current();
            if !users.is_enabled() {
                return Ok(None);
            }
            let tokens = &self.backend.config.users.tokens;
            match tokens.find(token, &users, self.backend.reader(), self.now()) {
                Found::Valid(valid) => {
                    if let Some(renewal) = valid.renewal {
                        self.backend.authentication.renew(&self.backend, renewal);
                    }
                    let identity = Some(Arc::new(valid.identity));
                    let standing = Standing {
                        users,
                        identity,
                        version,
                    };
                    *lock(&self.known_token) = Some(KnownToken {
                        token: token.to_vec(),
                        fresh_until: valid.fresh_until,
                        standing: standing.clone(),
                    });
                    return Ok(Some(standing));
                }
                Found::Unknown if !is_newest => self.backend.confirm_reads().await?,
                Found::Unknown | Found::Invalid => break,
            }
        }
        Err(Refusal::InvalidAuthToken.to_status())
    }

    fn now(&self) -> u64 {
        self.backend.clock.unix_time().as_secs()
    }
}

fn permit(standing: Option<Standing>) -> Permit {
    Permit {
        // Without an identity nothing is permitted, so this one has one.
        version: standing.map(|standing| standing.version),
    }
}
