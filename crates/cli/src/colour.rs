//! Colour on the terminal, for what is not as it should be. `NO_COLOR` and whatever is no terminal
//! get none.

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};
use fullpipe_report::expect::Verdict;
use fullpipe_report::output::table;

const BAD: Style = AnsiColor::Red.on_default().bold();

/// The lines of verdicts for stdout.
pub(crate) fn verdicts<'a>(all: impl Iterator<Item = &'a Verdict>) -> String {
    let colours = AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    all.map(|verdict| line(verdict, colours)).collect()
}

fn line(verdict: &Verdict, colours: bool) -> String {
    let line = table::verdict(verdict);
    match line.split_once(':') {
        Some((head, rest)) if colours && !verdict.is_as_known() => {
            format!("{BAD}{head}{BAD:#}:{rest}")
        }
        _ => line,
    }
}
