//! The judge under a virtual clock.

#[path = "../captured/mod.rs"]
mod captured;
#[path = "../planted/mod.rs"]
mod planted;
#[path = "../../examples/sans_io/quinn.rs"]
mod quinn;
#[path = "../../examples/sans_io/world.rs"]
mod world;

mod captures;
mod dialects;
mod keys;
mod l4s;
mod qlogs;
mod senders;
mod variants;
mod verdicts;
