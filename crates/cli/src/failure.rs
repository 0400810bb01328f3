//! Failures of a command: one line, and an exit code.

use std::fmt;
use std::process::ExitCode;

/// Reason why the command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments cannot be right: exit code 2.
    BadInput(String),
    /// The arguments are fine and it went wrong: exit code 1.
    Run(String),
    /// Another program failed, whose exit code this one's is.
    Command { reason: String, code: u8 },
    /// Ctrl-C: exit code 130, as shells have it.
    Interrupted(String),
}

impl Failure {
    pub(crate) fn bad_input(reason: impl fmt::Display) -> Self {
        Self::BadInput(reason.to_string())
    }

    pub(crate) fn run(reason: impl fmt::Display) -> Self {
        Self::Run(reason.to_string())
    }

    /// Ctrl-C, after what there is was shown.
    pub(crate) fn interrupted(nothing: bool) -> Self {
        let so_far = if nothing { "there are no results" } else { "these are the results so far" };
        Self::Interrupted(format!("interrupted; {so_far}"))
    }

    /// The same with more in its line.
    pub(crate) fn and(mut self, more: &dyn fmt::Display) -> Self {
        let (Self::BadInput(reason)
        | Self::Run(reason)
        | Self::Command { reason, .. }
        | Self::Interrupted(reason)) = &mut self;
        *reason = format!("{reason}; {more}");
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Run(_) => 1,
            Self::BadInput(_) => 2,
            Self::Command { code, .. } => *code,
            Self::Interrupted(_) => 130,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadInput(reason)
            | Self::Run(reason)
            | Self::Command { reason, .. }
            | Self::Interrupted(reason) => f.write_str(reason),
        }
    }
}
