//! The judge under a virtual clock.

#[path = "../captured/mod.rs"]
mod captured;
#[path = "../planted/mod.rs"]
mod planted;

mod captures;
mod verdicts;
