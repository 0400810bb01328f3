//! Tests of the command that need no clock, no port and no rights.

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
mod interop;
mod judge;
mod link_command;
mod over_tcp;
mod own_algorithm;
mod path_options;
mod peers;
mod perf;
mod pictures;
mod programs;
mod proxy;
mod relay;
mod release;
mod repeat;
mod reports;
mod robust;
mod scenarios;
mod shell;
mod surveys;
mod sweeps;
mod traces;
mod width;
