//! The cases of the QUIC interop runner between this program's ends and other people's: each over a
//! path of its own between two network namespaces, and checked by the packets at both ends of it.
//! In words: `docs/interop.md`.
#![forbid(unsafe_code)]

mod capture;
mod cases;
mod check;
mod files;
mod page;
#[cfg(target_os = "linux")]
mod path;
mod report;
#[cfg(target_os = "linux")]
mod run;
mod tshark;

pub use cases::{CASES, Case, Kind, MEASUREMENTS, UnknownCase, choose_cases};
pub use page::{notes, render, table};
pub use report::{Cell, Figure, Grade, InteropReport, Role, Run};
#[cfg(target_os = "linux")]
pub use run::{Ends, Request, run_case};

/// The script that makes this program an end of a case.
pub const ENDPOINT: &str = include_str!("../../../interop/run_endpoint.sh");
