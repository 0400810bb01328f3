//! Flows that neither application nor congestion control limits, but the room for their data: the
//! receiver's window, or the send buffer. draft-ietf-ccwg-bbr treats them as a bottleneck of the
//! network ("Considerations Related to Receiver Flow Control Limits").

use std::collections::BTreeMap;

use fullpipe_cc::{Algorithm, Duration, Instant, Rate, State};
use fullpipe_path::{Link, QueueLimit};
use fullpipe_sim::{FlowConfig, ReceiveWindow, Sim, SimConfig};
use fullpipe_traffic::{Counted, Tally};

const MS: Duration = Duration::from_millis(1);
const BDP: u64 = 250_000;

/// In per cent of a BDP.
const WINDOWS: [u64; 5] = [60, 100, 130, 200, 270];

const BBRS: [Algorithm; 6] = [
    Algorithm::BBR3,
    Algorithm::BBR3X,
    Algorithm::BBR3_LINUX,
    Algorithm::BBR3X_LINUX,
    Algorithm::BBR_SWIFT,
    Algorithm::BBR1,
];

/// 20 Mbit/s, 100 ms and 8 BDP of buffer.
fn sim(flow: FlowConfig) -> Sim {
    let delay = MS.times(50);
    let rate = Some(Rate::from_bits_per_sec(20_000_000));
    let down = Link { rate, queue: QueueLimit::Bytes(8 * BDP), delay, ..Link::default() };
    let up = Link { delay, ..Link::default() };
    Sim::new(&SimConfig::new(down.into(), up.into(), vec![flow])).expect("a sound path")
}

fn seconds(n: u64) -> Instant {
    Instant::default() + Duration::from_secs(n)
}

/// The median of the queueing delays since [`Sim::begin_part`], in ms.
fn median_of_part(sim: &Sim) -> f64 {
    let delays: Vec<Tally> = sim.queue_delays_so_far_ns(0).collect();
    let [_, before, all] = delays.as_slice() else { panic!("two parts") };
    let before: BTreeMap<_, _> = before.counted().into_iter().map(|c| (c.least, c.count)).collect();
    let since = |c: &Counted| c.count - before.get(&c.least).unwrap_or(&0);
    let all = all.counted();
    let half = all.iter().map(since).sum::<u64>() / 2;
    let mut seen = 0;
    let median = all.iter().find(|c| {
        seen += since(c);
        seen > half
    });
    median.map_or(0.0, |c| c.middle() as f64 / 1e6)
}

/// The state after 5 s; and in the 10 s after that the median of the queueing delay in ms, and the
/// part of the link that carries the flow's data.
fn measure(flow: FlowConfig) -> (State, f64, f64) {
    let mut sim = sim(flow);
    sim.run_until(seconds(5));
    let state = sim.flow(0).snapshot().state;
    let before = sim.flow(0).received();
    sim.begin_part();
    sim.run_until(seconds(15));
    let used = (sim.flow(0).received() - before) as f64 * 8.0 / (10.0 * 20e6);
    (state, median_of_part(&sim), used)
}

/// Whatever the room: the flow finds the rate that it allows, and keeps no queue beyond that.
#[test]
fn a_bbr_whose_data_waits_for_room_leaves_startup_and_its_queue() {
    type Limit = fn(FlowConfig, u64) -> FlowConfig;
    let window: Limit =
        |flow, bytes| FlowConfig { receive_window: ReceiveWindow::Fixed(bytes), ..flow };
    let buffer: Limit = |flow, bytes| FlowConfig { send_buffer: Some(bytes), ..flow };
    for (algorithm, percent) in BBRS.into_iter().flat_map(|a| WINDOWS.map(|w| (a, w))) {
        let (quic, tcp) = (FlowConfig::bulk(algorithm, 1), FlowConfig::tcp_bulk(algorithm, 1));
        for (name, flow, limit) in [
            ("QUIC, window", quic, window),
            ("TCP, window", tcp, window),
            ("QUIC, send buffer", quic, buffer),
            ("TCP, send buffer", tcp, buffer),
        ] {
            let (state, queue, used) = measure(limit(flow, BDP * percent / 100));
            let name = format!("{algorithm} over {name} of {percent} %");
            println!("{name}: {state:?}, {queue:.2} ms, {used:.3} of the link");
            assert_ne!(state, State::Startup, "{name}");
            // At one BDP the headers stand in the queue, which the window does not count.
            assert!(queue <= 5.0, "{name}: {queue} ms");
            let possible = (percent as f64 / 100.0).min(0.95);
            assert!(used >= 0.93 * possible, "{name}: {used} of {possible}");
        }
    }
}
