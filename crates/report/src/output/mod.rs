//! Results for people and programs: tables, JSON, Parquet, qlog and pages.

mod atomic_file;
mod json;
pub mod page;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod parquet_tables;
pub mod plot;
#[cfg_attr(not(feature = "qlog"), path = "no_qlog.rs")]
mod qlog;
mod store;
pub mod table;
mod text;

pub use json::{BaselineError, Reports, SCHEMA_VERSION, ScenarioReport};
pub use parquet_tables::{Cells, Columns, Table, tables, write, write_scenario};

pub(crate) use parquet_tables::series_columns;
pub use qlog::{Qlog, QlogDir};
pub use store::{StoreError, check_file, create_dir, file_name_of, write_whole};
pub use text::{csv, csv_of, junit, write_series_csv};
