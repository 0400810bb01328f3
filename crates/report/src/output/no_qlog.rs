//! In place of the qlogs in a build without them: nothing can be made, and so nothing has to be
//! written.

use std::io;
use std::path::Path;

use fullpipe_cc::Duration;
use fullpipe_scenario::Scenario;

use super::store::StoreError;
use crate::observe::FlowSample;
use crate::parts::{NotBuilt, Part};
use crate::plan::Plan;

/// A directory that qlog files can be written into: there is none.
#[derive(Clone, Debug)]
pub enum QlogDir {}

impl QlogDir {
    /// # Errors
    /// This build writes no qlogs.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        Err(StoreError::at(path)(io::Error::other(NotBuilt(Part::Qlog))))
    }
}

/// The files of a run.
pub enum Qlog {}

impl Qlog {
    /// # Errors
    /// None: there is no directory.
    pub fn start(dir: &QlogDir, _: &Plan, _: usize, _: &Scenario) -> Result<Self, StoreError> {
        match *dir {}
    }

    /// # Errors
    /// None: there are no files.
    pub fn sample(&mut self, _: usize, _: Duration, _: &FlowSample) -> Result<(), StoreError> {
        match *self {}
    }

    /// # Errors
    /// None: there are no files.
    pub fn finish(self) -> Result<(), StoreError> {
        match self {}
    }
}
