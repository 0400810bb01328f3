//! Plots and series as files, beside what a command prints.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use fullpipe_report::output::plot::Drawing;
use fullpipe_report::output::{self, ScenarioReport, file_name_of, page};

use crate::failure::Failure;

/// The files of plots and series.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Pictures {
    /// Write each plot as an SVG file into this directory, in black on white for a paper
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the series as comma-separated values into this file: a line for each flow and each
    /// interval; of a program on a path, for both directions and each interval
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) series_csv: Option<PathBuf>,
}

impl Pictures {
    /// True if something needs series.
    pub(crate) fn is_any(&self) -> bool {
        self.svg.is_some() || self.series_csv.is_some()
    }

    /// Checks that the files can be written, before anything runs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(file) = &self.series_csv {
            let checked = output::check_file(file);
            checked.map_err(|e| Failure::bad_input(format!("--series-csv: {e}")))?;
        }
        // Last, since it makes the directory.
        if let Some(dir) = &self.svg {
            output::create_dir(dir).map_err(|e| Failure::bad_input(format!("--svg: {e}")))?;
        }
        Ok(())
    }

    /// Writes what is asked for of scenarios.
    pub(crate) fn write_reports(&self, reports: &[ScenarioReport]) -> Result<(), Failure> {
        self.write_svg(|| drawings(reports))?;
        self.write_series(|file| output::write_series_csv(reports, file))
    }

    /// Writes the drawings, each with its name, where that is asked for.
    pub(crate) fn write_svg(
        &self,
        drawings: impl FnOnce() -> Vec<(String, Drawing)>,
    ) -> Result<(), Failure> {
        let Some(dir) = &self.svg else { return Ok(()) };
        let drawings = drawings();
        for (i, (name, drawing)) in drawings.iter().enumerate() {
            let file = dir.join(format!("{i:02}-{}.svg", file_name_of(name)));
            let text = drawing.to_svg().map_err(Failure::run)?;
            page::write_text(&file, &text).map_err(Failure::run)?;
        }
        Ok(())
    }

    /// Writes the lines of the series, where that is asked for.
    pub(crate) fn write_series(
        &self,
        write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let Some(path) = &self.series_csv else { return Ok(()) };
        let written = output::write_whole(path, |file| write(&mut BufWriter::new(file)));
        written.map_err(Failure::run)
    }
}

/// The plots of scenarios, each with its name.
pub(crate) fn drawings(reports: &[ScenarioReport]) -> Vec<(String, Drawing)> {
    let each = reports.iter().flat_map(|report| {
        let named = |(title, drawing): (String, Drawing)| {
            (format!("{} {title}", report.scenario).trim_end().to_owned(), drawing)
        };
        page::drawings(report).into_iter().map(named)
    });
    each.collect()
}
