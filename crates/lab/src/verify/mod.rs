//! Whether what was acknowledged is there.
