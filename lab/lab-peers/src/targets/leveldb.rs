//! LevelDB: one of the waiting writers leads, and writes and flushes for all.

use std::ffi::c_int;

use lab::targets::{Failure, Offer};

use crate::foreign::{Handle, Setup, Store, Wanted, functions};

pub const OFFER: Offer = Offer::store(
    "leveldb",
    "",
    "LevelDB: cache of 256 MiB, write buffer of 64 MiB, Bloom filter; sync as promised",
    |directory, options| Store::open(&WANTED, directory, options, set_up),
);

pub const DEFAULTS: Offer = Offer {
    name: "leveldb-defaults",
    about: "LevelDB as it comes, which is what db_bench measures; sync as promised",
    open: |directory, options| Store::open(&WANTED, directory, options, |_| Ok(())),
    ..OFFER
};

static WANTED: Wanted = Wanted {
    name: "leveldb",
    files: &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"],
    package: "libleveldb1d",
    variable: "INKSTONE_LAB_LEVELDB",
};

const WRITE_BUFFER_BYTES: usize = 64 << 20;
const FILTER_BITS: c_int = 10;

functions! {
    /// Functions that only LevelDB has.
    struct Own {
        filterpolicy_create_bloom: fn(c_int) -> Handle;
        filterpolicy_destroy: fn(Handle);
        options_set_filter_policy: fn(Handle, Handle);
        options_set_cache: fn(Handle, Handle);
    }
}

fn set_up(setup: &mut Setup<'_>) -> Result<(), Failure> {
    let own = Own::of(setup.library)?;
    let cache = setup.cache();
    // SAFETY: cache and filter are given back after the store is closed.
    unsafe {
        let filter = (own.filterpolicy_create_bloom)(FILTER_BITS);
        setup.keep(filter, own.filterpolicy_destroy);
        (own.options_set_cache)(setup.options, cache);
        (own.options_set_filter_policy)(setup.options, filter);
        (setup.functions.options_set_write_buffer_size)(setup.options, WRITE_BUFFER_BYTES);
    }
    Ok(())
}
