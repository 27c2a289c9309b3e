//! RocksDB: one of the waiting writers leads, and writes and flushes for all.

use std::ffi::c_int;

use lab::targets::{Failure, Offer};

use crate::foreign::{Handle, Setup, Store, Wanted};

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

fn set_up(setup: &mut Setup<'_>) -> Result<(), Failure> {
    let cache = setup.cache();
    // SAFETY: signatures as in `rocksdb/c.h`. The table options take the filter
    // over and share the cache; the store's options copy them.
    unsafe {
        let tables: unsafe extern "C" fn() -> Handle =
            setup.library.function("block_based_options_create")?;
        let destroy_tables = setup.library.function("block_based_options_destroy")?;
        let bloom: unsafe extern "C" fn(f64) -> Handle =
            setup.library.function("filterpolicy_create_bloom_full")?;
        let set_threads: unsafe extern "C" fn(Handle, c_int) =
            setup.library.function("options_increase_parallelism")?;
        let tables = tables();
        setup.keep(tables, destroy_tables);
        setup.set("block_based_options_set_block_cache", tables, cache)?;
        let filter = bloom(FILTER_BITS);
        setup.set("block_based_options_set_filter_policy", tables, filter)?;
        setup.set(
            "options_set_block_based_table_factory",
            setup.options,
            tables,
        )?;
        set_threads(setup.options, processors());
    }
    Ok(())
}

fn processors() -> c_int {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    c_int::try_from(count).unwrap_or(c_int::MAX).max(2)
}
