//! RocksDB: one of the waiting writers leads, and writes and flushes for all.

use std::ffi::c_int;
use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions};

use super::ALL_LEVELS;
use crate::CACHE_BYTES;
use crate::foreign::{Handle, Setup, Store, Wanted};

pub const OFFER: Offer = Offer {
    name: "rocksdb",
    version: "",
    about: "RocksDB: cache of 256 MiB, Bloom filter, a thread for each processor; sync as promised",
    promises: ALL_LEVELS,
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

pub const DEFAULTS: Offer = Offer {
    name: "rocksdb-defaults",
    about: "RocksDB as it comes; sync as promised",
    open: open_with_defaults,
    ..OFFER
};

static WANTED: Wanted = Wanted {
    name: "rocksdb",
    files: &["librocksdb.so", "librocksdb.so.7.8"],
    package: "librocksdb7.8",
    variable: "INKSTONE_LAB_ROCKSDB",
};

const FILTER_BITS: f64 = 10.0;

fn open(directory: &Path, options: &OpenOptions) -> Result<Box<dyn Embedded>, Failure> {
    let store = Store::open(&WANTED, directory, options, set_up)?;
    Ok(Box::new(store))
}

fn open_with_defaults(
    directory: &Path,
    options: &OpenOptions,
) -> Result<Box<dyn Embedded>, Failure> {
    let store = Store::open(&WANTED, directory, options, |_| Ok(()))?;
    Ok(Box::new(store))
}

fn set_up(setup: &mut Setup<'_>) -> Result<(), Failure> {
    let functions = setup.functions;
    // SAFETY: signatures as in `rocksdb/c.h`. The table options take the filter
    // over and share the cache; the store's options copy them.
    unsafe {
        let tables: unsafe extern "C" fn() -> Handle =
            setup.library.function("block_based_options_create")?;
        let destroy_tables = setup.library.function("block_based_options_destroy")?;
        let set_tables: unsafe extern "C" fn(Handle, Handle) = setup
            .library
            .function("options_set_block_based_table_factory")?;
        let set_cache: unsafe extern "C" fn(Handle, Handle) = setup
            .library
            .function("block_based_options_set_block_cache")?;
        let set_filter: unsafe extern "C" fn(Handle, Handle) = setup
            .library
            .function("block_based_options_set_filter_policy")?;
        let bloom: unsafe extern "C" fn(f64) -> Handle =
            setup.library.function("filterpolicy_create_bloom_full")?;
        let set_threads: unsafe extern "C" fn(Handle, c_int) =
            setup.library.function("options_increase_parallelism")?;
        let tables = tables();
        let cache = (functions.cache_create_lru)(CACHE_BYTES);
        set_cache(tables, cache);
        set_filter(tables, bloom(FILTER_BITS));
        set_tables(setup.options, tables);
        set_threads(setup.options, processors());
        setup.keep(tables, destroy_tables);
        setup.keep(cache, functions.cache_destroy);
    }
    Ok(())
}

fn processors() -> c_int {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    c_int::try_from(count).unwrap_or(c_int::MAX).max(2)
}
