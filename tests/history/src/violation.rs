//! Broken rules, in a form for people.

use std::fmt;

use crate::Moment;

/// The rules that a history must keep; the crate's page describes each one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The final account contradicts itself.
    Ledger,
    /// An acknowledged write is not in the ledger as it was asked for.
    Lost,
    /// A change has no cause in the history.
    Origin,
    /// Revisions disagree with real time.
    Order,
    /// An answer disagrees with the ledger.
    Contents,
    /// A member's serializable reads went back.
    Backwards,
    /// An answer names a revision that the ledger does not have.
    Future,
    /// A watch missed, repeated, split or invented something.
    Watch,
    /// A lease ended too early, or lived on.
    Lease,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// What was expected and what was found.
    pub text: String,
    /// The evidence: when it began, when it ended, and what it was.
    pub evidence: Vec<(Moment, Moment, String)>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)?;
        for (called, returned, what) in &self.evidence {
            let (called, returned) = (seconds(*called), seconds(*returned));
            write!(f, "\n    {called} .. {returned}  {what}")?;
        }
        Ok(())
    }
}

fn seconds(moment: Moment) -> String {
    format!("{:>12.6} s", moment as f64 / 1e9)
}
