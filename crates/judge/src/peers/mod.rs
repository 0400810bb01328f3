//! Stacks of other people's, installed by recipes from their registries and run as flows of a
//! scenario: a table of senders and paths. Nothing of them is in this repository; `recipes.toml`
//! says where each is found.

mod bulk;
mod install;
mod outcome;
mod page;
mod recipe;
mod run;

pub use outcome::now;

pub use bulk::{
    BulkCase, BulkFigures, BulkReport, BulkRun, BulkSender, BulkSource, bulk_once, has_bulk,
    read_served,
};
pub use install::{Installed, NotInstalled, folder, install, installed};
pub use outcome::{Missing, PeerPath, PeerRun, PeersReport, SenderRuns};
pub use page::{render, tables};
pub use recipe::{Chosen, OWN, Recipe, UnknownSender, choose, recipes};
pub use run::{PathOfPeers, PathPreset, PeersOptions, commands_of, plan_of, run_sender};
