//! The identity and rights that a caller's proof gives at one moment.

use std::sync::Arc;

use auth::{Auth, Identity};

/// An identity, or none, before the users of one moment.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) users: Arc<Auth>,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Version of the users.
    pub(crate) version: u64,
}

impl Standing {
    pub(super) fn caller(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }
}
