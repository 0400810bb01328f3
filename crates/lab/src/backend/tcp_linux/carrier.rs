//! What is between the two namespaces: this program's path, or the kernel's netem.

use std::time;

use fullpipe_emu::EmuError;
use fullpipe_emu::namespace::Namespace;
use fullpipe_emu::netem::{self, NetemConfig, NetemLink};
use fullpipe_emu::tun::{self, TunConfig, TunLink};

use crate::backend::RunError;
use crate::backend::realtime::{LinkLook, LinkTruth};
use crate::scenario::{LinkKind, Scenario};

/// A running link.
pub(super) enum Carrier {
    Tun(TunLink),
    Netem(NetemLink),
}

/// Whether this machine has what the scenario's link needs.
pub(super) fn check(scenario: &Scenario) -> Result<(), RunError> {
    if scenario.link_kind() != Some(LinkKind::Netem) {
        return tun::available().map_err(RunError::NotOverTcpHere);
    }
    netem::available().map_err(|lacking| match lacking {
        // Another link would need it just as well.
        EmuError::NeedsRoot => RunError::NotOverTcpHere(lacking),
        _ => RunError::NotOverNetemHere(lacking),
    })
}

impl Carrier {
    /// Lays the link of a scenario.
    pub(super) fn lay(scenario: &Scenario, epoch: time::Instant) -> Result<Self, RunError> {
        if scenario.link_kind() == Some(LinkKind::Netem) {
            let (downlink_delay, uplink_delay) = scenario.delays();
            return Ok(Self::Netem(NetemLink::start(&NetemConfig {
                rate: scenario.rate,
                queue: scenario.buffer.limit_on(scenario.rate, scenario.rtt),
                loss: scenario.loss,
                downlink_delay,
                uplink_delay,
                seed: scenario.seed,
            })?));
        }
        let (downlink, uplink) = scenario.directions();
        let config = TunConfig { uplink, downlink, epoch: Some(epoch), realtime: true };
        Ok(Self::Tun(TunLink::start(&config)?))
    }

    pub(super) fn server(&self) -> &Namespace {
        match self {
            Self::Tun(link) => link.server(),
            Self::Netem(link) => link.server(),
        }
    }

    pub(super) fn client(&self) -> &Namespace {
        match self {
            Self::Tun(link) => link.client(),
            Self::Netem(link) => link.client(),
        }
    }

    pub(super) fn look(&self) -> Result<LinkLook, RunError> {
        Ok(match self {
            Self::Tun(link) => link.sample().into(),
            Self::Netem(link) => {
                let now = link.sample()?;
                LinkLook { queue: now.queue.delay, carried_bytes: now.carried.bytes }
            }
        })
    }

    pub(super) fn finish(self) -> Result<LinkTruth, RunError> {
        Ok(match self {
            Self::Tun(link) => link.finish()?.into(),
            Self::Netem(link) => {
                let end = link.sample()?;
                LinkTruth {
                    queue_delay: None,
                    arrived_packets: end.arrived_packets,
                    dropped_packets: end.tail_dropped_packets + end.random_lost_packets,
                    emulator: None,
                }
            }
        })
    }
}
