//! Tables as wide as the terminal.

use std::io::{IsTerminal, stdout};

use console::Term;
use fullpipe_report::output::table::Table;

/// A table for stdout: on a terminal as wide as that, elsewhere always the same.
pub(crate) fn in_columns(table: &Table) -> String {
    let size = stdout().is_terminal().then(|| Term::stdout().size_checked()).flatten();
    match size.map(|(_, columns)| usize::from(columns)) {
        // A terminal that does not know its size says 0.
        None | Some(0) => table.to_text(),
        Some(columns) => table.to_text_that_fits(columns),
    }
}
