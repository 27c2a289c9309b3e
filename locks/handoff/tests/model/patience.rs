//! Patience with as many yields as the checker wants to try.

use crate::checker;

/// Fewer than the operations of a model, so that leaderships are passed on.
pub const GROUPS_MAX: u32 = 2;
pub const LEADS_MICROS_MAX: u32 = 1;

pub struct Patience(u32);

impl Patience {
    pub fn new(_others: usize) -> Option<Patience> {
        checker::a_core_is_free().then_some(Patience(checker::LOOKS))
    }

    pub fn yield_core(&mut self) -> bool {
        crate::sync::yield_now();
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }

    pub fn was_answered(self) {}
}
