//! What a member shows to others, and what it asks of them.

use std::sync::Arc;

use peers::{PeerSecret, PeerTls};

/// The secret and the certificates of a member. The default is neither.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// A secret that all members share. Connections to members that cannot prove that they
    /// have it are refused. `None` if all members have none.
    pub secret: Option<PeerSecret>,
    /// For peer URLs that begin with `https://`, and for listeners that accept TLS.
    pub tls: Option<Arc<PeerTls>>,
}

impl From<Option<PeerSecret>> for Credentials {
    fn from(secret: Option<PeerSecret>) -> Credentials {
        Credentials { secret, tls: None }
    }
}
