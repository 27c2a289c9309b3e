//! `inkstone serve` with TLS, and the client verbs that connect to it.

mod clients;
mod members;
mod refusals;
mod secure;
