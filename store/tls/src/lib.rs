//! TLS for the connections of clients and members.
//!
//! ```text
//!   files ──► part ──► Acceptor ──► Handshakes ──► SecureStream ──► the core that serves it
//!    │         │          ▲              │
//!    │         │          │              └── deadline, bound, checks of the other side
//!    │         └── read again when a file has changed; the last good one stays in force
//!    └── pair, trust, revocation: what is wrong, and the remedy
//!
//!   files ──► part ──► Connector ──► SecureStream                   (this side dials)
//! ```
//!
//! This crate knows certificates, keys and handshakes, and neither requests nor identities.
//! Its cryptography is graviola's, which builds without a C compiler.
//! docs/decisions/0024-tls.md

mod acceptor;
mod addresses;
mod authority;
mod certificate_words;
mod connector;
mod dial_remedy;
mod error;
mod expiry;
mod facts;
mod files;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod greetings;
mod handshakes;
mod own_authority;
mod pair;
mod part;
mod protocol;
mod refusals;
mod remedy;
mod revocation;
mod self_signed;
mod settings;
mod stream;
mod trust;
mod verify;
mod words;

pub use acceptor::{Acceptor, Endpoint};
pub use authority::{Authority, Issued, Request};
pub use connector::Connector;
pub use dial_remedy::{DialFlags, dial_remedy};
pub use error::Error;
pub use facts::ClientCertificate;
pub use files::NamedFile;
pub use greetings::{Greeting, Greetings};
pub use handshakes::{Accepts, Arrived, HANDSHAKE_TIME_MAX, Handshakes, RawSocket};
pub use protocol::{Protocol, TlsVersion};
pub use self_signed::self_signed;
pub use settings::{Allowed, Pair, Settings};
pub use stream::{DetachedStream, SecureReader, SecureStream, SecureWriter};
