//! Parts that the client verbs share: connection, user, key range, output.

mod connection;
pub(crate) mod duration;
mod endpoints;
mod keep_alive;
mod key_range;
mod login;
mod loss;
pub(crate) mod observed_cluster;
pub(crate) mod other_cluster;
mod output;
mod page;
mod password;
mod quoted;
pub(crate) mod revision_assembler;
mod session;
pub(crate) mod signals;
mod tls;
mod turn;

pub(crate) use connection::{Connection, run_to_end, why};
pub(crate) use endpoints::{ConnectionArguments, Endpoints, NamedEndpoint};
pub(crate) use keep_alive::KeepAlive;
pub(crate) use key_range::{KeyRange, KeyRangeArguments, NO_END, bytes_of, prefix_end};
pub(crate) use login::UserArguments;
pub(crate) use output::{
    Form, OutputArguments, Printer, base64, header_json, member_header_json, pair_json,
    without_empty,
};
pub(crate) use password::{Secret, ask_new, from_stdin};
pub(crate) use quoted::{printable, quoted, unquoted};
pub(crate) use session::LeaseSession;
pub(crate) use tls::{FlagNames, TlsArguments};
pub(crate) use turn::{Turn, first_of};
