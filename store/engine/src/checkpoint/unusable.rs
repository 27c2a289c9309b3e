//! Why a checkpoint is passed over.

/// Why a checkpoint cannot be used.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) what: String,
    /// Its bytes verify and name a segment that is not there: so the log is not whole.
    pub(crate) names_lost_segment: bool,
}

impl Unusable {
    pub(super) fn lost(what: String) -> Unusable {
        Unusable {
            what,
            names_lost_segment: true,
        }
    }
}

impl From<String> for Unusable {
    fn from(what: String) -> Unusable {
        Unusable {
            what,
            names_lost_segment: false,
        }
    }
}

impl From<&str> for Unusable {
    fn from(what: &str) -> Unusable {
        what.to_owned().into()
    }
}
