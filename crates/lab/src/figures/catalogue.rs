//! The list of figures.

use super::{
    Figure, access, adaptive, aggregation, asymptotes, fairness, loss, nsperf, quiche, smoltcp,
    startup, wan,
};

const PAPER: &str = "Cardwell et al., BBR: Congestion-Based Congestion Control, 2017";
const SLIDES: &str =
    "Cardwell et al., BBRv3: Algorithm Bug Fixes and Public Internet Deployment, 2023";
const NSPERF: &str = "Google's nsperf";

/// Every figure, in the order in which they are told.
pub static FIGURES: [Figure; 21] = [
    Figure {
        name: "fig1",
        title: "Delivery rate and RTT follow the two asymptotes",
        source: PAPER,
        run: asymptotes::fig1,
    },
    Figure {
        name: "fig2",
        title: "BBRv1's steady state, 700 ms",
        source: PAPER,
        run: asymptotes::fig2,
    },
    Figure {
        name: "fig3",
        title: "The bandwidth doubles, and falls back",
        source: PAPER,
        run: adaptive::fig3,
    },
    Figure {
        name: "fig4",
        title: "The first second, beside CUBIC",
        source: PAPER,
        run: startup::fig4,
    },
    Figure {
        name: "fig5",
        title: "The first eight seconds, beside CUBIC",
        source: PAPER,
        run: startup::fig5,
    },
    Figure {
        name: "fig6",
        title: "Five flows share a bottleneck",
        source: PAPER,
        run: fairness::fig6,
    },
    Figure {
        name: "fig7",
        title: "Long paths with rare bursts of loss",
        source: PAPER,
        run: wan::fig7,
    },
    Figure { name: "fig8", title: "Goodput under random loss", source: PAPER, run: loss::fig8 },
    Figure {
        name: "fig9",
        title: "Median RTT over a population of access links",
        source: PAPER,
        run: access::fig9,
    },
    Figure {
        name: "fig10",
        title: "RTT over the buffer of a mobile link",
        source: PAPER,
        run: access::fig10,
    },
    Figure {
        name: "aggregation",
        title: "Links that batch ACKs",
        source: "Jha and Cardwell, tcp_bbr: adapt cwnd based on ack aggregation estimation, 2019",
        run: aggregation::aggregation,
    },
    Figure {
        name: "fix1",
        title: "Four flows converge with loss",
        source: SLIDES,
        run: fairness::fix1,
    },
    Figure {
        name: "fix2",
        title: "Four flows converge without loss",
        source: SLIDES,
        run: fairness::fix2,
    },
    Figure {
        name: "tuning",
        title: "Startup's gains of before and of now",
        source: SLIDES,
        run: startup::tuning,
    },
    Figure {
        name: "retx",
        title: "BBRv3's retransmissions against BBRv1's",
        source: SLIDES,
        run: access::retx,
    },
    Figure {
        name: "smoltcp",
        title: "400 Mbit/s, 20 ms, 3 GB",
        source: "the report on BBR in smoltcp",
        run: smoltcp::smoltcp,
    },
    Figure {
        name: "quiche",
        title: "QUICHE's simulator tests",
        source: "Google's QUICHE",
        run: quiche::quiche,
    },
    Figure {
        name: "coexist",
        title: "One flow beside CUBIC, by buffer",
        source: NSPERF,
        run: nsperf::coexist,
    },
    Figure {
        name: "random_loss",
        title: "Random loss at 1 Gbit/s",
        source: NSPERF,
        run: loss::random_loss,
    },
    Figure {
        name: "shallow",
        title: "1 to 100 flows on a shallow buffer",
        source: NSPERF,
        run: nsperf::shallow,
    },
    Figure {
        name: "bufferbloat",
        title: "Two flows in bloated buffers",
        source: NSPERF,
        run: nsperf::bufferbloat,
    },
];
