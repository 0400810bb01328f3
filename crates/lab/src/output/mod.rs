//! Results for people and programs: tables, JSON, Parquet, qlog and pages.

mod json;
pub mod page;
mod parquet;
pub(crate) mod plot;
mod qlog;
pub mod table;
mod tables;
mod text;
mod whole;

pub use json::{BaselineError, Reports, SCHEMA_VERSION, ScenarioReport};
pub use parquet::{Cells, Columns, StoreError, create_dir};
pub use qlog::{QlogDir, file_name_of};
pub use tables::{Table, tables, write};
pub use text::{csv, junit};

pub(crate) use parquet::write_whole;
pub(crate) use qlog::Qlog;
pub(crate) use tables::write_scenario;
