//! Measures a link on this machine: packets of 1500 bytes, one way, for some seconds, over a relay
//! on loopback or over a TUN link between two namespaces (root). The sender hands over several
//! packets in one call, as the kernel's TCP and most QUIC stacks do.
//!
//! `cargo run --release -p fullpipe-emu --example lateness -- [MBIT_PER_SECOND] [SECONDS] [relay|tun]
//! [PACKETS_A_CALL]`

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("it needs Linux");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::io::{self, IoSlice};
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::{Duration, Instant};

    use fullpipe_cc::Rate;
    use fullpipe_emu::namespace::{CLIENT, SERVER};
    use fullpipe_emu::tun::{TunConfig, TunLink};
    use fullpipe_emu::{Emulator, EmulatorConfig, Link, LinkReport, PathConfig, QueueLimit};
    use nix::sys::socket::{
        ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt,
    };
    use nix::time::{ClockId, clock_gettime};

    const PACKET: usize = 1500;
    const MOST_BEHIND: Duration = Duration::from_millis(5);
    const PAYLOAD: usize = PACKET - 28;

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let mut args = std::env::args().skip(1);
        let mbit: u64 = args.next().as_deref().unwrap_or("100").parse()?;
        let seconds: u64 = args.next().as_deref().unwrap_or("5").parse()?;
        let kind = args.next().unwrap_or_else(|| "relay".to_owned());
        let a_call: usize = args.next().as_deref().unwrap_or("8").parse()?;
        let load = Load { mbit, a_call, length: Duration::from_secs(seconds) };

        let half = Link { delay: fullpipe_cc::Duration::from_millis(10), ..Link::default() };
        // The load is 95 % of it.
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000 / 19 * 20);
        let queue = QueueLimit::Bytes(rate.bytes_in(half.delay.times(2)).max(100_000));
        let downlink = Link { rate: Some(rate), queue, ..half };
        let (received, report) = match kind.as_str() {
            "relay" => over_relay(half.into(), downlink.into(), &load)?,
            "tun" => over_tun(half.into(), downlink.into(), &load)?,
            _ => return Err("relay or tun".into()),
        };

        let process = Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?);
        let us = |q: f64| report.lateness_at(q).as_nanos() as f64 / 1e3;
        let bits = received as f64 * PACKET as f64 * 8.0;
        let active = report.active.as_nanos() as f64 / 1e9;
        println!(
            "{:.0} Mbit/s: {} packets sent, {received} received",
            bits / active / 1e6,
            report.downlink.stats.arrived.packets
        );
        println!(
            "late by: p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
            us(0.5),
            us(0.9),
            us(0.99),
            us(0.999),
            us(1.0)
        );
        let cpu = report.cpu.as_nanos() as f64 / 1e9;
        println!(
            "the link used {:.1} % of a core, {:.3} s per Gbit; with both ends {:.3} s per Gbit",
            100.0 * cpu / active,
            cpu / bits * 1e9,
            process.as_secs_f64() / bits * 1e9
        );
        println!("{}", report.warning.as_deref().unwrap_or("the result can be trusted"));
        Ok(())
    }

    type Outcome = Result<(u64, LinkReport), Box<dyn Error>>;

    fn over_relay(uplink: PathConfig, downlink: PathConfig, load: &Load) -> Outcome {
        let server = UdpSocket::bind("127.0.0.1:0")?;
        let target = server.local_addr()?;
        let link =
            Emulator::start(EmulatorConfig { uplink, downlink, ..EmulatorConfig::new(target) })?;
        let client = UdpSocket::bind("127.0.0.1:0")?;
        client.send_to(b"hello", link.addr())?;
        let (_, peer) = server.recv_from(&mut [0; 64])?;
        // The client's socket is still open when it ends: had it been full, the report would say.
        let received = load.carry(&server, peer, &client, || {
            link.sample();
        })?;
        Ok((received, link.finish()?))
    }

    fn over_tun(uplink: PathConfig, downlink: PathConfig, load: &Load) -> Outcome {
        let link = TunLink::start(&TunConfig::new(uplink, downlink))?;
        let server = link.server().ok_or("it has a namespace")?;
        let server = server.enter(|| UdpSocket::bind((SERVER, 9)))??;
        let client = link.client().enter(|| UdpSocket::bind((CLIENT, 9)))??;
        let received = load.carry(&server, (CLIENT, 9).into(), &client, || ())?;
        Ok((received, link.finish()?))
    }

    struct Load {
        mbit: u64,
        a_call: usize,
        length: Duration,
    }

    impl Load {
        /// Sends from one socket to another, and counts what arrives; calls `end` while both are
        /// open.
        fn carry(
            &self,
            from: &UdpSocket,
            peer: SocketAddr,
            to: &UdpSocket,
            end: impl FnOnce(),
        ) -> Result<u64, Box<dyn Error>> {
            setsockopt(to, sockopt::RcvBufForce, &(16 << 20))
                .or_else(|_| setsockopt(to, sockopt::RcvBuf, &(16 << 20)))?;
            // Ends a while after the last packet.
            to.set_read_timeout(Some(Duration::from_secs(1)))?;
            thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let mut packets = 0u64;
                    while to.recv(&mut [0; 2048]).is_ok() {
                        packets += 1;
                    }
                    packets
                });
                self.send(from, peer)?;
                let received = reader.join().map_err(|_| "the reader panicked")?;
                end();
                Ok(received)
            })
        }

        /// Sends at the rate, sleeping in between. After a wake that is late by more than a quarter
        /// of what the link's buffer holds it sends less: the machine is too busy.
        fn send(&self, from: &UdpSocket, peer: SocketAddr) -> io::Result<()> {
            let data = vec![0; PAYLOAD * self.a_call];
            let interval = Duration::from_nanos(8000 * (PACKET * self.a_call) as u64 / self.mbit);
            let segment = [ControlMessage::UdpGsoSegments(&(PAYLOAD as u16))];
            let peer = SockaddrStorage::from(peer);
            let (start, mut next) = (Instant::now(), Duration::ZERO);
            while next < self.length {
                next = next.max(start.elapsed().saturating_sub(MOST_BEHIND));
                while next <= start.elapsed().min(self.length) {
                    let control = if self.a_call > 1 { &segment[..] } else { &[] };
                    let data = [IoSlice::new(&data)];
                    sendmsg(from.as_raw_fd(), &data, control, MsgFlags::empty(), Some(&peer))?;
                    next += interval;
                }
                thread::sleep(next.saturating_sub(start.elapsed()));
            }
            Ok(())
        }
    }
}
