//! Path between the ends of a real-time run: a link inside this process, a link between two network
//! namespaces, or the kernel's netem between them.

mod capacity;
mod path;

use std::collections::HashMap;
use std::time;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::{EmuError, Emulator, LinkReport};
use fullpipe_path::{PathStats, Queue};
use fullpipe_report::observe::{EmulatorRecord, Lateness};
use fullpipe_scenario::{LinkKind, Scenario};
use fullpipe_traffic::{Direction, SentPacket};
use hdrhistogram::Histogram;

#[cfg(target_os = "linux")]
use fullpipe_emu::namespace::Namespace;
#[cfg(target_os = "linux")]
use fullpipe_emu::netem::{self, NetemConfig, NetemLink};
#[cfg(target_os = "linux")]
use fullpipe_emu::tun::{self, TunConfig, TunLink, WireConfig, WireView};

use super::RunError;

pub use path::RealPath;

/// The link at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSample {
    /// The queue of what goes down.
    pub(super) queue: Queue,
    /// The queue of what goes up; of netem, which has none there, it is empty.
    pub(super) uplink_queue: Queue,
    /// The counters of what goes down.
    pub(super) stats: PathStats,
}

impl LinkSample {
    /// The queue that data in this direction passes.
    pub(super) fn queue_of(&self, direction: Direction) -> Queue {
        match direction {
            Direction::Down => self.queue,
            Direction::Up => self.uplink_queue,
        }
    }
}

/// A running link.
pub(super) enum Link {
    Udp(Emulator),
    #[cfg(target_os = "linux")]
    Tun(TunLink),
    #[cfg(target_os = "linux")]
    Netem(NetemLink),
}

/// Checks that this machine has such a link, and that it can be the scenario's path.
pub(super) fn check(kind: LinkKind, scenario: &Scenario) -> Result<(), RunError> {
    match kind {
        LinkKind::Udp => Ok(()),
        #[cfg(target_os = "linux")]
        LinkKind::Tun => tun::available().map_err(RunError::NotOverTunHere),
        #[cfg(target_os = "linux")]
        LinkKind::Netem => {
            netem_config(scenario)?;
            netem::available().map_err(|lacking| match lacking {
                // Another link would need it just as well.
                EmuError::NeedsRoot => RunError::NotOverTcpHere(lacking),
                _ => RunError::NotOverNetemHere(lacking),
            })
        }
        #[cfg(not(target_os = "linux"))]
        _ => Err(RunError::Scenario("--link tun and netem need Linux; leave it out".to_owned())),
    }
}

impl Link {
    /// A link between two namespaces, which looks at the flows with these ports at their clients.
    #[cfg(target_os = "linux")]
    pub(super) fn between_namespaces(
        kind: LinkKind,
        path: &RealPath,
        epoch: time::Instant,
        lead: Duration,
        ports: Vec<u16>,
    ) -> Result<Self, RunError> {
        if kind == LinkKind::Netem {
            return Ok(Self::Netem(NetemLink::start(&path.netem.ok_or(RunError::Lost)?)?));
        }
        let (uplink, downlink) = (path.uplink_after(lead), path.downlink_after(lead));
        let config = TunConfig {
            cross: path.cross_after(lead),
            wire: WireConfig { ports, burst_gap: burst_gap(path) },
            epoch: Some(epoch),
            ..TunConfig::new(uplink, downlink)
        };
        Ok(Self::Tun(TunLink::start(&config)?))
    }

    /// Packets of the client with this port arrive so much later from now on. Netem has no such
    /// thing, and [`check`] refuses a scenario that wants it.
    pub(super) fn set_extra_delay(&self, client_port: u16, delay: Duration) {
        match self {
            Self::Udp(link) => link.set_extra_delay(client_port, delay),
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.set_extra_delay(client_port, delay),
            #[cfg(target_os = "linux")]
            Self::Netem(_) => {}
        }
    }

    /// The newest packet of data that came to the link for each client, by the client's port;
    /// nothing of links that look at no packets of UDP.
    pub(super) fn newest_packets(&self) -> HashMap<u16, SentPacket> {
        match self {
            Self::Udp(link) => link.newest_packets(),
            #[cfg(target_os = "linux")]
            Self::Tun(_) | Self::Netem(_) => HashMap::new(),
        }
    }

    /// Its clients by the addresses that it gives them; nothing where they keep their own.
    #[cfg(feature = "s2n")]
    pub(super) fn clients(&self) -> Option<fullpipe_emu::Clients> {
        match self {
            Self::Udp(link) => Some(link.clients()),
            #[cfg(target_os = "linux")]
            Self::Tun(_) | Self::Netem(_) => None,
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn namespaces(&self) -> Option<(&Namespace, &Namespace)> {
        match self {
            Self::Udp(_) => None,
            Self::Tun(link) => Some((link.server()?, link.client())),
            Self::Netem(link) => Some((link.server(), link.client())),
        }
    }

    /// The flows on it, where each packet is looked at.
    #[cfg(target_os = "linux")]
    pub(super) fn wire(&self) -> Option<WireView> {
        match self {
            Self::Tun(link) => Some(link.wire()),
            Self::Udp(_) | Self::Netem(_) => None,
        }
    }

    pub(super) fn sample(&self) -> Result<LinkSample, RunError> {
        let of_model = |now: fullpipe_emu::LinkSample| LinkSample {
            queue: now.downlink.queue,
            uplink_queue: now.uplink.queue,
            stats: now.downlink.stats,
        };
        Ok(match self {
            Self::Udp(link) => of_model(link.sample()),
            #[cfg(target_os = "linux")]
            Self::Tun(link) => of_model(link.sample()),
            #[cfg(target_os = "linux")]
            Self::Netem(link) => {
                let now = link.sample()?;
                let mut stats = PathStats { carried: now.carried, ..PathStats::default() };
                stats.arrived.packets = now.arrived_packets;
                stats.tail_dropped.packets = now.tail_dropped_packets;
                stats.random_lost.packets = now.random_lost_packets;
                LinkSample { queue: now.queue, uplink_queue: Queue::default(), stats }
            }
        })
    }

    /// Queueing delay of every packet of data so far. Netem does not tell it.
    pub(super) fn queue_delay_ns(&self) -> Option<Histogram<u64>> {
        match self {
            Self::Udp(link) => Some(link.queue_delay_ns()),
            #[cfg(target_os = "linux")]
            Self::Tun(link) => Some(link.queue_delay_ns()),
            #[cfg(target_os = "linux")]
            Self::Netem(_) => None,
        }
    }

    /// Ends the link: how well it kept its own time, where it says, and what must stay until the
    /// ends have ended too, lest they complain that there is no network.
    pub(super) fn finish(self) -> Result<(Option<EmulatorRecord>, Option<Self>), RunError> {
        Ok(match self {
            Self::Udp(link) => (Some(emulator_record(&link.finish()?)), None),
            #[cfg(target_os = "linux")]
            Self::Tun(mut link) => (Some(emulator_record(&link.stop()?)), Some(Self::Tun(link))),
            #[cfg(target_os = "linux")]
            Self::Netem(link) => (None, Some(Self::Netem(link))),
        })
    }
}

/// Packets that come at twice the slowest rate of the path, or faster, are a burst.
#[cfg(target_os = "linux")]
fn burst_gap(path: &RealPath) -> Duration {
    let packet = u64::from(fullpipe_path::MTU_BYTES);
    path.slowest(Direction::Down).map_or(Duration::ZERO, |rate| rate.time_for(packet / 2))
}

/// The path as netem has it: random loss, a rate with a plain buffer, and a delay.
#[cfg(target_os = "linux")]
fn netem_config(scenario: &Scenario) -> Result<NetemConfig, RunError> {
    use fullpipe_path::{ElementConfig, LossConfig, Probability, QueueConfig, RateConfig};
    let other = |what: &str| RunError::NotOverNetem(what.to_owned());
    let [link] = scenario.config.links.as_slice() else { return Err(other("several links")) };
    if !scenario.config.cross.is_empty() {
        return Err(other("cross traffic"));
    }
    if scenario.config.flows.iter().any(|flow| flow.extra_rtt > Duration::ZERO) {
        return Err(other("extra_rtt"));
    }
    let mut config = NetemConfig {
        rate: Rate::ZERO,
        queue: fullpipe_path::QueueLimit::Packets(1),
        loss: Probability::ZERO,
        downlink_delay: Duration::ZERO,
        uplink_delay: Duration::ZERO,
        seed: scenario.seed,
    };
    for element in &link.row {
        match element {
            ElementConfig::Loss(LossConfig::Independent(p)) => config.loss = *p,
            ElementConfig::Bottleneck {
                rate: RateConfig::Constant(rate),
                queue: QueueConfig::TailDrop(limit),
            } => (config.rate, config.queue) = (*rate, *limit),
            ElementConfig::Delay(delay) => config.downlink_delay = *delay,
            _ => return Err(other("anything else")),
        }
    }
    for element in &scenario.config.uplink.row {
        match element {
            ElementConfig::Delay(delay) => config.uplink_delay = *delay,
            _ => return Err(other("elements of the way back")),
        }
    }
    match config.rate {
        Rate::ZERO => Err(other("a path without a bottleneck")),
        _ => Ok(config),
    }
}

/// Record of a link's timing accuracy.
pub fn emulator_record(link: &LinkReport) -> EmulatorRecord {
    EmulatorRecord {
        lateness_us: Lateness::of(|quantile| link.lateness_at(quantile)),
        trusted: link.trusted,
        warning: link.warning.clone(),
    }
}
