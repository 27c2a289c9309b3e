//! What can be measured, behind one small trait.
