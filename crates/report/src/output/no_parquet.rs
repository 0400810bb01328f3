//! In place of Parquet in a build without it: whoever did not ask [`Part::check`] before hears of
//! it here.

use std::io;
use std::path::Path;

use super::parquet_tables::Columns;
use super::store::StoreError;
use crate::parts::{NotBuilt, Part};

pub(super) fn write_table(path: &Path, _: &Columns) -> Result<(), StoreError> {
    Err(StoreError::at(path)(io::Error::other(NotBuilt(Part::Parquet))))
}

pub(super) fn bytes(_: &Columns) -> io::Result<Vec<u8>> {
    Err(io::Error::other(NotBuilt(Part::Parquet)))
}
