//! Scenarios: a path, flows and expectations, as a TOML file says them; docs/scenarios.md describes
//! it. The formulas, units and suggestions of all who read and print them are here as well.
#![forbid(unsafe_code)]

mod build;
mod build_flow;
mod build_net;
mod cc;
mod elements;
mod error;
mod feature;
pub mod formulas;
mod grid;
mod input;
mod jitter;
mod needs;
mod nodes;
mod over;
mod program;
mod quantity;
mod repeated;
mod routes;
mod schema;
pub mod suggest;
pub mod trace;
mod trace_field;
mod traces;
mod tree;
pub mod units;
mod unused;

/// The tables of a scenario file, which are read and written.
pub mod document {
    pub use crate::elements::{
        CoDel, DelayStep, Element, JitterStep, LossStep, Outage, Queue, Wire,
    };
    pub use crate::jitter::JitterField;
    pub use crate::nodes::{NetworkTable, NodeTable, Pairs, Reroute};
    pub use crate::program::ProgramTable;
    pub use crate::quantity::{
        Chance, Factor, Length, Room, Saved, Share, Size, Speed, SpeedOrNone, Time,
    };
    pub use crate::repeated::Repeated;
    pub use crate::schema::{
        AccessTable, App, AtTheTop, CrossTable, Cubic, Document, EcnMode, Failure, FlowSender,
        FlowTable, LinkTable, LossDetection, MediaTable, OnOff, Pacer, PathTable, RateLimited,
        RateStep, RequestResponse, Resume, ShortFlows, Spacing, Startup, Without,
    };
    pub use crate::trace_field::TraceField;
    pub use fullpipe_traffic::Direction;
}

pub use build::{Flow, Scenario, builds};
pub use cc::{Cc, KernelCc, StackAlgorithm, UnknownCc};
pub use error::{FileError, Wrong, shortened};
pub use feature::{Feature, Need, Protocol, Receiver};
pub use grid::{Edition, Expected, Grid, Run, ScenarioFile, hex, locate, stacks_with_tables};
pub use input::{MAX_FILE_BYTES, read_text};
pub use needs::Setting;
pub use over::{
    Clock, LinkKind, Over, Stack, UnknownClock, UnknownLink, UnknownStack, of_former_backend,
};
pub use program::{ProgramFlow, Sends, Values};
pub use trace_field::TracedColumns;

/// The most characters of a name, and of a value in a list.
const MAX_NAME: usize = 300;

/// The most runs of one file.
pub const MAX_RUNS: usize = 100_000;

/// The most flows of one run.
pub const MAX_FLOWS: u64 = 10_000;

/// The most rows of the series of one run.
pub const MAX_ROWS: u64 = 10_000_000;
