//! The story of a flow that a file has.

use std::path::Path;

use fullpipe_judge::capture::{self, Choice, Story};
use fullpipe_report::output::{SCHEMA_VERSION, page};

use crate::failure::Failure;
use crate::print;

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    #[serde(flatten)]
    story: &'a Story,
}

/// A file with a flow, and the form of its story.
pub(crate) struct File<'a> {
    pub(crate) pcap: Option<&'a Path>,
    pub(crate) qlog: Option<&'a Path>,
    /// The secrets of a capture.
    pub(crate) keys: Option<&'a Path>,
    pub(crate) choice: &'a Choice,
    pub(crate) report: Option<&'a Path>,
    pub(crate) json: bool,
}

impl File<'_> {
    /// Tells what the file shows. Defects are results: the exit code is that of a verdict.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        let Some(story) = self.tell()? else { return Ok(()) };
        let defects: Vec<&str> = story.verdict.defects.iter().map(|d| d.name.as_str()).collect();
        match defects.as_slice() {
            [] => Ok(()),
            defects => Err(Failure::run(format!("defects: {}", defects.join(", ")))),
        }
    }

    /// Tells what the file shows, if there is one.
    pub(crate) fn tell(&self) -> Result<Option<Story>, Failure> {
        if let Some(file) = self.report {
            page::check_writable(file).map_err(Failure::bad_input)?;
            page::check_replaceable(file).map_err(Failure::bad_input)?;
        }
        let (file, read) = match (self.pcap, self.qlog) {
            (Some(file), _) => {
                let read = match self.keys {
                    Some(keys) => Story::of_capture_with_keys(file, self.choice, keys),
                    None => Story::of_capture(file, self.choice),
                };
                (file, read)
            }
            (None, Some(file)) => (file, Story::of_qlog(file, self.choice)),
            (None, None) => return Ok(None),
        };
        let story =
            read.map_err(|error| Failure::bad_input(format!("{}: {error}", file.display())))?;
        if let Some(file) = self.report {
            let text = capture::page(&story).map_err(Failure::run)?;
            page::write_text(file, &text).map_err(Failure::run)?;
        }
        if self.json {
            let report = Report { schema_version: SCHEMA_VERSION, story: &story };
            print(&format!("{}\n", serde_json::to_string(&report).map_err(Failure::run)?))?;
        } else {
            print(&story.text())?;
        }
        Ok(Some(story))
    }
}
