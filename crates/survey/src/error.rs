//! Reasons why a survey cannot be made, or did not come to its end: one line each.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use fullpipe_lab::run::JournalError;
use fullpipe_lab::{BackendChoice, RunError};
use fullpipe_report::output::StoreError;
use fullpipe_report::output::page::PageError;
use fullpipe_scenario::FileError;

use crate::run::MAX_SEEDS;

/// An error of a survey.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SurveyError {
    #[error("'{0}' has nothing to be compared with; name two algorithms, like --cc bbr3x,cubic")]
    NothingToCompare(String),
    #[error("{0} seeds are too many; write at most {MAX_SEEDS}")]
    TooManySeeds(NonZeroUsize),
    #[error("'{0}' is named twice")]
    NamedTwice(String),
    #[error("path {path}: {error}")]
    Path { path: u64, error: FileError },
    #[error("path {path}: {error}")]
    Machine { path: u64, error: RunError },
    #[error("none of the {paths} paths can be run over {backend}: {error}")]
    NoPath { paths: u64, backend: BackendChoice, error: FileError },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("{}: {reason}", path.display())]
    Baseline { path: PathBuf, reason: String },
}

impl SurveyError {
    /// True if it was asked for something that cannot be.
    pub fn is_of_input(&self) -> bool {
        match self {
            Self::Journal(error) => error.is_of_input(),
            Self::Store(_) | Self::Page(_) | Self::Json(_) => false,
            _ => true,
        }
    }
}
