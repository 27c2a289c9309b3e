//! Spinning for as many looks as the checker wants to try.

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

pub fn give_way() {
    checker::pause();
}

pub fn somebody_takes_this_core() -> bool {
    !checker::a_core_is_free()
}
