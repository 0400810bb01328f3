//! Goodput under random loss: figure 8 of the paper, and nsperf's table.

use fullpipe_cc::Algorithm;

use super::drawing::{Drawing, Kind, Line, Panel, Scale, Table};
use super::outcome::{Outcome, show};
use super::plays::{Plays, number};
use super::stage::{Broken, MBIT, Setup, Stage, smallest};

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3, Algorithm::Bbr3Linux];

/// For each algorithm the goodput in bit/s at each loss in percent.
struct Sweep {
    link: f64,
    percents: Vec<f64>,
    goodput: Vec<(&'static str, Vec<f64>)>,
}

impl Sweep {
    fn run(stage: &Stage<'_>, setup: &Setup, percents: &[f64]) -> Result<Self, Broken> {
        let mut goodput = Vec::new();
        for algorithm in ALGORITHMS {
            let mut row = Vec::new();
            for &percent in percents {
                let run = stage.run(&setup.clone().loss(percent / 100.0).tcp(algorithm, 0.0))?;
                row.push(run.total());
            }
            goodput.push((algorithm.name(), row));
        }
        let link = setup.bits * 1448.0 / 1500.0;
        Ok(Self { link, percents: percents.to_vec(), goodput })
    }

    fn limit(&self, percent: f64) -> f64 {
        self.link * (1.0 - percent / 100.0)
    }

    /// Goodput over link x (1 - p).
    fn share(&self, name: &str, percent: f64) -> f64 {
        let row = self.goodput.iter().find(|(n, _)| *n == name);
        let place = self.percents.iter().position(|p| *p == percent);
        row.zip(place).map_or(0.0, |((_, row), i)| row[i] / self.limit(percent))
    }

    /// The least share at all losses up to this one.
    fn least_to(&self, name: &str, percent: f64) -> f64 {
        smallest(self.percents.iter().filter(|p| **p <= percent).map(|p| self.share(name, *p)))
    }

    fn draw(&self) -> Drawing {
        let mut panel = Panel::new("Goodput under random loss", "Loss, %", "Mbit/s")
            .scales(Scale::Log, Scale::Linear);
        let mut header = vec!["loss %", "link x (1 - p)"];
        header.extend(self.goodput.iter().map(|(name, _)| *name));
        let mut table = Table::new(&header);
        for (name, row) in &self.goodput {
            let points = self.percents.iter().zip(row).map(|(p, g)| (*p, g / 1e6));
            panel.lines.push(Line::new(*name, points).kind(Kind::Marked));
        }
        let limit = self.percents.iter().map(|p| (*p, self.limit(*p) / 1e6));
        panel.lines.push(Line::new("link x (1 - p)", limit).kind(Kind::Dashed));
        for (i, p) in self.percents.iter().enumerate() {
            let cells = self.goodput.iter().map(|(_, row)| show(row[i] / 1e6));
            table.row([show(*p), show(self.limit(*p) / 1e6)].into_iter().chain(cells));
        }
        Drawing::of(vec![panel]).table(table)
    }

    fn shares(&self, name: &str) -> String {
        let each =
            self.percents.iter().map(|p| format!("{} at {}", show(self.share(name, *p)), show(*p)));
        format!("{name} by loss %: {}", each.collect::<Vec<_>>().join(", "))
    }
}

/// Figure 8.
pub(super) fn fig8(out: &mut Outcome, plays: &[Plays]) {
    out.drawing = draw(&plays[0], 100.0);
    for name in ["bbr3", "bbr1"] {
        out.note(shares(&plays[0], name, 100.0));
    }
    out.note("over QUIC, a buffer of 1 BDP");
}

/// Goodput over the loss, beside what the link of so many Mbit/s lets pass.
fn draw(plays: &Plays, link: f64) -> Drawing {
    let mut panel = Panel::new("Goodput under random loss", "Loss, %", "Mbit/s")
        .scales(Scale::Log, Scale::Linear);
    let (algorithms, losses) = (plays.values("cc"), plays.values("loss"));
    let goodput = |cc: &str, loss: &str| {
        plays.run(&[cc, loss]).map_or(f64::NAN, |run| run.figure("goodput_mbps"))
    };
    let limit = |loss: &str| link * (1.0 - number(loss) / 100.0);
    for cc in &algorithms {
        let points = losses.iter().map(|loss| (number(loss), goodput(cc, loss)));
        panel.lines.push(Line::new(*cc, points).kind(Kind::Marked));
    }
    let limits = losses.iter().map(|loss| (number(loss), limit(loss)));
    panel.lines.push(Line::new("link x (1 - p)", limits).kind(Kind::Dashed));
    let header = ["loss", "link x (1 - p)"].into_iter().chain(algorithms.iter().copied());
    let mut table = Table::new(&header.collect::<Vec<_>>());
    for loss in &losses {
        let cells = algorithms.iter().map(|cc| show(goodput(cc, loss)));
        table.row([(*loss).to_owned(), show(limit(loss))].into_iter().chain(cells));
    }
    Drawing::of(vec![panel]).table(table)
}

fn shares(plays: &Plays, cc: &str, link: f64) -> String {
    let each = plays.runs(&[cc]).map(|run| {
        let loss = run.at("loss");
        let share = run.figure("goodput_mbps") / (link * (1.0 - number(loss) / 100.0));
        format!("{} at {loss}", show(share))
    });
    format!("{cc}, of link x (1 - p): {}", each.collect::<Vec<_>>().join(", "))
}

/// nsperf's random_loss.
pub(super) fn random_loss(stage: &Stage<'_>) -> Result<Outcome, Broken> {
    const PERCENTS: [f64; 9] = [0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
    let secs = stage.secs(60.0, 20.0);
    let sweep =
        Sweep::run(stage, &Setup::new(1000.0 * MBIT, 100.0, 1.0, secs).every_ms(100.0), &PERCENTS)?;
    let mut out = Outcome::new(sweep.draw());
    out.at_least("of link x (1 - p): bbr3 to 1 %", sweep.least_to("bbr3", 1.0), 0.8);
    out.at_least(
        "bbr3 over cubic at 0.1 %",
        sweep.share("bbr3", 0.1) / sweep.share("cubic", 0.1).max(1e-9),
        10.0,
    );
    out.note(sweep.shares("bbr3"));
    out.note("1 Gbit/s, 100 ms, 1 BDP");
    Ok(out)
}
