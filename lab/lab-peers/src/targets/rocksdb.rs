//! RocksDB: one of the waiting writers leads, and writes and flushes for all.

use std::ffi::c_int;

use lab::targets::{Failure, Offer};

use crate::foreign::{Handle, Setup, Store, Wanted, functions};

pub const OFFER: Offer = Offer::store(
    "rocksdb",
    "",
    "RocksDB: cache of 256 MiB, Bloom filter, a thread for each processor; sync as promised",
    |directory, options| Store::open(&WANTED, directory, options, set_up),
);

pub const DEFAULTS: Offer = Offer {
    name: "rocksdb-defaults",
    about: "RocksDB as it comes; sync as promised",
    open: |directory, options| Store::open(&WANTED, directory, options, |_| Ok(())),
    ..OFFER
};

static WANTED: Wanted = Wanted {
    name: "rocksdb",
    files: &["librocksdb.so", "librocksdb.so.7.8"],
    package: "librocksdb7.8",
    variable: "INKSTONE_LAB_ROCKSDB",
};

const FILTER_BITS: f64 = 10.0;

functions! {
    /// Functions that only RocksDB has.
    struct Own {
        block_based_options_create: fn() -> Handle;
        block_based_options_destroy: fn(Handle);
        block_based_options_set_block_cache: fn(Handle, Handle);
        block_based_options_set_filter_policy: fn(Handle, Handle);
        filterpolicy_create_bloom_full: fn(f64) -> Handle;
        options_set_block_based_table_factory: fn(Handle, Handle);
        options_increase_parallelism: fn(Handle, c_int);
    }
}

fn set_up(setup: &mut Setup<'_>) -> Result<(), Failure> {
    let own = Own::of(setup.library)?;
    let cache = setup.cache();
    // SAFETY: the table options take the filter over and share the cache; the store's
    // options copy them.
    unsafe {
        let tables = (own.block_based_options_create)();
        setup.keep(tables, own.block_based_options_destroy);
        let filter = (own.filterpolicy_create_bloom_full)(FILTER_BITS);
        (own.block_based_options_set_block_cache)(tables, cache);
        (own.block_based_options_set_filter_policy)(tables, filter);
        (own.options_set_block_based_table_factory)(setup.options, tables);
        (own.options_increase_parallelism)(setup.options, processors());
    }
    Ok(())
}

fn processors() -> c_int {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    c_int::try_from(count).unwrap_or(c_int::MAX).max(2)
}
