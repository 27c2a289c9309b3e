//! LevelDB: one of the waiting writers leads, and writes and flushes for all.

use std::ffi::c_int;
use std::path::Path;

use lab::targets::{Embedded, Failure, Offer, OpenOptions};

use super::ALL_LEVELS;
use crate::CACHE_BYTES;
use crate::foreign::{Handle, Setup, Store, Wanted};

pub const OFFER: Offer = Offer {
    name: "leveldb",
    version: "",
    about: "LevelDB: cache of 256 MiB, write buffer of 64 MiB, Bloom filter; sync as promised",
    promises: ALL_LEVELS,
    has_ranges: true,
    keeps_data: true,
    gathers: false,
    open,
};

pub const DEFAULTS: Offer = Offer {
    name: "leveldb-defaults",
    about: "LevelDB as it comes, which is what db_bench measures; sync as promised",
    open: open_with_defaults,
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
    // SAFETY: signatures as in `leveldb/c.h`; cache and filter are given back
    // after the store is closed.
    unsafe {
        let bloom: unsafe extern "C" fn(c_int) -> Handle =
            setup.library.function("filterpolicy_create_bloom")?;
        let destroy_filter = setup.library.function("filterpolicy_destroy")?;
        let set_filter: unsafe extern "C" fn(Handle, Handle) =
            setup.library.function("options_set_filter_policy")?;
        let set_cache: unsafe extern "C" fn(Handle, Handle) =
            setup.library.function("options_set_cache")?;
        let cache = (functions.cache_create_lru)(CACHE_BYTES);
        let filter = bloom(FILTER_BITS);
        set_cache(setup.options, cache);
        set_filter(setup.options, filter);
        (functions.options_set_write_buffer_size)(setup.options, WRITE_BUFFER_BYTES);
        setup.keep(cache, functions.cache_destroy);
        setup.keep(filter, destroy_filter);
    }
    Ok(())
}
