//! Certificates that a member shows to others, and checks that it makes of theirs.

use std::net::IpAddr;
use std::sync::Arc;

use peers::{PeerSecret, PeerTls};

/// The secret, the certificates and the address of a member. The default is none of them.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// A secret that all members share. Connections to members that cannot prove that they
    /// have it are refused. `None` if all members have none.
    pub secret: Option<PeerSecret>,
    /// For peer URLs that begin with `https://`, and for listeners that accept TLS.
    pub tls: Option<Arc<PeerTls>>,
    /// The address that this member connects from, which the others may compare with its
    /// certificate; `None`: the system chooses one.
    pub local_address: Option<IpAddr>,
}

impl From<Option<PeerSecret>> for Credentials {
    fn from(secret: Option<PeerSecret>) -> Credentials {
        Credentials {
            secret,
            ..Credentials::default()
        }
    }
}
