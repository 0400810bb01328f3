//! An application's requests to the controller of a stack.

use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, Instant, NotNow, Rate, State};
use fullpipe_noq::TransportSettings;
use fullpipe_path::{Link, PathConfig, QueueLimit};
use fullpipe_sim::{FlowConfig, SimConfig};

use super::super::ends::{QuicEnds, SERVER_NAME};
use super::super::noq::Noq;
#[cfg(feature = "quinn")]
use super::super::quinn::Quinn;
use super::super::stack::Stack;
use crate::backend::network::{Stacks, Transport, stacks};
use crate::backend::quic::identity::Identity;

const CONNECTION: u64 = 0;
/// So long that the rounds of coexistence with Reno end no CRUISE.
const RTT: Duration = Duration::from_millis(200);
const FAST: Rate = Rate::from_bits_per_sec(1_000_000_000);

/// A bulk flow of `bbr3` over 10 Mbit/s.
fn bulk<S: Stack>() -> Stacks<QuicEnds<S>> {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let delay = Duration::from_nanos(RTT.as_nanos() / 2);
    // After a probe with too much loss a request has to wait for the next one.
    let queue = QueueLimit::Bytes(1 << 20);
    let downlink = PathConfig::from(Link { rate: Some(rate), delay, queue, ..Link::default() });
    let uplink = PathConfig::from(Link { delay, ..Link::default() });
    let config = SimConfig::new(downlink, uplink, vec![FlowConfig::bulk(Algorithm::BBR3, 1)]);
    let identity = Identity::new(SERVER_NAME).expect("an identity");
    let cc = S::control("bbr3".parse().expect("a name")).expect("it has ours");
    let settings = TransportSettings::default();
    stacks(&config, |_, flow| QuicEnds::new(flow, cc, settings, 1, &identity)).expect("sound")
}

fn state<S: Stack>(network: &Stacks<QuicEnds<S>>) -> Option<State> {
    let connection = network.flow(0).transport().connection(CONNECTION)?;
    Some(S::snapshot(connection).expect("ours").state)
}

/// Lets time pass until the flow is in this state, or the time is over.
fn until<S: Stack>(network: &mut Stacks<QuicEnds<S>>, wanted: State, end: Instant) -> Instant {
    while state(network) != Some(wanted) && network.now() < end {
        network.step();
    }
    network.now()
}

fn ask<S: Stack>(network: &mut Stacks<QuicEnds<S>>, target: Rate) -> Option<BandwidthProbe> {
    let now = network.now();
    network.flow_mut(0).transport_mut().probe_bandwidth(now, CONNECTION, target)
}

/// The controller that the connection sends with has the request, though a stack shows a copy.
fn a_request_brings_the_probe_forward<S: Stack>() {
    let far = Instant::default() + Duration::from_secs(60);
    let [unasked, asked] = [false, true].map(|asks| {
        let mut network = bulk::<S>();
        let begin = until(&mut network, State::ProbeBwCruise, far);
        if asks {
            let slow = Rate::from_bits_per_sec(1_000_000);
            assert_eq!(ask(&mut network, slow), Some(BandwidthProbe::Reached));
            let too_soon = BandwidthProbe::NotNow(NotNow::TooSoon);
            assert_eq!(ask(&mut network, FAST), Some(too_soon));
            while ask(&mut network, FAST) == Some(too_soon) {
                network.step();
            }
            assert_eq!(ask(&mut network, FAST), Some(BandwidthProbe::Probing));
            let answered = network.now();
            let probes = until(&mut network, State::ProbeBwRefill, far);
            assert!(probes.since(answered) < RTT, "{:?}", probes.since(answered));
        }
        until(&mut network, State::ProbeBwRefill, far).since(begin)
    });
    // Half of the draft's wait, which is 2 to 3 s.
    assert!(asked + Duration::from_millis(700) < unasked, "{asked:?} of {unasked:?}");
}

#[test]
fn a_request_brings_the_probe_forward_over_noq() {
    a_request_brings_the_probe_forward::<Noq>();
}

#[cfg(feature = "quinn")]
#[test]
fn a_request_brings_the_probe_forward_over_quinn() {
    a_request_brings_the_probe_forward::<Quinn>();
}
