//! Spinning with as many polls as the checker wants to try.

use crate::checker;
use crate::sync::spin_loop;

pub struct Spin(u32);

impl Spin {
    pub fn begin(_is_heir: bool) -> Option<Spin> {
        checker::a_core_is_free().then_some(Spin(checker::LOOKS))
    }

    pub fn for_a_notification() -> Option<Spin> {
        Spin::begin(false)
    }

    pub fn was_worth_it(_worth: bool) {}

    pub fn extend(&mut self) {
        self.0 = checker::LOOKS;
    }

    pub fn again(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        let again = self.0 > 0;
        if again {
            spin_loop();
        }
        again
    }
}

pub fn yield_now_and_then() {
    checker::pause();
}

pub fn yielded_to_another() -> bool {
    !checker::a_core_is_free()
}
