//! The lab's errors as the exceptions of `fullpipe/_errors.py`.

use fullpipe_lab::run::SweepError;
use fullpipe_scenario::FileError;
use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;

mod exceptions {
    use pyo3::import_exception;

    import_exception!(fullpipe._errors, OutputError);
    import_exception!(fullpipe._errors, RunError);
    import_exception!(fullpipe._errors, ScenarioError);
}

/// `ScenarioError`, with the file, the line and the field.
pub(crate) fn of_file(error: FileError) -> PyErr {
    let text = error.to_string();
    let FileError { file, line, field, message } = error;
    exceptions::ScenarioError::new_err((text, file, line, field, message))
}

/// `ScenarioError` of a call's argument, which no line of a file has.
pub(crate) fn of_argument(name: &str, why: impl std::fmt::Display) -> PyErr {
    let (text, name, why) = (format!("{name}: {why}"), name.to_owned(), why.to_string());
    exceptions::ScenarioError::new_err((text, "", None::<usize>, name, why))
}

/// `RunError`.
pub(crate) fn of_run(error: impl std::fmt::Display) -> PyErr {
    exceptions::RunError::new_err(error.to_string())
}

/// `OutputError`.
pub(crate) fn of_output(error: impl std::fmt::Display) -> PyErr {
    exceptions::OutputError::new_err(error.to_string())
}

/// Class of a sweep's error.
pub(crate) fn of_sweep(error: SweepError) -> PyErr {
    match error {
        SweepError::Interrupted { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
        SweepError::Run { .. } => of_run(error),
        error => of_output(error),
    }
}
