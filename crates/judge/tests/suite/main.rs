//! The judge under a virtual clock.

mod verdicts;
