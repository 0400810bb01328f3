//! QUIC stacks under a virtual clock: both ends are the whole of a stack without its sockets, and
//! between them are the links of the simulator. What TLS draws at random changes no size and no
//! time, so the same seed gives the same figures; noq's own BBRv3 draws its probe times, and
//! quinn's BBR the phase of its gain cycle, where nobody can seed them.

mod end;
mod ends;
mod foreign;
mod noq;
mod one_flow;
#[cfg(feature = "quinn")]
mod quinn;
mod stack;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use fullpipe_cc::Duration;
use fullpipe_noq::TransportSettings;
use fullpipe_path::Ecn;
use fullpipe_report::observe::Observations;
use fullpipe_scenario::{Cc, Clock, LinkKind, Scenario};
use fullpipe_sim::ReceiveWindow;
use fullpipe_traffic::Application;

use super::link::RealPath;
use super::network::stacks;
use super::quic::identity::Identity;
use super::quic::{settings, streams};
use super::{Backend, Request, RunError, virtual_time};
use ends::{QuicEnds, SERVER_NAME};
use stack::Stack;

pub use foreign::{Gap, GapReason};
pub(super) use noq::Noq;
pub use one_flow::QuicFlowConfig;
pub(super) use one_flow::drive;
#[cfg(feature = "quinn")]
pub(super) use quinn::Quinn;

/// Longer than any run.
const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// A QUIC stack under a virtual clock as a backend.
pub(super) struct QuicVirtual<S>(PhantomData<S>);

/// noq as a backend.
pub(super) static NOQ: QuicVirtual<Noq> = QuicVirtual(PhantomData);
/// quinn as a backend.
#[cfg(feature = "quinn")]
pub(super) static QUINN: QuicVirtual<Quinn> = QuicVirtual(PhantomData);

impl<S: Stack> Backend for QuicVirtual<S> {
    fn stack(&self) -> fullpipe_scenario::Stack {
        S::NAMED
    }

    fn clock(&self) -> Clock {
        Clock::Virtual
    }

    fn links(&self) -> &'static [LinkKind] {
        &[]
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        S::control(cc).map(|_| cc)
    }

    fn times_writes_of(&self, application: &Application) -> bool {
        application.writes_at_times()
    }

    fn sees_each_link(&self) -> bool {
        true
    }

    fn check(&self, scenario: &Scenario, _: Option<LinkKind>) -> Result<(), RunError> {
        let flows = scenario.flows.iter().zip(&scenario.config.flows);
        for (flow, config) in flows.filter(|(flow, _)| flow.cc.algorithm().is_none()) {
            let cc = flow.cc;
            let why = if config.cc.resume.is_some() {
                "does not resume; take resume out, or write bbr3"
            } else if config.application.probes() {
                "takes no requests for probes; take probe out of app.media, or write bbr3"
            } else if config.ecn == Ecn::Ect1 {
                "takes a mark of L4S for a loss; write ecn = \"classic\", or prague or bbr3"
            } else {
                continue;
            };
            return Err(RunError::Scenario(format!("{cc} {why}")));
        }
        Ok(())
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        let shared = RealPath::of(scenario);
        let identity = Identity::new(SERVER_NAME)?;
        let mut world = stacks(&scenario.config, |i, flow| {
            let cc = scenario.flows.get(i).and_then(|flow| S::control(flow.cc));
            let cc = cc.ok_or(RunError::Lost)?;
            let own = RealPath::of_flow(scenario, i);
            let path = own.as_ref().unwrap_or(&shared);
            let mut transport: TransportSettings = settings(path).transport;
            if let ReceiveWindow::Fixed(bytes) = flow.receive_window {
                // Of all streams together.
                transport.receive_window = u32::try_from(bytes).unwrap_or(u32::MAX);
            }
            if flow.stop.is_some() || matches!(flow.application, Application::OnOff { .. }) {
                // What the stack takes beyond what the path holds would be sent in the pause, or
                // after the end.
                transport.send_window = path.holds(flow.direction);
            }
            if !matches!(flow.application, Application::ShortFlows { .. }) {
                // A flow is what the scenario says, also after a silence; a short connection whose
                // close was lost has to end.
                transport.idle_timeout = NO_TIMEOUT;
            }
            let streams = match flow.application {
                // Data that has to stay in order.
                Application::RateLimited { .. }
                | Application::RequestResponse { .. }
                | Application::ShortFlows { .. }
                | Application::Media(_) => 1,
                Application::Bulk | Application::Bytes(_) | Application::OnOff { .. } => {
                    streams(path, flow.direction)
                }
            };
            QuicEnds::<S>::new(flow, cc, transport, streams, &identity)
        })?;
        virtual_time::run(scenario, &mut world, request)
    }
}
