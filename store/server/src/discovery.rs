//! Finding the members of a new cluster without a list of them.

pub(crate) mod registry;
mod registry_channel;
pub(crate) mod srv;
