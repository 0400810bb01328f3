//! The native part of the Python package `fullpipe`: plans, their runs and tables of the lab. What
//! people call is in `fullpipe/`, in Python.
#![forbid(unsafe_code)]

mod algorithm;
mod controller;
mod error;
mod path;
mod plan;
mod results;
mod survey;
mod table;
mod wait;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _fullpipe(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ROWS", fullpipe_lab::run::ROWS)?;
    module.add_class::<algorithm::Connection>()?;
    module.add_class::<algorithm::Sample>()?;
    module.add_class::<controller::Controller>()?;
    module.add_class::<controller::Packet>()?;
    module.add_class::<path::Event>()?;
    module.add_class::<path::Path>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<survey::Survey>()?;
    module.add_class::<survey::SurveyResults>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(algorithm::register, module)?)?;
    Ok(())
}
