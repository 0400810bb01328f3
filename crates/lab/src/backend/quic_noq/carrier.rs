//! What is between the ends of a run over QUIC: the link inside this process, or the one between two
//! network namespaces, and the sockets on either side of it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time;

use fullpipe_cc::Duration;
#[cfg(target_os = "linux")]
use fullpipe_emu::namespace::{CLIENT, SERVER};
#[cfg(target_os = "linux")]
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_emu::{Emulator, EmulatorConfig, LinkReport, LinkSample};
use hdrhistogram::Histogram;

use super::job::{Job, later};
use super::socket;
use crate::backend::RunError;
#[cfg(target_os = "linux")]
use crate::scenario::LinkKind;

/// A running link.
pub(super) enum Carrier {
    Udp(Emulator),
    #[cfg(target_os = "linux")]
    Tun(TunLink),
}

/// A link, the clients' sockets, and where they find the server.
pub(super) struct Laid<S> {
    pub(super) carrier: Carrier,
    pub(super) server: S,
    pub(super) clients: Vec<UdpSocket>,
    pub(super) to: SocketAddr,
}

impl Carrier {
    /// Lays the link of a job, whose times begin `lead` after `epoch`; `serve` makes a server of a socket
    /// and says where it listens.
    pub(super) fn lay<S>(
        job: &Job,
        epoch: time::Instant,
        lead: Duration,
        serve: impl FnOnce(UdpSocket) -> Result<(S, SocketAddr), RunError>,
    ) -> Result<Laid<S>, RunError> {
        let (uplink, downlink) = (later(&job.uplink, lead), later(&job.downlink, lead));
        let flows = job.flows.len();
        #[cfg(target_os = "linux")]
        if job.link == LinkKind::Tun {
            let config = TunConfig { uplink, downlink, epoch: Some(epoch), realtime: true };
            let link = TunLink::start(&config)?;
            let socket = link.server().enter(|| socket::open(SERVER))?;
            let (server, to) = serve(socket.map_err(RunError::Socket)?)?;
            let clients = link.client().enter(|| sockets(CLIENT, flows))?;
            let clients = clients.map_err(RunError::Socket)?;
            return Ok(Laid { carrier: Self::Tun(link), server, clients, to });
        }
        let socket = socket::open(Ipv4Addr::LOCALHOST).map_err(RunError::Socket)?;
        let (server, at) = serve(socket)?;
        let link = Emulator::start(EmulatorConfig {
            uplink,
            downlink,
            epoch: Some(epoch),
            ..EmulatorConfig::new(at)
        })?;
        let clients = sockets(Ipv4Addr::LOCALHOST, flows).map_err(RunError::Socket)?;
        let to = link.addr();
        Ok(Laid { carrier: Self::Udp(link), server, clients, to })
    }

    pub(super) fn sample(&self) -> LinkSample {
        match self {
            Self::Udp(link) => link.sample(),
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.sample(),
        }
    }

    /// Queueing delay of every packet of data so far.
    pub(super) fn queue_delay_ns(&self) -> Result<Histogram<u64>, RunError> {
        match self {
            Self::Udp(link) => Ok(link.queue_delay_ns()),
            #[cfg(target_os = "linux")]
            Self::Tun(_) => {
                let why = "the link between namespaces tells of its queue's delays at its end only";
                Err(RunError::NotOverQuic(why.to_owned()))
            }
        }
    }

    /// Ends the link: what it says then, and what must stay until the ends have ended too, lest they
    /// complain that there is no network.
    pub(super) fn finish(self) -> Result<(LinkReport, Option<Self>), RunError> {
        Ok(match self {
            Self::Udp(link) => (link.finish()?, None),
            #[cfg(target_os = "linux")]
            Self::Tun(mut link) => (link.stop()?, Some(Self::Tun(link))),
        })
    }
}

fn sockets(at: Ipv4Addr, flows: usize) -> std::io::Result<Vec<UdpSocket>> {
    (0..flows).map(|_| socket::open(at)).collect()
}
