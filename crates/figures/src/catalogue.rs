//! The list of figures.

use super::{
    Figure, File, access, adaptive, aggregation, amendments, asymptotes, fairness, interop, l4s,
    loss, media, nsperf, resume, rfc9743, smoltcp, startup, swift, wan,
};

const PAPER: &str = "Cardwell et al., BBR: Congestion-Based Congestion Control, 2017";
const SLIDES: &str =
    "Cardwell et al., BBRv3: Algorithm Bug Fixes and Public Internet Deployment, 2023";
const INTEROP: &str = "the QUIC interop runner";
const NSPERF: &str = "Google's nsperf";

/// A scenario file of `scenarios/figures`, which is in the program.
macro_rules! file {
    ($name:literal) => {
        file!("figures/", $name)
    };
    ($dir:literal, $name:literal) => {
        File {
            name: concat!("scenarios/", $dir, $name, ".toml"),
            text: include_str!(concat!("../../../scenarios/", $dir, $name, ".toml")),
        }
    };
}

/// Every figure, in the order in which they are told.
pub static FIGURES: [Figure; 29] = [
    Figure {
        name: "fig1",
        title: "Delivery rate and RTT follow the two asymptotes",
        source: PAPER,
        files: &[file!("fig1")],
        draw: asymptotes::fig1,
    },
    Figure {
        name: "fig2",
        title: "BBRv1's steady state, 700 ms",
        source: PAPER,
        files: &[file!("fig2")],
        draw: asymptotes::fig2,
    },
    Figure {
        name: "fig3",
        title: "The bandwidth doubles, and falls back",
        source: PAPER,
        files: &[file!("fig3")],
        draw: adaptive::fig3,
    },
    Figure {
        name: "fig4",
        title: "The first second, beside CUBIC",
        source: PAPER,
        files: &[file!("fig4")],
        draw: startup::fig4,
    },
    Figure {
        name: "fig5",
        title: "The first eight seconds, beside CUBIC",
        source: PAPER,
        files: &[file!("fig5")],
        draw: startup::fig5,
    },
    Figure {
        name: "fig6",
        title: "Five flows share a bottleneck",
        source: PAPER,
        files: &[file!("fig6")],
        draw: fairness::fig6,
    },
    Figure {
        name: "fig7",
        title: "Long paths with rare bursts of loss",
        source: PAPER,
        files: &[file!("fig7")],
        draw: wan::fig7,
    },
    Figure {
        name: "fig8",
        title: "Goodput under random loss",
        source: PAPER,
        files: &[file!("fig8")],
        draw: loss::fig8,
    },
    Figure {
        name: "fig9",
        title: "Median RTT over a population of access links",
        source: PAPER,
        files: &[file!("fig9")],
        draw: access::fig9,
    },
    Figure {
        name: "fig10",
        title: "RTT over the buffer of a mobile link",
        source: PAPER,
        files: &[file!("fig10")],
        draw: access::fig10,
    },
    Figure {
        name: "aggregation",
        title: "Links that batch ACKs",
        source: "Jha and Cardwell, tcp_bbr: adapt cwnd based on ack aggregation estimation, 2019",
        files: &[file!("aggregation")],
        draw: aggregation::aggregation,
    },
    Figure {
        name: "fix1",
        title: "Four flows converge with loss",
        source: SLIDES,
        files: &[file!("fix1")],
        draw: fairness::fix,
    },
    Figure {
        name: "fix2",
        title: "Four flows converge without loss",
        source: SLIDES,
        files: &[file!("fix2")],
        draw: fairness::fix,
    },
    Figure {
        name: "tuning",
        title: "Startup's gains of before and of now",
        source: SLIDES,
        files: &[file!("tuning")],
        draw: startup::tuning,
    },
    Figure {
        name: "retx",
        title: "BBRv3's retransmissions against BBRv1's",
        source: SLIDES,
        files: &[file!("retx")],
        draw: access::retx,
    },
    Figure {
        name: "smoltcp",
        title: "400 Mbit/s, 20 ms, 3 GB",
        source: "the report on BBR in smoltcp",
        files: &[file!("smoltcp")],
        draw: smoltcp::smoltcp,
    },
    Figure {
        name: "coexist",
        title: "One flow beside CUBIC, by buffer",
        source: NSPERF,
        files: &[file!("coexist")],
        draw: nsperf::coexist,
    },
    Figure {
        name: "random_loss",
        title: "Random loss at 1 Gbit/s",
        source: NSPERF,
        files: &[file!("random_loss")],
        draw: loss::random_loss,
    },
    Figure {
        name: "shallow",
        title: "1 to 100 flows on a shallow buffer",
        source: NSPERF,
        files: &[file!("shallow")],
        draw: nsperf::shallow,
    },
    Figure {
        name: "bufferbloat",
        title: "Two flows in bloated buffers",
        source: NSPERF,
        files: &[file!("bufferbloat")],
        draw: nsperf::bufferbloat,
    },
    Figure {
        name: "ecn_bulk",
        title: "1 to 100 flows where a short queue is marked",
        source: NSPERF,
        files: &[file!("ecn_bulk")],
        draw: nsperf::ecn_bulk,
    },
    Figure {
        name: "goodput",
        title: "10 MB on the interop runner's path",
        source: INTEROP,
        files: &[file!("goodput")],
        draw: interop::goodput,
    },
    Figure {
        name: "crosstraffic",
        title: "25 MB beside one TCP flow",
        source: INTEROP,
        files: &[file!("crosstraffic")],
        draw: interop::crosstraffic,
    },
    Figure {
        name: "rfc9743",
        title: "What a new congestion control has to show",
        source: "RFC 9743",
        files: &[
            file!("rfc9743/", "5.1.1-congestion-collapse"),
            file!("rfc9743/", "5.1.2-bufferbloat"),
            file!("rfc9743/", "5.1.3-high-loss"),
            file!("rfc9743/", "5.1.4-fairness"),
            file!("rfc9743/", "5.1.5-short-flows"),
            file!("rfc9743/", "5.2.1-beside-standards"),
            file!("rfc9743/", "5.2.2-real-time"),
            file!("rfc9743/", "5.2.3-short-and-long"),
            file!("rfc9743/", "6.1-tail-drop"),
            file!("rfc9743/", "6.3-wired"),
            file!("rfc9743/", "6.4-wireless"),
            file!("rfc9743/", "7.1-aqm"),
            file!("rfc9743/", "7.2-circuit-breakers"),
            file!("rfc9743/", "7.3-varying-delay"),
            file!("rfc9743/", "7.4-constrained"),
            file!("rfc9743/", "7.5-high-delay"),
            file!("rfc9743/", "7.6-misbehaving"),
            file!("rfc9743/", "7.7-reordering"),
            file!("rfc9743/", "7.8-transients"),
            file!("rfc9743/", "7.9-path-changes"),
            file!("rfc9743/", "7.11-data-centers"),
        ],
        draw: rfc9743::rfc9743,
    },
    Figure {
        name: "bbr3x",
        title: "What each amendment of bbr3x does",
        source: "docs/bbr3x.md",
        files: &[
            file!("bbr3x/", "amendments"),
            file!("bbr3x/", "amendments-four-flows"),
            file!("bbr3x/", "amendments-beside-cubic"),
        ],
        draw: amendments::amendments,
    },
    Figure {
        name: "swift",
        title: "bbr-swift: 10 to 1000 senders at once",
        source: "docs/bbr-swift.md",
        files: &[file!("swift")],
        draw: swift::swift,
    },
    Figure {
        name: "l4s",
        title: "L4S: queues, and Prague beside CUBIC",
        source: "docs/l4s.md",
        files: &[file!("l4s/", "alone"), file!("l4s/", "beside-cubic")],
        draw: l4s::l4s,
    },
    Figure {
        name: "resume",
        title: "Careful Resume: 1 MB over 600 ms",
        source: "RFC 9959",
        files: &[file!("careful-resume/", "known-path")],
        draw: resume::resume,
    },
    Figure {
        name: "media",
        title: "Live media on a link that becomes slower and faster",
        source: "docs/media.md",
        files: &[file!("media/", "adaptive")],
        draw: media::media,
    },
];
