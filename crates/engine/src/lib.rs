//! A multi-version ordered map that survives crashes: value log, index, checkpoint, reclaim.
