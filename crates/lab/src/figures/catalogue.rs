//! The list of figures.

use super::{
    Figure, File, Way, access, adaptive, aggregation, asymptotes, fairness, loss, nsperf, quiche,
    smoltcp, startup, wan,
};

const PAPER: &str = "Cardwell et al., BBR: Congestion-Based Congestion Control, 2017";
const SLIDES: &str =
    "Cardwell et al., BBRv3: Algorithm Bug Fixes and Public Internet Deployment, 2023";
const NSPERF: &str = "Google's nsperf";

/// A scenario file of `scenarios/figures`, which is in the program.
macro_rules! file {
    ($name:literal) => {
        File {
            name: concat!("scenarios/figures/", $name, ".toml"),
            text: include_str!(concat!("../../../../scenarios/figures/", $name, ".toml")),
        }
    };
}

/// Every figure, in the order in which they are told.
pub static FIGURES: [Figure; 21] = [
    Figure {
        name: "fig1",
        title: "Delivery rate and RTT follow the two asymptotes",
        source: PAPER,
        way: Way::Code(asymptotes::fig1),
    },
    Figure {
        name: "fig2",
        title: "BBRv1's steady state, 700 ms",
        source: PAPER,
        way: Way::Code(asymptotes::fig2),
    },
    Figure {
        name: "fig3",
        title: "The bandwidth doubles, and falls back",
        source: PAPER,
        way: Way::Files(&[file!("fig3")], adaptive::fig3),
    },
    Figure {
        name: "fig4",
        title: "The first second, beside CUBIC",
        source: PAPER,
        way: Way::Files(&[file!("fig4")], startup::fig4),
    },
    Figure {
        name: "fig5",
        title: "The first eight seconds, beside CUBIC",
        source: PAPER,
        way: Way::Files(&[file!("fig5")], startup::fig5),
    },
    Figure {
        name: "fig6",
        title: "Five flows share a bottleneck",
        source: PAPER,
        way: Way::Code(fairness::fig6),
    },
    Figure {
        name: "fig7",
        title: "Long paths with rare bursts of loss",
        source: PAPER,
        way: Way::Code(wan::fig7),
    },
    Figure {
        name: "fig8",
        title: "Goodput under random loss",
        source: PAPER,
        way: Way::Files(&[file!("fig8")], loss::fig8),
    },
    Figure {
        name: "fig9",
        title: "Median RTT over a population of access links",
        source: PAPER,
        way: Way::Code(access::fig9),
    },
    Figure {
        name: "fig10",
        title: "RTT over the buffer of a mobile link",
        source: PAPER,
        way: Way::Code(access::fig10),
    },
    Figure {
        name: "aggregation",
        title: "Links that batch ACKs",
        source: "Jha and Cardwell, tcp_bbr: adapt cwnd based on ack aggregation estimation, 2019",
        way: Way::Code(aggregation::aggregation),
    },
    Figure {
        name: "fix1",
        title: "Four flows converge with loss",
        source: SLIDES,
        way: Way::Code(fairness::fix1),
    },
    Figure {
        name: "fix2",
        title: "Four flows converge without loss",
        source: SLIDES,
        way: Way::Code(fairness::fix2),
    },
    Figure {
        name: "tuning",
        title: "Startup's gains of before and of now",
        source: SLIDES,
        way: Way::Code(startup::tuning),
    },
    Figure {
        name: "retx",
        title: "BBRv3's retransmissions against BBRv1's",
        source: SLIDES,
        way: Way::Code(access::retx),
    },
    Figure {
        name: "smoltcp",
        title: "400 Mbit/s, 20 ms, 3 GB",
        source: "the report on BBR in smoltcp",
        way: Way::Files(&[file!("smoltcp")], smoltcp::smoltcp),
    },
    Figure {
        name: "quiche",
        title: "QUICHE's simulator tests",
        source: "Google's QUICHE",
        way: Way::Code(quiche::quiche),
    },
    Figure {
        name: "coexist",
        title: "One flow beside CUBIC, by buffer",
        source: NSPERF,
        way: Way::Code(nsperf::coexist),
    },
    Figure {
        name: "random_loss",
        title: "Random loss at 1 Gbit/s",
        source: NSPERF,
        way: Way::Code(loss::random_loss),
    },
    Figure {
        name: "shallow",
        title: "1 to 100 flows on a shallow buffer",
        source: NSPERF,
        way: Way::Code(nsperf::shallow),
    },
    Figure {
        name: "bufferbloat",
        title: "Two flows in bloated buffers",
        source: NSPERF,
        way: Way::Code(nsperf::bufferbloat),
    },
];
