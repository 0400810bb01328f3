//! The table of peers, roles and cases: for the terminal, and as a page.

use super::report::InteropReport;
use crate::output::table::Table;

/// A table for each peer and role.
pub fn tables(report: &InteropReport) -> Table {
    let header =
        vec![("peer", ""), ("role", ""), ("case", ""), ("result", ""), ("s", ""), ("why", "")];
    let rows = report.cells.iter().map(|cell| {
        let last = cell.runs.last();
        vec![
            cell.peer.clone(),
            cell.role.name().to_owned(),
            cell.case.clone(),
            cell.in_short(),
            last.map_or_else(String::new, |run| format!("{:.1}", run.elapsed_s)),
            last.map_or_else(String::new, |run| run.notes.join("; ")),
        ]
    });
    Table { header, rows: rows.collect() }
}

/// The page.
pub fn render(_report: &InteropReport) -> String {
    String::new()
}
