//! Backends, which carry the flows of a run.
//!
//! A backend reports its features, runs a scenario, and returns its observations. It knows nothing
//! of metrics, expectations or pages. `BACKENDS` lists all of them; no other code asks which one it
//! is.

mod check;
#[cfg(feature = "transports")]
mod clean;
#[cfg(feature = "transports")]
pub mod driven;
mod error;
mod features;
#[cfg(feature = "transports")]
mod link;
#[cfg(feature = "transports")]
mod network;
#[cfg(feature = "transports")]
mod quic;
#[cfg(feature = "transports")]
mod quic_virtual;
#[cfg(feature = "transports")]
mod realtime;
mod sim;
#[cfg(all(feature = "transports", target_os = "linux"))]
mod tcp_linux;
#[cfg(feature = "transports")]
mod tcp_user;
#[cfg(test)]
mod toy;
mod virtual_time;

use std::fmt;
use std::sync::atomic::AtomicBool;

use fullpipe_cc::Duration;
use fullpipe_report::observe::{FlowSample, Observations};
use fullpipe_report::{NotBuilt, Part};
use fullpipe_scenario::{
    Cc, Clock, Feature, LinkKind, Need, Over, Scenario, Stack, StackAlgorithm,
};
use fullpipe_traffic::Application;

#[cfg(feature = "transports")]
pub use clean::{Cleaned, clean};
pub use error::RunError;
#[cfg(all(feature = "transports", target_os = "linux"))]
pub use tcp_linux::retransmitted_segments;

#[cfg(feature = "transports")]
pub use link::{RealPath, emulator_record};
#[cfg(feature = "transports")]
pub use quic_virtual::{Gap, GapReason};

use crate::observe::{Progress, Sampling};

/// Every backend, in the order in which errors offer them; the usual clock of a stack first.
static BACKENDS: &[&dyn Backend] = &[
    &sim::Simulator,
    #[cfg(feature = "transports")]
    &quic_virtual::NOQ,
    #[cfg(feature = "transports")]
    &quic::NOQ,
    #[cfg(feature = "quinn")]
    &quic_virtual::QUINN,
    #[cfg(feature = "quinn")]
    &quic::QUINN,
    #[cfg(feature = "s2n")]
    &quic::S2N,
    #[cfg(all(feature = "transports", target_os = "linux"))]
    &tcp_linux::TcpLinux,
    #[cfg(feature = "transports")]
    &tcp_user::TcpUser,
    #[cfg(all(feature = "transports", target_os = "linux"))]
    &tcp_linux::TcpUserTun,
    #[cfg(test)]
    &toy::Toy,
];

/// The stacks that a build may leave out. Without `transports` there is only the simulator, and
/// nobody misses one of these.
const OPTIONAL: &[(Stack, Part)] = if cfg!(feature = "transports") {
    &[(Stack::Quinn, Part::Quinn), (Stack::S2n, Part::S2n)]
} else {
    &[]
};

/// Something that can carry the flows of a scenario.
pub(crate) trait Backend: Sync {
    /// The stack whose packets cross the path.
    fn stack(&self) -> Stack;

    /// The clock by which they do.
    fn clock(&self) -> Clock;

    /// The links that it has, the usual one first; none where the path is a part of it.
    fn links(&self) -> &'static [LinkKind];

    /// The algorithm that this backend runs for a congestion control; `None` if it has none of that
    /// name.
    fn algorithm(&self, cc: Cc) -> Option<Cc>;

    /// The most flows of one run.
    fn most_flows(&self) -> usize {
        usize::MAX
    }

    /// True if it has this.
    fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Algorithm(cc) => self.algorithm(cc).is_some(),
            Feature::Flows(n) => n <= self.most_flows(),
            feature => features::has(self.stack(), self.clock(), feature),
        }
    }

    /// True if it times this application's writes until they are read.
    fn times_writes_of(&self, application: &Application) -> bool;

    /// True if it sees each link of a chain by itself.
    fn sees_each_link(&self) -> bool;

    /// Checks that this machine can run it, before anything is started.
    fn check(&self, scenario: &Scenario, link: Option<LinkKind>) -> Result<(), RunError>;

    /// Runs a scenario whose needs it has, until it is over or `stop` is set. When this returns,
    /// everything that it started has ended.
    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError>;
}

/// Called with the samples of a flow as they are taken: its number, the time, and what it shows.
pub(crate) type OnSample<'a> = dyn FnMut(usize, Duration, &FlowSample) -> Result<(), RunError> + 'a;

/// Parameters of a run: the observations wanted beside the final counters, its link, stop flag and
/// callbacks.
pub(crate) struct Request<'a> {
    /// The moments for which marks are wanted, in order.
    pub(crate) moments: &'a [Duration],
    pub(crate) sampling: Sampling,
    /// The number of packets of each direction whose arrival at the path is wanted; only a virtual
    /// clock has them.
    pub(crate) arrivals: usize,
    /// One of the backend's, or the usual one.
    pub(crate) link: Option<LinkKind>,
    pub(crate) stop: &'a AtomicBool,
    /// Called about ten times a second of real time.
    pub(crate) watch: &'a mut dyn FnMut(Progress),
    pub(crate) on_sample: &'a mut OnSample<'a>,
}

/// A backend that was chosen by its stack and its clock.
#[derive(Clone, Copy)]
pub struct BackendChoice(&'static dyn Backend);

#[cfg(feature = "transports")]
impl BackendChoice {
    /// TCP in user space, under a virtual clock.
    pub const TCP: Self = Self(&tcp_user::TcpUser);
    /// QUIC by noq, in real time.
    pub const NOQ_REAL: Self = Self(&quic::NOQ);
    /// QUIC by noq, under a virtual clock.
    pub const NOQ: Self = Self(&quic_virtual::NOQ);
    /// QUIC by quinn, in real time.
    #[cfg(feature = "quinn")]
    pub const QUINN_REAL: Self = Self(&quic::QUINN);
    /// QUIC by quinn, under a virtual clock.
    #[cfg(feature = "quinn")]
    pub const QUINN: Self = Self(&quic_virtual::QUINN);
    /// QUIC by s2n-quic.
    #[cfg(feature = "s2n")]
    pub const S2N: Self = Self(&quic::S2N);

    /// The kernel's TCP.
    #[cfg(target_os = "linux")]
    pub const LINUX: Self = Self(&tcp_linux::TcpLinux);
}

impl BackendChoice {
    /// The simulator.
    pub const SIM: Self = Self(&sim::Simulator);

    /// The backend of a stack and a clock.
    ///
    /// # Errors
    /// There is none in this build, or none at all: which clock the stack has.
    pub fn of(over: Over) -> Result<Self, NoBackend> {
        let (stack, clock) = (over.stack(), over.clock());
        let of_stack = || BACKENDS.iter().filter(|b| b.stack() == stack);
        if let Some(backend) = of_stack().find(|b| b.clock() == clock) {
            return Ok(Self(*backend));
        }
        if let Some((_, part)) = OPTIONAL.iter().find(|(optional, _)| *optional == stack) {
            part.check()?;
        }
        match of_stack().next() {
            Some(other) => Err(NoBackend::Clock { stack, clock, has: other.clock() }),
            None => Err(NoBackend::Stack(stack)),
        }
    }

    /// Its stack.
    pub fn stack(self) -> Stack {
        self.0.stack()
    }

    /// Its clock.
    pub fn clock(self) -> Clock {
        self.0.clock()
    }

    /// Its stack and its clock.
    pub fn over(self) -> Over {
        Over { stack: Some(self.stack()), clock: Some(self.clock()), link: None }
    }

    /// The options that choose it.
    pub fn options(self) -> String {
        options(self.0)
    }

    /// The backend.
    pub(crate) fn get(self) -> &'static dyn Backend {
        self.0
    }

    /// True if it runs in real time, one run after the other.
    pub fn is_realtime(self) -> bool {
        self.clock() == Clock::Real
    }

    /// The link that it takes when this one is asked for; nothing where it has none.
    ///
    /// # Errors
    /// It has no such link: which it has.
    pub fn link(self, asked: Option<LinkKind>) -> Result<Option<LinkKind>, String> {
        let all = self.0.links();
        match asked {
            None => Ok(all.first().copied()),
            Some(link) if all.contains(&link) => Ok(Some(link)),
            Some(link) if all.is_empty() => {
                let has = |backend: &dyn Backend| backend.links().contains(&link);
                let instead = match offer(has) {
                    none if none.is_empty() => String::new(),
                    others => format!(", or write {others}"),
                };
                Err(format!("{self} has no link to choose; leave --link {link} out{instead}"))
            }
            Some(link) => {
                let all: Vec<_> = all.iter().map(|l| format!("--link {l}")).collect();
                Err(format!("{self} has no link {link}; write {}", all.join(" or ")))
            }
        }
    }

    /// Reason why it cannot serve this need of a scenario; `None` if it can.
    pub(crate) fn lacks(self, need: &Need) -> Option<String> {
        let has = |backend: &dyn Backend| backend.has(need.feature);
        if has(self.0) {
            return None;
        }
        let instead = match offer(has) {
            none if none.is_empty() => match left_out(&need.feature) {
                Some(not_built) => not_built.to_string(),
                None => "no backend has it".to_owned(),
            },
            others => format!("write {others}"),
        };
        Some(format!("{} does not run over {self}; {instead}", need.feature))
    }
}

impl PartialEq for BackendChoice {
    fn eq(&self, other: &Self) -> bool {
        (self.stack(), self.clock()) == (other.stack(), other.clock())
    }
}

impl fmt::Debug for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The stack, and its clock: "noq (virtual clock)".
impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} clock)", self.stack(), self.clock())
    }
}

/// The options of all backends that have something; a stack that has it by both clocks is named
/// once.
fn offer(has: impl Fn(&dyn Backend) -> bool) -> String {
    let mut all: Vec<&dyn Backend> = Vec::new();
    for backend in BACKENDS {
        if has(*backend) && all.iter().all(|before| before.stack() != backend.stack()) {
            all.push(*backend);
        }
    }
    all.into_iter().map(options).collect::<Vec<_>>().join(" or ")
}

/// The options that choose a backend: the clock is named where it is not the stack's usual one.
fn options(backend: &dyn Backend) -> String {
    let (stack, clock) = (backend.stack(), backend.clock());
    let clock = (clock != stack.usual_clock()).then_some(clock);
    Over { stack: Some(stack), clock, link: None }.options()
}

/// The backend that would have this, if this build had that.
fn left_out(feature: &Feature) -> Option<NotBuilt> {
    let Feature::Algorithm(Cc::Stack(own)) = feature else { return None };
    let part = match own {
        StackAlgorithm::QuinnBbr | StackAlgorithm::QuinnCubic | StackAlgorithm::QuinnReno => {
            Part::Quinn
        }
        StackAlgorithm::S2nBbr | StackAlgorithm::S2nCubic => Part::S2n,
    };
    let mut all = OPTIONAL.iter();
    all.find(|(_, optional)| *optional == part).and_then(|_| part.check().err())
}

impl NoBackend {
    /// The field of a file, and the option, that names what there is not.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Clock { .. } => "clock",
            Self::Stack(_) | Self::NotBuilt(_) => "stack",
        }
    }
}

/// A choice that no backend of this build is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoBackend {
    /// The stack has the other clock alone.
    #[error("stack {stack} has no {clock} clock; write {has}, or leave the clock out")]
    Clock {
        /// The stack.
        stack: Stack,
        /// The clock that was asked for.
        clock: Clock,
        /// The one that it has.
        has: Clock,
    },
    /// A stack that this platform or this build does not have.
    #[error("stack {0} is not in this build, or not on this platform; write --stack sim")]
    Stack(Stack),
    /// The stack is a part that this build is without.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
}

#[cfg(test)]
mod tests;
