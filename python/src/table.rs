//! A table of results behind Arrow's C data interface.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use fullpipe_report::output::{Cells, Columns};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::of_run;

/// Rows of a batch: the offsets of its texts are of 32 bits.
const ROWS_OF_A_BATCH: usize = 1 << 20;

/// A table that pyarrow, polars and others read without a copy.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// The columns as Arrow has them, in batches.
    pub(crate) fn of(columns: &Columns) -> PyResult<Self> {
        let field = |(name, cells): &(String, Cells)| Field::new(name, data_type(cells), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let rows = columns.first().map_or(0, |(_, cells)| len(cells));
        let batch = |start: usize| {
            let end = rows.min(start + ROWS_OF_A_BATCH);
            let arrays = columns.iter().map(|(_, cells)| array(cells, start, end)).collect();
            RecordBatch::try_new(schema.clone(), arrays).map_err(of_run)
        };
        let batches = (0..rows).step_by(ROWS_OF_A_BATCH).map(batch).collect::<PyResult<_>>()?;
        Ok(Self { schema, batches })
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may give its own schema, as the specification of the interface says.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok::<_, ArrowError>);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

fn len(cells: &Cells) -> usize {
    match cells {
        Cells::Text(cells) => cells.len(),
        Cells::Real(cells) => cells.len(),
        Cells::Whole(cells) => cells.len(),
    }
}

fn data_type(cells: &Cells) -> DataType {
    match cells {
        Cells::Text(_) => DataType::Utf8,
        Cells::Real(_) => DataType::Float64,
        Cells::Whole(_) => DataType::Int64,
    }
}

fn array(cells: &Cells, start: usize, end: usize) -> ArrayRef {
    match cells {
        Cells::Text(cells) => {
            Arc::new(cells[start..end].iter().map(Option::as_deref).collect::<StringArray>())
        }
        Cells::Real(cells) => Arc::new(cells[start..end].iter().collect::<Float64Array>()),
        Cells::Whole(cells) => Arc::new(cells[start..end].iter().collect::<Int64Array>()),
    }
}
