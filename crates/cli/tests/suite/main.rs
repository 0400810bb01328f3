//! What the command does without a clock, a port or rights.

#[path = "../common/checks.rs"]
mod checks;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/documents.rs"]
mod documents;

mod action;
mod bad_input;
mod compare;
mod conformance;
mod docs;
mod figures;
mod own_algorithm;
mod release;
mod repeat;
mod robust;
mod scenarios;
mod shell;
mod sweeps;
