//! etcd's users and roles: what they are, what they permit, and what proves an identity.
//!
//! ```text
//!   AuthRequest ──► Auth::decide ──► AuthChange ──► the log ──► Auth::apply     (every member)
//!
//!   token, certificate ──► Identity ──► Auth::check(key range, read or write)   (every call)
//! ```
//!
//! A model without I/O: it has no clock, no randomness and no files; the caller passes times,
//! salts and the bytes of keys. `decide` computes the effect of a request on the state after all
//! earlier ones, `apply` carries an effect out and decides nothing, so all members that apply the
//! same log have the same users.
//!
//! Invariants: the revision grows by one with each change except the switching on; a role that a
//! user holds exists, or is `root`; a generation belongs to one user and one password.

mod accounts;
mod change;
mod decide;
mod der;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod identity;
mod interval;
mod jwt;
mod jwt_key;
mod password;
mod permission_tree;
mod request;
mod token;

pub use accounts::{Access, Auth, READ_AND_WRITE, ROOT, Role, User};
pub use change::AuthChange;
pub use identity::{Identity, Proof};
pub use jwt::{Jwt, JwtError, JwtMethod, JwtOptions, VerifiedJwt};
pub use password::{
    COST_DEFAULT, Password, PasswordTooLong, SALT_BYTES, cost_or_default, decode_hash,
};
pub use request::{AuthCommand, AuthCommandResponse, AuthRequest, EnableRequest, RenewRequest};
pub use token::{Renewals, SECRET_BYTES, Secret, SimpleToken};
