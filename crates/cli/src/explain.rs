//! `fullpipe explain`: the story of one flow.

use fullpipe_cc::{Duration, Rate};
use fullpipe_lab::units::{self, Buffer};
use fullpipe_lab::{Amount, Over, Scenario, explain};
use fullpipe_path::Probability;
use fullpipe_quic::CongestionControl;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::print;

/// Tell in words what one flow does on a path, and why
///
/// Runs it in the simulator and says when and why each state was entered and left, what the model
/// believed and what was true of the path, and where bytes waited.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The algorithm: bbr3, bbr3-linux, bbr1, cubic or reno
    #[arg(long, value_name = "NAME", default_value = "bbr3")]
    cc: CongestionControl,
    /// Rate of the bottleneck, IP and UDP headers included, like 100mbit, 1gbit or 500kbit
    #[arg(long, value_parser = units::parse_rate, default_value = "100mbit", allow_hyphen_values = true)]
    rate: Rate,
    /// Round-trip propagation delay, like 40ms, 1s or 200us
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "40ms", allow_hyphen_values = true)]
    rtt: Duration,
    /// The bottleneck's buffer, like 1bdp (rate x rtt), 6MB or 700pkts
    #[arg(long, value_name = "SIZE", default_value = "1bdp", allow_hyphen_values = true)]
    buffer: Buffer,
    /// Random loss, like 0.1% or 0.001
    #[arg(long, value_parser = units::parse_loss, default_value = "0%", allow_hyphen_values = true)]
    loss: Probability,
    /// How long it runs
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, default_value = "10s", allow_hyphen_values = true)]
    duration: Duration,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Print the story as one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = Scenario {
        over: Over::Sim,
        cc: vec![args.cc.into()],
        rate: args.rate,
        rtt: args.rtt,
        buffer: args.buffer,
        loss: args.loss,
        amount: Amount::Duration(args.duration),
        seed: args.seed,
        ..Scenario::default()
    };
    scenario.validate().map_err(Failure::bad_input)?;
    let interrupt = Interrupt::install()?;
    let stop = interrupt.flag();
    let story = explain::tell(&scenario, args.cc, &stop).map_err(Failure::run)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&story).map_err(Failure::run)?))?;
    } else {
        print(&story.to_text())?;
    }
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::Interrupted("interrupted; this is the story so far".into()));
    }
    Ok(())
}
