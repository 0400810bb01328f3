//! Tests that need no clock, no port and no rights, but the C compiler that rustc links with.

#[path = "../installed/mod.rs"]
mod installed;

mod c_programs;
mod header;
mod misuse;
mod versions;
