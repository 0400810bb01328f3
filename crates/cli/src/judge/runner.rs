//! One run of the command on one path, ended when the path's time is over.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_judge::program::judge::{Competitor, TestPath};
use fullpipe_judge::program::{
    self, Beside, CompetingDirection, MOST_PACKETS, PORT_PLACE, ProgramPath, ProgramPlace,
    ProgramRequest, ProgramResult, SERVER_PORT,
};

use super::Args;
use crate::failure::Failure;
use crate::link::cannot_run;

/// A run that is to be.
pub(super) struct Runner<'a> {
    pub(super) args: &'a Args,
    pub(super) place: ProgramPlace,
    pub(super) test_path: &'a TestPath,
    /// True if the command's data goes up.
    pub(super) is_up: bool,
    pub(super) stop: &'a AtomicBool,
}

impl Runner<'_> {
    /// The result, with a record of all packets, and the path.
    pub(super) fn run(&self) -> Result<(ProgramResult, ProgramPath), Failure> {
        let path = self.test_path.path(self.is_up).map_err(Failure::run)?;
        let on = |copy: u16| {
            let port = |word: &OsString| with_port(word, SERVER_PORT + copy);
            let command: Vec<OsString> = self.args.command.iter().map(port).collect();
            Beside { command, server: self.args.server.as_ref().map(port) }
        };
        let Beside { command, server } = match self.args.server {
            Some(_) => on(0),
            None => Beside { command: self.args.command.clone(), server: None },
        };
        let beside = match (self.test_path.company, &self.args.server) {
            (Competitor::Itself, None) => vec![Beside { command: command.clone(), server: None }],
            // One whose port cannot be chosen serves both.
            (Competitor::Itself, Some(line)) if on(1).server.as_ref() == Some(line) => {
                vec![Beside { server: None, ..on(1) }]
            }
            (Competitor::Itself, Some(_)) => vec![on(1)],
            _ => Vec::new(),
        };
        let rival = match (self.test_path.company, self.is_up) {
            (Competitor::Cubic, true) => Some(CompetingDirection::Up),
            (Competitor::Cubic, false) => Some(CompetingDirection::Down),
            _ => None,
        };
        let over = AtomicBool::new(false);
        let result = program::run(ProgramRequest {
            path: &path,
            place: self.place,
            rebind: &[],
            capture: None,
            command: &command,
            server: server.as_deref(),
            beside: &beside,
            rival,
            record: MOST_PACKETS,
            output_on_stderr: true,
            stop: &over,
            address: &mut |_| (),
            watch: &mut |progress| {
                let is_over = progress.elapsed >= self.test_path.span();
                if is_over || self.stop.load(Ordering::Relaxed) {
                    over.store(true, Ordering::Relaxed);
                }
            },
        });
        Ok((result.map_err(cannot_run)?, path))
    }
}

fn with_port(word: &OsString, port: u16) -> OsString {
    match word.to_str() {
        Some(text) => text.replace(PORT_PLACE, &port.to_string()).into(),
        None => word.clone(),
    }
}
