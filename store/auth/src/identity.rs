//! The identity of a caller, and what it rests on.

/// A user, as a token or a certificate proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the user; from a certificate, perhaps of none that exists.
    pub user: String,
    pub proof: Proof,
}

/// Evidence on which an identity rests; the identity ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A token of ours: it counts as long as the user has the password with which it was made.
    Generation(u64),
    /// A signed token (JWT): it counts until the users or roles change.
    Revision(u64),
    /// A client's certificate, which counts as long as its connection.
    Certificate,
}
