//! Writes tables as Parquet.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::parquet_tables::{Cells, Columns};
use super::store::{StoreError, write_whole};

/// A reader takes a row group into memory at once.
const ROWS_OF_A_GROUP: usize = 1 << 20;

/// Writes a table.
pub(super) fn write_table(path: &Path, columns: &Columns) -> Result<(), StoreError> {
    write_whole(path, |file| write_columns(file, columns).map_err(of_parquet))
}

/// Cause of an error of Parquet's.
fn of_parquet(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => std::io::Error::other(inner),
        other => std::io::Error::other(other),
    }
}

/// A table as the bytes of a Parquet file.
pub(super) fn bytes(columns: &Columns) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_columns(&mut bytes, columns).map_err(of_parquet)?;
    Ok(bytes)
}

fn write_columns(to: &mut (impl Write + Send), columns: &Columns) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|(name, column)| field(name, column));
    let schema = Type::group_type_builder("schema")
        .with_fields(fields.collect::<Result<Vec<_>, _>>()?)
        .build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("fullpipe ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(&mut *to, schema.into(), properties.into())?;
    let rows = columns.first().map_or(0, |(_, column)| rows_of(column));
    for start in (0..rows).step_by(ROWS_OF_A_GROUP) {
        let end = rows.min(start + ROWS_OF_A_GROUP);
        let mut group = writer.next_row_group()?;
        for (_, column) in columns {
            write_column(&mut group, column, start, end)?;
        }
        group.close()?;
    }
    writer.close()?;
    to.flush()?;
    Ok(())
}

fn rows_of(column: &Cells) -> usize {
    match column {
        Cells::Text(cells) => cells.len(),
        Cells::Real(cells) => cells.len(),
        Cells::Whole(cells) => cells.len(),
    }
}

fn field(name: &str, column: &Cells) -> Result<Arc<Type>, ParquetError> {
    let (physical, converted) = match column {
        Cells::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        Cells::Real(_) => (Physical::DOUBLE, ConvertedType::NONE),
        Cells::Whole(_) => (Physical::INT64, ConvertedType::NONE),
    };
    let builder = Type::primitive_type_builder(name, physical);
    let field = builder.with_repetition(Repetition::OPTIONAL).with_converted_type(converted);
    field.build().map(Arc::new)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Cells,
    start: usize,
    end: usize,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else { return Ok(()) };
    match column {
        Cells::Text(cells) => {
            let bytes = |text: &Arc<str>| ByteArray::from(text.as_bytes().to_vec());
            write_cells(writer.typed::<ByteArrayType>(), &cells[start..end], bytes)?;
        }
        Cells::Real(cells) => {
            write_cells(writer.typed::<DoubleType>(), &cells[start..end], |x| *x)?;
        }
        Cells::Whole(cells) => {
            write_cells(writer.typed::<Int64Type>(), &cells[start..end], |x| *x)?;
        }
    }
    writer.close()
}

fn write_cells<D: DataType, C>(
    writer: &mut ColumnWriterImpl<'_, D>,
    cells: &[Option<C>],
    value: impl Fn(&C) -> D::T,
) -> Result<(), ParquetError> {
    let values: Vec<D::T> = cells.iter().flatten().map(value).collect();
    let is_there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    writer.write_batch(&values, Some(&is_there), None)?;
    Ok(())
}
