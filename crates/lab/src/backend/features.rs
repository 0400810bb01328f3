//! The table of backends and features: what each backend has of what a file may ask for.

use fullpipe_scenario::{Clock, Feature, Protocol, Setting, Stack};

/// Backends that have the same features.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Sim,
    QuicVirtual,
    QuicReal,
    TcpVirtual,
    TcpReal,
    Linux,
}

use Column::{Linux, QuicReal, QuicVirtual, Sim, TcpReal, TcpVirtual};

const ALL: &[Column] = &[Sim, QuicVirtual, QuicReal, TcpVirtual, TcpReal, Linux];
const VIRTUAL: &[Column] = &[Sim, QuicVirtual, TcpVirtual];

/// The backends that have a feature. Algorithms and numbers of flows are asked of each backend.
const fn having(feature: Feature) -> &'static [Column] {
    match feature {
        Feature::Algorithm(_)
        | Feature::Flows(_)
        | Feature::Chain
        | Feature::CrossTraffic
        | Feature::RateTrace
        | Feature::Upwards => ALL,
        // The encoder and the player of media are one machine, and have one clock.
        Feature::Graph | Feature::LateStart | Feature::Media | Feature::Probe | Feature::Route => {
            VIRTUAL
        }
        Feature::Transport(Protocol::Quic) => &[Sim, QuicVirtual, QuicReal],
        Feature::Transport(Protocol::Tcp) => &[Sim, TcpVirtual, TcpReal, Linux],
        // Handshakes of all others give up, and their stacks answer marks.
        Feature::LongPath | Feature::IgnoredMarks => &[Sim],
        Feature::Program => &[TcpReal, Linux],
        Feature::Setting(setting) => match setting {
            Setting::ExtraRtt => ALL,
            Setting::Access
            | Setting::Ecn
            | Setting::Jitter
            | Setting::ReceiveWindow
            | Setting::Resume => VIRTUAL,
            Setting::Receiver => &[TcpReal],
            // Of the TCP in user space both ends are ours. It has no other rule for reordering, no
            // recovery without PRR, no pause without a smaller window, and no connection without a
            // handshake.
            Setting::Handshake | Setting::IdleRestart | Setting::Prr | Setting::Reordering => {
                &[Sim]
            }
            Setting::AckAggregation
            | Setting::AckDelay
            | Setting::AckEvery
            | Setting::Bbr3xWithout
            | Setting::Cubic
            | Setting::InitialCwnd
            | Setting::Mss
            | Setting::Paced
            | Setting::Pacer
            | Setting::QuickAcks
            | Setting::ReceiveWindowInitial
            | Setting::ReceiverDelay
            | Setting::RtoMin
            | Setting::SendBuffer
            | Setting::StartupCwndGain
            | Setting::Startup
            | Setting::StartupPacingGain
            | Setting::SwiftEndpoint
            | Setting::SwiftRange
            | Setting::SwiftTarget => &[Sim, TcpVirtual],
        },
    }
}

/// True if the backend of this stack and this clock has a feature.
pub(super) fn has(stack: Stack, clock: Clock, feature: Feature) -> bool {
    let column = match (stack, clock) {
        (Stack::Sim, _) => Sim,
        (Stack::Noq | Stack::Quinn | Stack::S2n, Clock::Virtual) => QuicVirtual,
        (Stack::Noq | Stack::Quinn | Stack::S2n, Clock::Real) => QuicReal,
        (Stack::Tcp, Clock::Virtual) => TcpVirtual,
        (Stack::Tcp, Clock::Real) => TcpReal,
        (Stack::Linux, _) => Linux,
    };
    having(feature).contains(&column)
}

#[cfg(all(test, feature = "quinn", feature = "s2n", target_os = "linux"))]
mod tests {
    use std::path::Path;

    use fullpipe_scenario::Cc;

    use crate::backend::{BACKENDS, Backend};

    use super::*;

    const FEATURES: [Feature; 14] = [
        Feature::Chain,
        Feature::RateTrace,
        Feature::CrossTraffic,
        Feature::Upwards,
        Feature::Route,
        Feature::Graph,
        Feature::LateStart,
        Feature::LongPath,
        Feature::Program,
        Feature::Media,
        Feature::Probe,
        Feature::IgnoredMarks,
        Feature::Transport(Protocol::Quic),
        Feature::Transport(Protocol::Tcp),
    ];

    /// A row's names, and its cells.
    type Row = (Vec<String>, Vec<String>);

    /// Adds a name to the row with the same cells.
    fn add(rows: &mut Vec<Row>, name: String, cells: Vec<String>) {
        match rows.iter_mut().find(|(_, known)| *known == cells) {
            Some((names, _)) => names.push(name),
            None => rows.push((vec![name], cells)),
        }
    }

    /// The table as Markdown.
    fn table() -> String {
        let is_toy = |b: &&&dyn Backend| b.stack() == Stack::Sim && b.clock() == Clock::Real;
        let backends: Vec<_> = BACKENDS.iter().filter(|b| !is_toy(b)).collect();
        let head = backends.iter().map(|b| match b.clock() == b.stack().usual_clock() {
            true => b.stack().to_string(),
            false => format!("{}, {}", b.stack(), b.clock()),
        });
        let mut algorithms = Vec::new();
        for name in Cc::names().chain(["fixed:10mbit"]) {
            let cc: Cc = name.parse().expect(name);
            let cells = backends.iter().map(|b| match b.algorithm(cc) {
                None => String::new(),
                Some(same) if same == cc => "yes".to_owned(),
                Some(other) => format!("`{other}`"),
            });
            add(&mut algorithms, format!("`{name}`"), cells.collect());
        }
        let mut features = Vec::new();
        for feature in
            FEATURES.into_iter().chain(Setting::ALL.iter().copied().map(Feature::Setting))
        {
            let has = |b: &&&dyn Backend| if b.has(feature) { "yes" } else { "" }.to_owned();
            let name = feature.to_string();
            let is_text = name.contains('=') || matches!(feature, Feature::Setting(_));
            let name = if is_text { format!("`{name}`") } else { name };
            add(&mut features, name, backends.iter().map(has).collect());
        }
        let mut flows = Vec::new();
        let most = backends.iter().map(|b| match b.most_flows() {
            usize::MAX => "yes".to_owned(),
            n => format!("up to {n}"),
        });
        add(&mut flows, "flows".to_owned(), most.collect());
        let line = |name: &str, cells: Vec<String>| {
            let cells: String =
                cells.iter().map(|cell| format!(" {cell} |").replace("  ", " ")).collect();
            format!("| {name} |{cells}\n")
        };
        let head = line("a file may say", head.collect());
        let under = format!("|---|{}\n", "---|".repeat(backends.len()));
        let rows = [algorithms, features, flows].concat();
        let rows = rows.into_iter().map(|(names, cells)| line(&names.join(", "), cells));
        [head, under].into_iter().chain(rows).collect()
    }

    #[test]
    fn the_table_of_the_page_is_this_one() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
        let page = std::fs::read_to_string(page).expect("docs/scenarios.md");
        let (_, rest) = page.split_once("<!-- backends -->\n\n").expect("a place for the table");
        let (there, _) = rest.split_once("\n<!-- end -->").expect("its end");
        let table = table();
        assert!(there == table, "docs/scenarios.md has another table than this one:\n{table}");
    }
}
