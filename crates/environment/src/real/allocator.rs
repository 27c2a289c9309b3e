//! Large pieces of memory go back to the system when they are freed.

/// Keeps the C library from holding on to large pieces. By itself it moves the bound
/// between mapped pieces and its heap up to the largest piece that was freed, after
/// which values of a mebibyte lie between small pieces that live on, and their memory
/// stays with the process: after 200 answers of 10 MiB half a gigabyte did. To be
/// called before there are other threads. Does nothing where the C library is not GNU's.
pub fn return_large_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Pieces from this size on are mapped and unmapped one by one.
        const MAPPED_BYTES_MIN: i32 = 512 << 10;
        /// What may be free at the end of the heap before it is given back.
        const FREE_BYTES_MAX: i32 = 64 << 20;
        for (parameter, bytes) in [
            (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
            (libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX),
        ] {
            // SAFETY: sets a parameter of the allocator; no pointer is passed.
            let taken = unsafe { libc::mallopt(parameter, bytes) };
            assert_eq!(taken, 1, "both bounds are within what the C library allows");
        }
    }
}
