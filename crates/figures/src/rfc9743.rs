//! RFC 9743: how a new congestion control is to be evaluated, scenario by scenario.

use super::checks::{Checks, show};
use super::runs::FileRuns;
use fullpipe_report::expect::Verdict;
use fullpipe_report::output::plot::CellTable;

/// Sections that nothing can be run for, and what there is to say.
const WORDS: [(&str, &str, &str); 4] = [
    (
        "5.3.1 differences with the principles",
        "bbr3 answers loss above 2 % of a round trip and not each loss; CE marks count as lost volume",
        "docs/limits.md",
    ),
    (
        "5.3.2 incremental deployment",
        "the sender alone changes: no option, no receiver, no router",
        "docs/library.md, docs/kernel.md",
    ),
    (
        "6.2 tunnels",
        "bbr3 takes no signal of the path; bbr3-linux takes CE marks, which a tunnel has to copy (RFC 6040). Not run",
        "crates/cc/src/bbr3/ecn.rs",
    ),
    ("7.10 multipath", "there is no multipath transport here. Not run", "docs/limits.md"),
];

/// A row for each thing that is looked at, with the scenario that shows it.
pub(super) fn rfc9743(out: &mut Checks, plays: &[FileRuns]) {
    let mut table = CellTable::new(&["section", "scenario", "result", "limit", "where to look"]);
    for play in plays {
        let section = play.name.replacen('-', " ", 1).replace('-', " ");
        for (i, verdict) in play.verdicts.iter().enumerate() {
            let first = |words: &str| if i == 0 { words.to_owned() } else { String::new() };
            table.row([
                first(&section),
                first(&play.about),
                result(verdict),
                format!("{} {}", verdict.comparison, verdict.bound.map_or("none".into(), show)),
                first(play.file),
            ]);
        }
    }
    for (section, words, place) in WORDS {
        let cells = [section, "", words, "", place];
        table.row(cells.map(str::to_owned));
    }
    out.drawing.tables.push(table);
    out.note("the RFC has no limits: these are our own, and were set before anything ran. CUBIC runs in each scenario too; fullpipe run FILE prints both");
}

fn result(v: &Verdict) -> String {
    let mark = match (v.met, v.is_as_known()) {
        (true, _) => "",
        (false, true) => "known not to be met: ",
        (false, false) => "not met: ",
    };
    format!("{mark}{} {}", v.name, v.value.map_or("none".into(), show))
}
