//! The table of peers, roles and cases: for the terminal, and as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::cases::{CASES, Case, MEASUREMENTS};
use super::report::{Cell, Grade, InteropReport, Role};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use fullpipe_report::output::page::{escape, foot, head, html_table, open_table};
use fullpipe_report::output::table::{Table, number};

/// The runner's short names of cases, in the order of the cases.
const SHORT: [&str; 24] = [
    "H", "DC", "LR", "C20", "M", "S", "R", "Z", "3", "B", "U", "E", "A", "L1", "L2", "C1", "C2",
    "6", "V2", "BP", "BA", "CM", "G", "C",
];

/// A row for each peer and role and a column for each case, under the case's short name.
pub fn table(report: &InteropReport) -> Table {
    let shown: Vec<(&Case, &'static str)> = all().filter(|(case, _)| has(report, case)).collect();
    let mut header = vec![("peer", ""), ("is", "")];
    header.extend(
        shown
            .iter()
            .map(|(case, short)| (*short, if case.is_measurement() { "kbit/s" } else { "" })),
    );
    let rows = pairs(report).into_iter().map(|(peer, role)| {
        let cells = shown.iter().map(|(case, _)| {
            let cell = find(report, peer, role, case.name);
            cell.map_or_else(String::new, |cell| match (cell.figure(), cell.grade()) {
                (Some(_), _) => cell.in_short(),
                (_, Grade::Passed) => "ok".to_owned(),
                (_, Grade::Unsupported) => "-".to_owned(),
                (_, Grade::NotChecked) => "?".to_owned(),
                (_, Grade::Failed) => "FAILED".to_owned(),
            })
        });
        [peer.to_owned(), role.name().to_owned()].into_iter().chain(cells).collect()
    });
    Table { header, rows: rows.collect() }
}

/// The text below the table: the short names, and why a case did not pass.
pub fn notes(report: &InteropReport) -> String {
    let mut text = String::new();
    let names = all()
        .filter(|(case, _)| has(report, case))
        .map(|(case, short)| format!("{short} {}", case.name));
    let _ = writeln!(text, "{}", names.collect::<Vec<_>>().join(", "));
    text.push_str("ok passed, - an end has no such case, ? not all could be looked at\n");
    for cell in report.cells.iter().filter(|cell| cell.grade() > Grade::Unsupported) {
        let _ = writeln!(text, "{}: {}: {}", place(cell), cell.in_short(), reasons(cell));
    }
    text
}

/// The peer's name with its role and the case.
fn place(cell: &Cell) -> String {
    match cell.role {
        Role::Both => format!("{}, {}", cell.peer, cell.case),
        role => format!("{} as {}, {}", cell.peer, role.name(), cell.case),
    }
}

/// Reasons why runs did not pass, each once.
fn reasons(cell: &Cell) -> String {
    let worst = cell.grade();
    let mut all: Vec<&str> = Vec::new();
    for note in cell.runs.iter().filter(|run| run.grade == worst).flat_map(|run| &run.notes) {
        if !all.contains(&note.as_str()) {
            all.push(note);
        }
    }
    all.join("; ")
}

fn all() -> impl Iterator<Item = (&'static Case, &'static str)> {
    CASES.iter().chain(&MEASUREMENTS).zip(SHORT)
}

fn has(report: &InteropReport, case: &Case) -> bool {
    report.cases.iter().any(|name| name == case.name)
}

fn find<'a>(report: &'a InteropReport, peer: &str, role: Role, case: &str) -> Option<&'a Cell> {
    report.cells.iter().find(|cell| cell.peer == peer && cell.role == role && cell.case == case)
}

/// The peers with their roles, in the order of the results.
fn pairs(report: &InteropReport) -> Vec<(&str, Role)> {
    let mut pairs: Vec<(&str, Role)> = Vec::new();
    for cell in &report.cells {
        let pair = (cell.peer.as_str(), cell.role);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

/// The page. What was kept of runs is linked to relative to `dir`, the folder that the page is in,
/// where it is below that.
pub fn render(report: &InteropReport, dir: &Path) -> String {
    let mut page = head("fullpipe: interop");
    let _ = write!(
        page,
        "<h1>Interop cases</h1>\n<p class=\"detail\">{}. Each case ran between two network namespaces over a path of its own, \
         between the peer and this program, and was checked by the files and by the packets at both ends.</p>\n",
        escape(&report.date)
    );
    page.push_str(STYLE);
    if report.interrupted {
        page.push_str("<p class=\"warning\">Stopped before its time: the results so far.</p>\n");
    }
    matrix(&mut page, report, dir);
    sums(&mut page, report);
    details(&mut page, report, dir);
    peers(&mut page, report);
    page.push_str(&foot(". What each case asks for stands in docs/interop.md."));
    page
}

/// Colours of the grades: they are told by words as well.
const STYLE: &str = "<style>td.passed { background: rgba(60, 160, 90, 0.25); } td.failed { background: rgba(210, 60, 50, 0.35); } \
                     td.open { background: rgba(210, 160, 40, 0.3); } td.none { color: var(--faint); }</style>\n";

fn class(grade: Grade) -> &'static str {
    match grade {
        Grade::Passed => "passed",
        Grade::Unsupported => "none",
        Grade::NotChecked => "open",
        Grade::Failed => "failed",
    }
}

fn matrix(page: &mut String, report: &InteropReport, dir: &Path) {
    let pairs = pairs(report);
    page.push_str("<section>\n<h2>Cases and peers</h2>\n");
    open_table(page, "summary", "cases", "Cases and peers");
    page.push_str("<thead>\n<tr><th scope=\"col\">case</th>");
    for (peer, role) in &pairs {
        let role = if *role == Role::Both { "both ends" } else { role.name() };
        let _ = write!(page, "<th scope=\"col\">{}<br>{role}</th>", escape(peer));
    }
    page.push_str("</tr>\n</thead>\n<tbody>\n");
    for name in &report.cases {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(name));
        for (peer, role) in &pairs {
            match find(report, peer, *role, name) {
                None => page.push_str("<td></td>"),
                Some(cell) => {
                    let text = escape(&cell.in_short());
                    let logs = cell.runs.iter().find_map(|run| run.logs.as_deref());
                    let text = logs.map_or_else(|| text.clone(), |logs| link(logs, dir, &text));
                    let _ = write!(page, "<td class=\"{}\">{text}</td>", class(cell.grade()));
                }
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// The number of cases of each pair by grade; those that the peer has not are not counted among
/// all.
fn sums(page: &mut String, report: &InteropReport) {
    let is_case = |cell: &&Cell| CASES.iter().any(|case| case.name == cell.case);
    let rows = pairs(report).into_iter().map(|(peer, role)| {
        let cells =
            report.cells.iter().filter(|c| c.peer == peer && c.role == role).filter(is_case);
        let mut counts: BTreeMap<Grade, usize> = BTreeMap::new();
        cells.for_each(|cell| *counts.entry(cell.grade()).or_default() += 1);
        let of = |grade| counts.get(&grade).copied().unwrap_or_default();
        let (passed, without) = (of(Grade::Passed), of(Grade::Unsupported));
        let all: usize = counts.values().sum();
        vec![
            peer.to_owned(),
            role.name().to_owned(),
            format!("{passed} of {}", all - without),
            without.to_string(),
        ]
    });
    let header = vec![("peer", ""), ("is", ""), ("passed", ""), ("not supported", "")];
    let table = Table { header, rows: rows.collect() };
    page.push_str("<section>\n<h2>Sums</h2>\n");
    html_table(page, "Sums", &table);
    page.push_str("</section>\n");
}

/// Each run that did not pass, with its reason and what was kept of it.
fn details(page: &mut String, report: &InteropReport, dir: &Path) {
    let runs = report
        .cells
        .iter()
        .flat_map(|cell| cell.runs.iter().enumerate().map(move |(n, run)| (cell, n, run)));
    let open: Vec<_> = runs.filter(|(_, _, run)| run.grade > Grade::Unsupported).collect();
    if open.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Not passed</h2>\n<ul>\n");
    for (cell, n, run) in open {
        let _ = write!(
            page,
            "<li>{}, run {}: {} after {} s: {}",
            escape(&place(cell)),
            n + 1,
            run.grade.name(),
            number(run.elapsed_s),
            escape(&run.notes.join("; "))
        );
        if let Some(logs) = &run.logs {
            let kept = [
                "server/output.txt",
                "client/output.txt",
                "server/qlog",
                "client/qlog",
                "link/server.pcapng",
                "link/client.pcapng",
                "link/keys.log",
            ];
            let links = kept.map(|file| link(&logs.join(file), dir, file));
            let _ = write!(page, "<br>{}", links.join(", "));
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ul>\n</section>\n");
}

/// The characters of a path that stay as they are in a link. A colon does not: what stands before
/// it would be a scheme.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_');

fn link(to: &Path, dir: &Path, text: &str) -> String {
    let to = to.strip_prefix(dir).unwrap_or(to).to_string_lossy();
    format!("<a href=\"{}\">{text}</a>", utf8_percent_encode(&to, PATH))
}

fn peers(page: &mut String, report: &InteropReport) {
    page.push_str("<section>\n<h2>Versions</h2>\n");
    let row = |peer: &fullpipe_judge::peers::Installed| {
        vec![peer.name.clone(), peer.version.clone().unwrap_or_default(), peer.says.clone()]
    };
    let header = vec![("peer", ""), ("recipe", ""), ("says of itself", "")];
    let table = Table { header, rows: report.peers.iter().map(row).collect() };
    html_table(page, "Versions", &table);
    if !report.missing.is_empty() {
        page.push_str("<h3>Not there</h3>\n<ul>\n");
        for missing in &report.missing {
            let _ =
                writeln!(page, "<li>{} {}</li>", escape(&missing.name), escape(&missing.reason));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::super::report::Run;
    use super::*;

    fn report() -> InteropReport {
        let run = |grade, note: &str| Run {
            grade,
            notes: vec![note.to_owned()],
            elapsed_s: 1.5,
            kbps: None,
            tshark_agrees: None,
            logs: (grade == Grade::Failed).then(|| "/out/logs/a <b>".into()),
        };
        let cell = |case: &str, role, runs| Cell {
            peer: "a <b>".to_owned(),
            role,
            case: case.to_owned(),
            runs,
        };
        let measured = |kbps| Run { kbps: Some(kbps), ..run(Grade::Passed, "") };
        let cases: Vec<&Case> = CASES.iter().take(2).chain(&MEASUREMENTS[..1]).collect();
        let mut report = InteropReport::new(&cases);
        report.cells = vec![
            cell("handshake", Role::Server, vec![run(Grade::Passed, "")]),
            cell(
                "transfer",
                Role::Server,
                vec![run(Grade::Passed, ""), run(Grade::Failed, "a & b")],
            ),
            cell("goodput", Role::Server, vec![measured(9400.0), measured(9500.0)]),
            cell("handshake", Role::Client, vec![run(Grade::Unsupported, "")]),
            cell("transfer", Role::Client, vec![run(Grade::NotChecked, "no keys")]),
        ];
        report
    }

    #[test]
    fn a_table_has_all_grades_and_the_notes_their_reasons() {
        let (table, notes) = (table(&report()), notes(&report()));
        assert_eq!(
            table.header.iter().map(|h| h.0).collect::<Vec<_>>(),
            ["peer", "is", "H", "DC", "G"]
        );
        assert_eq!(table.rows[0][2..], ["ok", "FAILED", "9450 (+-71)"]);
        assert_eq!(table.rows[1][2..], ["-", "?", ""]);
        assert!(notes.contains("H handshake, DC transfer, G goodput"), "{notes}");
        assert!(notes.contains("as server, transfer: failed, 1 of 2 passed: a & b\n"), "{notes}");
        assert!(notes.contains("as client, transfer: not checked: no keys\n"), "{notes}");
    }

    #[test]
    fn a_page_escapes_and_links_to_what_was_kept() {
        let page = render(&report(), Path::new("/out"));
        assert!(
            link(Path::new("javascript:alert(1)"), Path::new("/out"), "x")
                .contains("\"javascript%3Aalert")
        );
        assert!(page.contains("<a href=\"logs/a%20%3Cb%3E\">failed, 1 of 2 passed</a>"), "{page}");
        assert!(page.contains("logs/a%20%3Cb%3E/link/server.pcapng"));
        assert!(page.contains("a &amp; b") && !page.contains("a <b>"));
        assert!(page.contains("1 of 2") && page.contains("0 of 1"));
    }
}
