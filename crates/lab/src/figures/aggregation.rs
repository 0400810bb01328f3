//! ACKs in bursts: what BBR loses without its estimate of aggregation.

use fullpipe_cc::Algorithm;
use fullpipe_path::{ElementConfig, QueueLimit};
use fullpipe_sim::FlowConfig;

use super::drawing::{Drawing, Kind, Line, Panel, Table};
use super::outcome::{Outcome, show};
use super::stage::{Broken, MBIT, Setup, Stage, millis};

const RTT_MS: f64 = 10.0;
/// Nearly two round trips of silence, in which a window of two BDP runs out.
const SILENCE_MS: f64 = 19.0;
/// What the links carry, and what was published for them: without, with, CUBIC.
const LINKS: [(f64, &str, [f64; 3]); 2] =
    [(106.0, "2.4 GHz", [73.0, 102.0, 100.0]), (640.0, "5 GHz", [362.0, 593.0, 601.0])];

/// Without extra_acked, with it, CUBIC; on two links.
pub(super) fn aggregation(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    let mut table = Table::new(&["link", "without", "with", "CUBIC", "bbr3", "published"]);
    let names = ["without", "with", "CUBIC", "bbr3"];
    let mut panels = Vec::new();
    let mut out = Outcome::default();
    for (mbit, link, published) in LINKS {
        let mut goodputs = Vec::new();
        for (algorithm, estimate) in [
            (Algorithm::Bbr1, false),
            (Algorithm::Bbr1, true),
            (Algorithm::Cubic, true),
            (Algorithm::Bbr3, true),
        ] {
            // The buffer holds four times what comes in a round trip and a silence.
            let buffer = 4.0 * (RTT_MS + SILENCE_MS) / RTT_MS;
            let mut setup = Setup::new(mbit * MBIT, RTT_MS, buffer, 20.0);
            setup.acks.push(ElementConfig::Aggregation {
                interval: millis(SILENCE_MS),
                burst: QueueLimit::Bytes(u64::MAX),
                keep_one_in: 1,
            });
            let mut flow = FlowConfig::tcp_bulk(algorithm);
            flow.cc.bbr1_ack_aggregation = estimate;
            goodputs.push(stage.run(&setup.flow(flow))?.total() / 1e6);
        }
        let bars = goodputs.iter().enumerate().map(|(i, g)| (i as f64, *g));
        let mut panel = Panel::new(&format!("{link}-like link of {mbit} Mbit/s"), "", "Mbit/s");
        panel.lines.push(Line::new("measured", bars).kind(Kind::Bars));
        panel.lines.push(
            Line::new("published", published.iter().enumerate().map(|(i, g)| (i as f64, *g)))
                .kind(Kind::Bars),
        );
        panel.names = names.map(str::to_owned).to_vec();
        panels.push(panel);
        let told = published.map(show).join(" / ");
        table.row(
            [link.to_owned()].into_iter().chain(goodputs.iter().map(|g| show(*g))).chain([told]),
        );
        let [without, with, cubic, bbr3] = goodputs[..] else { continue };
        out.at_least(&format!("{link}: with, over CUBIC"), with / cubic, 0.98);
        out.at_most("without, over CUBIC", without / cubic, 0.75);
        out.note(format!(
            "{link}: {} / {} / {} Mbit/s, bbr3 {}",
            show(without),
            show(with),
            show(cubic),
            show(bbr3)
        ));
    }
    out.drawing = Drawing::of(panels).table(table);
    out.note("bbr1 over TCP, 10 ms, all ACKs of 19 ms at once");
    Ok(out)
}
