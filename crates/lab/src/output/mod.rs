//! Results for people and programs: tables, JSON, Parquet, qlog and pages.

mod parquet;
mod qlog;
pub mod report;
pub mod results;
#[cfg(test)]
mod sample;
pub mod summary;
mod tables;

pub use parquet::{StoreError, create_dir};
pub use qlog::{QlogDir, file_name_of};
pub use tables::write;

pub(crate) use parquet::write_whole;
pub(crate) use qlog::Qlog;
pub(crate) use tables::write_scenario;
