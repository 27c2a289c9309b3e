//! Parts that get, put, del and watch share: connection, key range, output.

mod connection;
mod key_range;
mod output;
mod tls;

pub(crate) use connection::{Connection, ConnectionArguments, run_to_end};
pub(crate) use key_range::{KeyRange, KeyRangeArguments, bytes_of};
pub(crate) use output::{OutputArguments, Printer, header_json, pair_json};
