//! Parts that the client verbs share: connection, user, key range, output.

mod connection;
mod key_range;
mod login;
mod output;
mod password;
mod tls;

pub(crate) use connection::{Connection, ConnectionArguments, run_to_end};
pub(crate) use key_range::{KeyRange, KeyRangeArguments, NO_END, bytes_of, prefix_end};
pub(crate) use output::{OutputArguments, Printer, header_json, pair_json};
pub(crate) use password::{Secret, ask_new, from_stdin};
