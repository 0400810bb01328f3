//! The kernel's own TCP: senders in one network namespace, receivers in another, and between them
//! an emulated link with TUN devices, or the kernel's netem.
//!
//! Each flow has a thread at either end; the calling thread looks at the senders' sockets
//! (TCP_INFO) every ten milliseconds. Needs Linux and root.

mod control;
mod end;
mod flow;
mod info;
mod latency;
mod program;
mod short;
mod testbed;
mod user_stack;

use fullpipe_adapter::CongestionControl;
use fullpipe_cc::Algorithm;
use fullpipe_report::observe::Observations;
use fullpipe_scenario::{Cc, Clock, KernelCc, LinkKind, Scenario, Stack};
use fullpipe_traffic::Application;

use super::link;
use super::{Backend, Request, RunError, realtime};
use testbed::{SenderStack, TcpTestbed};

pub use info::retransmitted_segments;

/// The kernel's TCP as a backend.
pub(super) struct TcpLinux;

/// Each flow has two threads.
const MAX_FLOWS: usize = 256;

/// File that lists the kernel's congestion control algorithms.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

impl Backend for TcpLinux {
    fn stack(&self) -> Stack {
        Stack::Linux
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn links(&self) -> &'static [LinkKind] {
        &[LinkKind::Tun, LinkKind::Netem]
    }

    /// BBRv3 and bbr3x are the flavours that there are as a program for the kernel; CUBIC and Reno
    /// are the kernel's own.
    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        let kernels = |name| KernelCc::named(name).map(Cc::Kernel);
        match cc {
            Cc::Kernel(_) => Some(cc),
            Cc::Program(CongestionControl::Fullpipe(
                Algorithm::Bbr3(_) | Algorithm::Bbr3Linux(_),
            )) => Some(CongestionControl::Fullpipe(Algorithm::BBR3_LINUX).into()),
            Cc::Program(CongestionControl::Fullpipe(
                Algorithm::Bbr3x(_) | Algorithm::Bbr3xLinux(_),
            )) => Some(CongestionControl::Fullpipe(Algorithm::BBR3X_LINUX).into()),
            Cc::Program(CongestionControl::Fullpipe(Algorithm::Cubic(_))) => kernels("cubic"),
            Cc::Program(CongestionControl::Fullpipe(Algorithm::Reno(_))) => kernels("reno"),
            Cc::Program(_) | Cc::Stack(_) | Cc::Foreign => None,
        }
    }

    fn most_flows(&self) -> usize {
        MAX_FLOWS
    }

    fn times_writes_of(&self, application: &Application) -> bool {
        !matches!(application, Application::ShortFlows { .. })
    }

    fn sees_each_link(&self) -> bool {
        false
    }

    fn check(&self, scenario: &Scenario, kind: Option<LinkKind>) -> Result<(), RunError> {
        check(scenario, kind, SenderStack::InKernel)
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        run(scenario, request, SenderStack::InKernel)
    }
}

/// Our TCP in user space as a backend in real time: the senders of flows with our algorithms, and
/// the receivers of flows that ask for it, are streams of fullpipe-tcp over a TUN device. All else
/// is the kernel's, and flows of its own can be beside ours.
pub(super) struct TcpUserTun;

impl Backend for TcpUserTun {
    fn stack(&self) -> Stack {
        Stack::Tcp
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn links(&self) -> &'static [LinkKind] {
        // Netem joins two hosts, and the sender is a third one.
        &[LinkKind::Tun]
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        (matches!(cc, Cc::Kernel(_)) || cc.algorithm().is_some()).then_some(cc)
    }

    fn most_flows(&self) -> usize {
        MAX_FLOWS
    }

    fn times_writes_of(&self, application: &Application) -> bool {
        TcpLinux.times_writes_of(application)
    }

    fn sees_each_link(&self) -> bool {
        false
    }

    fn check(&self, scenario: &Scenario, kind: Option<LinkKind>) -> Result<(), RunError> {
        check(scenario, kind, SenderStack::InUserSpace)
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        run(scenario, request, SenderStack::InUserSpace)
    }
}

/// See [`Backend::check`].
fn check(scenario: &Scenario, kind: Option<LinkKind>, ours: SenderStack) -> Result<(), RunError> {
    let text = std::fs::read_to_string(AVAILABLE).map_err(RunError::Socket)?;
    let available: Vec<&str> = text.split_ascii_whitespace().collect();
    for (i, flow) in scenario.flows.iter().enumerate() {
        program::check(i, flow)?;
        if flow.program.is_some() && kind == Some(LinkKind::Netem) {
            return Err(RunError::ProgramOverNetem);
        }
        match flow.cc {
            Cc::Kernel(kernel) if !available.contains(&kernel.name()) => {
                let there_are: Vec<_> =
                    available.iter().map(|name| format!("linux:{name}")).collect();
                return Err(RunError::NotInKernel(kernel, there_are.join(", ")));
            }
            Cc::Program(_) if ours == SenderStack::InKernel => control::check(flow.cc)?,
            _ => {}
        }
    }
    link::check(kind.unwrap_or(LinkKind::Tun), scenario).map_err(|error| match error {
        RunError::NotOverTunHere(lacking) => RunError::NotOverTcpHere(lacking),
        error => error,
    })
}

/// See [`Backend::run`].
fn run(
    scenario: &Scenario,
    request: Request<'_>,
    ours: SenderStack,
) -> Result<Observations, RunError> {
    let testbed = TcpTestbed::start(scenario, request.link.unwrap_or(LinkKind::Tun), ours)?;
    let programs = testbed.programs();
    let seen = realtime::run(scenario, testbed, request)?;
    match programs.as_ref().and_then(|programs| programs.complaint(&seen.times)) {
        Some(error) if !seen.interrupted => Err(error),
        _ => Ok(seen),
    }
}
