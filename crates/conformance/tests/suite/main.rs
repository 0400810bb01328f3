//! The cases of the draft's appendix.

mod appendix;
