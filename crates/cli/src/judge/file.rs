//! The story of a flow that a file has.

use std::path::Path;

use fullpipe_judge::capture::{self, CaptureError, Choice, Story};
use fullpipe_lab::output::{SCHEMA_VERSION, page};

use super::Args;
use crate::failure::Failure;
use crate::print;

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    #[serde(flatten)]
    story: &'a Story,
}

/// Tells what the file shows. Defects are results: the exit code is that of a verdict.
pub(super) fn tell(args: &Args) -> Result<(), Failure> {
    if let Some(file) = &args.report {
        page::check_writable(file).map_err(Failure::bad_input)?;
        page::check_replaceable(file).map_err(Failure::bad_input)?;
    }
    let choice = args.flow.as_ref().unwrap_or(&Choice::Largest);
    let read = |file: &Path, read: fn(&Path, &Choice) -> Result<Story, CaptureError>| {
        read(file, choice)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", file.display())))
    };
    let story = match (&args.pcap, &args.qlog) {
        (Some(file), _) => read(file, Story::of_capture)?,
        (None, Some(file)) => read(file, Story::of_qlog)?,
        (None, None) => return Ok(()),
    };
    if let Some(file) = &args.report {
        let text = capture::page(&story).map_err(Failure::run)?;
        page::write_text(file, &text).map_err(Failure::run)?;
    }
    if args.json {
        let report = Report { schema_version: SCHEMA_VERSION, story: &story };
        print(&format!("{}\n", serde_json::to_string(&report).map_err(Failure::run)?))?;
    } else {
        print(&story.text())?;
    }
    let defects: Vec<&str> = story.verdict.defects.iter().map(|d| d.name.as_str()).collect();
    match defects.as_slice() {
        [] => Ok(()),
        defects => Err(Failure::run(format!("defects: {}", defects.join(", ")))),
    }
}
