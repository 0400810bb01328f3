//! Real QUIC by noq: a server, clients, and a link between them, all in this process.
//!
//! The link has its own thread. The server and the clients have a runtime each, with one worker, so
//! that neither waits for the other; the calling thread looks at all of them every few milliseconds.

mod flow;
mod sender;
mod short;
mod socket;
mod testbed;

use fullpipe_sim::Application;

use super::link;
use super::{Backend, Request, RunError, realtime};
use crate::observe::Observations;
use crate::scenario::{Cc, Feature, LinkKind, Protocol, Scenario};
use testbed::QuicTestbed;

/// noq as a backend.
pub(super) struct QuicNoq;

/// The kinds of link: udp, and on Linux also tun.
#[cfg(target_os = "linux")]
const LINKS: &[LinkKind] = &[LinkKind::Udp, LinkKind::Tun];
#[cfg(not(target_os = "linux"))]
const LINKS: &[LinkKind] = &[LinkKind::Udp];

impl Backend for QuicNoq {
    fn name(&self) -> &'static str {
        "quic"
    }

    fn is_realtime(&self) -> bool {
        true
    }

    fn links(&self) -> &'static [LinkKind] {
        LINKS
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        matches!(cc, Cc::Program(_)).then_some(cc)
    }

    fn has(&self, feature: &Feature) -> bool {
        match feature {
            Feature::Flows(n) => *n <= fullpipe_emu::MAX_FLOWS,
            Feature::Transport(protocol) => *protocol == Protocol::Quic,
            Feature::Application(_)
            | Feature::Chain
            | Feature::RateTrace
            | Feature::CrossTraffic => true,
            Feature::Setting(name) => *name == "extra_rtt",
            Feature::Algorithm(_)
            | Feature::Program
            | Feature::LateStart
            | Feature::Route
            | Feature::LongPath
            | Feature::Upwards(_) => false,
        }
    }

    fn times_writes_of(&self, application: &Application) -> bool {
        matches!(application, Application::RateLimited { .. })
    }

    fn sees_each_link(&self) -> bool {
        false
    }

    fn check(&self, scenario: &Scenario, kind: Option<LinkKind>) -> Result<(), RunError> {
        link::check(kind.unwrap_or(LinkKind::Udp), scenario)
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        let testbed = QuicTestbed::start(scenario, request.link.unwrap_or(LinkKind::Udp))?;
        realtime::run(scenario, testbed, request)
    }
}
