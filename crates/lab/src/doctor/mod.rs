//! What this machine is, and what its device can do.
