use std::path::Path;

use fullpipe_cc::{Duration, Instant};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use fullpipe_sim::{Ends as _, Sim, SimConfig};

use super::ends::TcpEnds;
use super::settings::{of_flow, over_tcp};
use crate::backend::network::stacks;

/// The part of the run in which rates count.
const FROM: Instant = Instant::from_nanos(10_000_000);
const TO: Instant = Instant::from_nanos(40_000_000);

/// One flow of bbr-swift to a receiver whose host is up to 90 us late, over 10 Gbit/s and 25 us.
fn busy(flow: &str) -> SimConfig {
    let text = format!(
        "cc = \"bbr-swift\"\nduration = \"1s\"\n\
         path = {{ rate = \"10gbit\", rtt = \"25us\", buffer = \"4MB\" }}\n\
         flow = [{{ transport = \"tcp\", jitter = \"1us\", receiver_delay = \"90us\", {flow} }}]\n"
    );
    let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
    plan.expect("sound").grid.runs[0].scenario().config.clone()
}

/// Bytes that arrive in the simulator.
fn simulated(config: &SimConfig) -> u64 {
    let mut sim = Sim::new(config).expect("a sound path");
    let mut received = |until| {
        sim.run_until(until);
        sim.flows()[0].received()
    };
    let before = received(FROM);
    received(TO) - before
}

/// Bytes that arrive over endpoints that each tell of their delay, or do not.
fn arriving(config: &SimConfig, tells: [bool; 2]) -> u64 {
    let mut world = stacks(config, |_, flow| {
        let of_both = of_flow(&over_tcp(flow));
        assert!(of_both.receiver_delay, "on for bbr-swift");
        TcpEnds::with(
            tells.map(|receiver_delay| fullpipe_tcp::Config { receiver_delay, ..of_both }),
        )
    })
    .expect("a sound path");
    let mut received = |until| {
        world.run_until(until);
        world.flow(0).received()
    };
    let before = received(FROM);
    received(TO) - before
}

/// With the option a flow has what it has in the simulator, where the sender simply knows the
/// delay. Without it at one of the ends the delay counts for a queue.
#[test]
fn a_busy_receiver_tells_of_its_delay() {
    for flow in ["ack_every = 1", "ack_every = 2"] {
        let config = busy(flow);
        let wanted = simulated(&config);
        let part = |tells| arriving(&config, tells) as f64 / wanted as f64;
        let told = part([true; 2]);
        println!("{flow}: with the option {told:.3} of the simulator's");
        assert!((told - 1.0).abs() < 0.05, "{flow}: {told} of the simulator's");
        for tells in [[true, false], [false, true]] {
            let untold = part(tells);
            println!("{flow}: {tells:?} {untold:.3}");
            assert!(untold < 0.2, "{flow}: {untold} of the simulator's with {tells:?}");
        }
    }
}

/// An idle receiver has nothing to tell, and a peer without the option costs nothing.
#[test]
fn a_peer_without_the_option_costs_nothing_where_the_host_is_idle() {
    let mut config = busy("ack_every = 1");
    config.flows[0].receiver_delay = Duration::ZERO;
    let [with, without] = [true, false].map(|peer| arriving(&config, [true, peer]) as f64);
    assert!((without / with - 1.0).abs() < 0.02, "{with} and {without} bytes");
}
