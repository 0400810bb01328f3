//! smoltcp's own socket on the paths of `paths.rs`, under the same virtual clock: what its
//! congestion control and its recovery reach, beside this crate's. Both ends are smoltcp's, with
//! buffers of 16 MiB.

use crate::common::{App, MS, Net};
use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Event, Link, Path, PathConfig, Probability, QueueLimit};
use fullpipe_tcp::Config;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

const BUFFER: usize = 16 << 20;

/// A device whose packets wait in two lists.
#[derive(Default)]
struct Device {
    arrived: std::collections::VecDeque<Vec<u8>>,
    leaving: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Room<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let done = write(&mut packet);
        self.0.push(packet);
        done
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: time::Instant) -> Option<(Received, Room<'_>)> {
        Some((Received(self.arrived.pop_front()?), Room(&mut self.leaving)))
    }

    fn transmit(&mut self, _: time::Instant) -> Option<Room<'_>> {
        Some(Room(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, 1500);
        capabilities
    }
}

/// A host with one socket.
struct Host {
    device: Device,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

fn micros(now: Instant) -> time::Instant {
    time::Instant::from_micros((now.as_nanos() / 1000) as i64)
}

impl Host {
    fn new(now: Instant, last: u8, congestion: CongestionControl) -> Self {
        let mut device = Device::default();
        let config = smoltcp::iface::Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut device, micros(now));
        interface.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)).expect("room for one");
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(congestion);
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self { device, interface, sockets, handle }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

struct Paths {
    mbit: u64,
    rtt: Duration,
    buffer: u64,
    loss: f64,
    secs: u64,
}

impl Paths {
    fn configs(&self) -> [PathConfig; 2] {
        let half = Duration::from_nanos(self.rtt.as_nanos() / 2);
        let down = Link {
            rate: Some(Rate::from_bits_per_sec(self.mbit * 1_000_000)),
            queue: QueueLimit::Bytes(self.buffer),
            delay: half,
            loss: Probability::new(self.loss).expect("a probability"),
            seed: 7,
        };
        [down.into(), Link { delay: half, ..Link::default() }.into()]
    }

    /// Mbit/s of application data, and the 95th percentile of the queueing delay in ms.
    fn smoltcp(&self, congestion: CongestionControl) -> (f64, f64) {
        let mut paths = self.configs().map(|c| Path::<Vec<u8>>::new(&c).expect("a sound path"));
        let mut now = Instant::default() + MS;
        let end = Instant::default() + Duration::from_secs(self.secs);
        let mut hosts = [1, 2].map(|last| Host::new(now, last, congestion));
        hosts[1].socket().listen(80).expect("a free port");
        let Host { interface, sockets, handle, .. } = &mut hosts[0];
        let to = (IpAddress::v4(10, 0, 0, 2), 80);
        let socket = sockets.get_mut::<Socket<'_>>(*handle);
        socket.connect(interface.context(), to, 40_000).expect("an address");
        let (chunk, mut received, mut queued) = (vec![0; 65_536], 0, Vec::new());
        while now < end {
            // What one end sends may be an answer to what it has just got.
            for i in 0..2 {
                let host = &mut hosts[i];
                while i == 0 && host.socket().can_send() {
                    host.socket().send_slice(&chunk).expect("it is open");
                }
                let Host { device, interface, sockets, .. } = host;
                interface.poll(micros(now), device, sockets);
                let mut read = 0;
                while host.socket().can_recv() {
                    read += host.socket().recv(|data| (data.len(), data.len())).expect("data");
                }
                if read > 0 {
                    received += read as u64;
                    let Host { device, interface, sockets, .. } = host;
                    interface.poll(micros(now), device, sockets);
                }
                for packet in host.device.leaving.drain(..) {
                    let _ = paths[i].send(now, packet.len() as u32, packet);
                }
            }
            let timers = hosts.iter_mut().filter_map(|host| {
                let at = host.interface.poll_at(micros(now), &host.sockets)?;
                Some(Instant::from_nanos(at.total_micros() as u64 * 1000))
            });
            let events = paths.iter().filter_map(Path::next_event);
            let next = timers.chain(events).min().unwrap_or(end);
            // Its clock has microseconds: a timer is due once they are over.
            now = next.max(now + Duration::from_micros(1)).min(end);
            for (i, path) in paths.iter_mut().enumerate() {
                while let Some(event) = path.poll(now) {
                    let Event::Delivered(packet) = event else { continue };
                    if i == 0 {
                        queued.push(packet.queued.as_nanos());
                    }
                    hosts[1 - i].device.arrived.push_back(packet.payload);
                }
            }
        }
        self.figures(received, queued)
    }

    fn ours(&self, algorithm: Algorithm) -> (f64, f64) {
        let config = Config {
            algorithm,
            send_buffer: BUFFER,
            receive_buffer: BUFFER,
            timestamps: false,
            ..Config::default()
        };
        let apps = [App::writer(0, u64::MAX), App::default()];
        let mut net = Net::new(self.configs(), [config; 2], apps);
        net.run(Instant::default() + Duration::from_secs(self.secs));
        self.figures(net.apps[1].read, net.queued)
    }

    fn figures(&self, received: u64, mut queued: Vec<u64>) -> (f64, f64) {
        queued.sort_unstable();
        let p95 = queued[queued.len() * 95 / 100] as f64 / 1e6;
        (received as f64 * 8e-6 / self.secs as f64, p95)
    }
}

/// Without selective acknowledgements a loss costs a round trip, and without pacing the queue is
/// what fits into it.
#[test]
fn its_sockets_are_slower_where_packets_are_lost() {
    for (path, has_loss) in [
        (Paths { mbit: 400, rtt: MS.times(20), buffer: 6_000_000, loss: 0.0, secs: 10 }, false),
        (Paths { mbit: 400, rtt: MS.times(20), buffer: 1_050_000, loss: 0.0, secs: 10 }, false),
        (Paths { mbit: 50, rtt: MS.times(40), buffer: 250_000, loss: 0.01, secs: 20 }, true),
    ] {
        let ours = path.ours(Algorithm::BBR3);
        println!(
            "{} Mbit/s, {}, {} B, loss {}: bbr3 {:.1} Mbit/s, p95 queue {:.1} ms",
            path.mbit, path.rtt, path.buffer, path.loss, ours.0, ours.1
        );
        for congestion in [CongestionControl::Cubic, CongestionControl::Reno] {
            let (goodput, queue) = path.smoltcp(congestion);
            println!("    smoltcp {congestion:?}: {goodput:.1} Mbit/s, p95 queue {queue:.1} ms");
            assert!(goodput > 1.0, "{congestion:?}: nothing came: {goodput} Mbit/s");
            assert!(!has_loss || goodput < 0.6 * ours.0, "{goodput} of {} Mbit/s", ours.0);
        }
    }
}
