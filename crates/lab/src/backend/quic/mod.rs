//! Real QUIC: a server, clients, and a link between them, all in this process. The stack is noq,
//! quinn or s2n-quic. Data takes either direction: its receiver asks for it, the client or the
//! server.
//!
//! The link has its own thread. The server and the clients have a runtime each, with one worker, so
//! that neither waits for the other; the calling thread looks at all of them every few
//! milliseconds.

#[cfg(feature = "s2n")]
mod clients;
mod flow;
pub(super) mod identity;
pub(super) mod noq;
#[cfg(feature = "quinn")]
pub(super) mod quinn;
#[cfg(feature = "s2n")]
mod s2n;
mod senders;
mod short;
mod socket;
mod source;
mod stack;
mod testbed;

use std::marker::PhantomData;

use fullpipe_report::observe::Observations;
use fullpipe_scenario::{Cc, Clock, LinkKind, Scenario};
use fullpipe_traffic::Application;

use super::link;
use super::{Backend, Request, RunError, realtime};
use noq::Noq;
#[cfg(feature = "quinn")]
use quinn::Quinn;
#[cfg(feature = "s2n")]
use s2n::S2n;
use stack::Stack;
use testbed::QuicTestbed;
pub(super) use testbed::{settings, streams};

/// A QUIC stack as a backend.
pub(super) struct OverQuic<S>(PhantomData<S>);

/// noq as a backend.
pub(super) static NOQ: OverQuic<Noq> = OverQuic(PhantomData);
/// quinn as a backend.
#[cfg(feature = "quinn")]
pub(super) static QUINN: OverQuic<Quinn> = OverQuic(PhantomData);
/// s2n-quic as a backend.
#[cfg(feature = "s2n")]
pub(super) static S2N: OverQuic<S2n> = OverQuic(PhantomData);

/// The kinds of link: udp, and on Linux also tun.
#[cfg(target_os = "linux")]
const LINKS: &[LinkKind] = &[LinkKind::Udp, LinkKind::Tun];
#[cfg(not(target_os = "linux"))]
const LINKS: &[LinkKind] = &[LinkKind::Udp];

impl<S: Stack> Backend for OverQuic<S> {
    fn stack(&self) -> fullpipe_scenario::Stack {
        S::NAMED
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn links(&self) -> &'static [LinkKind] {
        LINKS
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        S::runs(cc).then_some(cc)
    }

    fn most_flows(&self) -> usize {
        fullpipe_emu::MAX_FLOWS
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
        let testbed = QuicTestbed::<S>::start(scenario, request.link.unwrap_or(LinkKind::Udp))?;
        realtime::run(scenario, testbed, request)
    }
}
