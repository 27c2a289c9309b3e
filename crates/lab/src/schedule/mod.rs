//! Which run comes when.
