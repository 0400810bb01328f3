//! Two endpoints and the path between them, in virtual time.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Ecn, Event, Header, Path, PathConfig};
use fullpipe_tcp::{Config, Endpoint, Error, Handle, ListenerHandle, State, wire};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// The byte of a stream at an offset: no two places nearby look alike.
pub(crate) fn byte(stream: u64, offset: u64) -> u8 {
    let x = (offset ^ stream << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 56) as u8
}

/// The task of an application: write so many bytes and close, and read to the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct App {
    pub(crate) handle: Option<Handle>,
    pub(crate) stream: u64,
    pub(crate) to_write: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) at_end: bool,
    pub(crate) error: Option<Error>,
    /// Closes as soon as everything is written.
    pub(crate) closes: bool,
    /// Reads nothing for now.
    pub(crate) holds: bool,
    /// Most bytes per reading, 0 for all.
    pub(crate) read_step: usize,
    /// Closed already.
    closed: bool,
}

impl App {
    pub(crate) fn writer(stream: u64, bytes: u64) -> Self {
        Self { stream, to_write: bytes, closes: true, ..Self::default() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.error.is_some() || self.at_end && self.written == self.to_write
    }

    /// Reads and writes what is possible now at end `i`; the second end accepts its connection
    /// first.
    pub(crate) fn act(
        &mut self,
        i: usize,
        now: Instant,
        end: &mut Endpoint,
        listener: ListenerHandle,
        chunk: &mut [u8],
    ) {
        while end.next_changed().is_some() {}
        if i == 1 && self.handle.is_none() {
            self.handle = end.accept(listener);
        }
        let Some(handle) = self.handle else { return };
        if !self.holds {
            self.read(i, end, handle, chunk);
        }
        self.write(i, now, end, handle, chunk);
    }

    fn read(&mut self, i: usize, end: &mut Endpoint, handle: Handle, chunk: &mut [u8]) {
        let other = 1 - i as u64;
        loop {
            let most = if self.read_step > 0 { self.read_step } else { chunk.len() };
            match end.read(handle, &mut chunk[..most]) {
                Ok(0) => self.at_end = true,
                Ok(count) => {
                    for (j, got) in chunk[..count].iter().enumerate() {
                        let offset = self.read + j as u64;
                        assert_eq!(*got, byte(other, offset), "byte {offset} at end {i}");
                    }
                    self.read += count as u64;
                    if self.read_step == 0 {
                        continue;
                    }
                }
                Err(Error::WouldBlock) => {}
                Err(error) => self.error = Some(error),
            }
            break;
        }
    }

    fn write(
        &mut self,
        i: usize,
        now: Instant,
        end: &mut Endpoint,
        handle: Handle,
        chunk: &mut [u8],
    ) {
        while self.written < self.to_write {
            let room = end.connection(handle).map_or(0, |c| c.writable()).max(1);
            let count = chunk.len().min(room).min((self.to_write - self.written) as usize);
            for (j, b) in chunk[..count].iter_mut().enumerate() {
                *b = byte(i as u64, self.written + j as u64);
            }
            match end.write(now, handle, &chunk[..count]) {
                Ok(written) => self.written += written as u64,
                Err(Error::WouldBlock) => break,
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        let is_open = end.connection(handle).is_some_and(|c| c.state() >= State::Established);
        if self.closes && !self.closed && is_open && self.written == self.to_write {
            self.closed = true;
            end.close(now, handle);
        }
    }
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) ends: [Endpoint; 2],
    /// From the first end to the second, and back.
    pub(crate) paths: [Path<Vec<u8>>; 2],
    pub(crate) apps: [App; 2],
    pub(crate) listener: ListenerHandle,
    /// Queueing delays of the first path in nanoseconds.
    pub(crate) queued: Vec<u64>,
    /// Poll times are rounded up to this, as by an application that polls now and then.
    pub(crate) granularity: Duration,
    pub(crate) delivered: u64,
    /// Bytes of the largest packet that the path carries, and whether its router says so.
    pub(crate) carries: usize,
    pub(crate) tells: bool,
    /// Packets that were larger.
    pub(crate) too_big: u64,
    /// Both ends have a device with a virtio network header, which cuts what they send.
    pub(crate) virtio: bool,
    /// Frames that such a device was given; packets, if there is none.
    pub(crate) frames: u64,
    /// A hash of all packets that left, with their ends and times, if it is wanted.
    pub(crate) trail: Option<u64>,
    buffer: Vec<u8>,
    chunk: Vec<u8>,
}

pub(crate) fn ends() -> [SocketAddr; 2] {
    [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 80))]
}

impl Net {
    /// The first end connects to the second.
    pub(crate) fn new(paths: [PathConfig; 2], configs: [Config; 2], apps: [App; 2]) -> Self {
        let mut all = [Endpoint::new([1; 16], 100), Endpoint::new([2; 16], 100)];
        let [local, remote] = ends();
        let now = Instant::default() + MS;
        let listener = all[1].listen(remote, 8, &configs[1]).expect("nobody listens");
        let handle = all[0].connect(now, local, remote, &configs[0]).expect("a connection");
        let paths = paths.map(|config| Path::new(&config).expect("a sound path"));
        let mut apps = apps;
        apps[0].handle = Some(handle);
        Self {
            now,
            ends: all,
            paths,
            apps,
            listener,
            queued: Vec::new(),
            granularity: Duration::ZERO,
            delivered: 0,
            carries: usize::MAX,
            tells: false,
            too_big: 0,
            virtio: false,
            frames: 0,
            trail: None,
            buffer: Vec::new(),
            chunk: vec![0; 16_384],
        }
    }

    /// Runs until both applications are done, or `end`.
    pub(crate) fn run(&mut self, end: Instant) -> bool {
        self.run_while(end, |net| !net.apps.iter().all(App::is_done))
    }

    pub(crate) fn run_while(&mut self, end: Instant, goes_on: impl Fn(&Self) -> bool) -> bool {
        while goes_on(self) {
            self.work();
            let times = [
                self.paths[0].next_event(),
                self.paths[1].next_event(),
                self.ends[0].poll_at(),
                self.ends[1].poll_at(),
                self.slow_reader(),
            ];
            let Some(next) = times.into_iter().flatten().min() else { return !goes_on(self) };
            let mut next = next.max(self.now);
            if self.granularity > Duration::ZERO {
                let step = self.granularity.as_nanos();
                next = Instant::from_nanos(next.as_nanos().div_ceil(step) * step);
            }
            if next > end {
                self.now = end;
                return !goes_on(self);
            }
            self.now = next;
            self.deliver();
        }
        true
    }

    /// The next time at which an application reads its next piece.
    fn slow_reader(&self) -> Option<Instant> {
        let mut slow = (0..2).filter(|&i| self.apps[i].read_step > 0);
        slow.any(|i| {
            let connection = self.apps[i].handle.and_then(|handle| self.ends[i].connection(handle));
            connection.is_some_and(|c| c.readable() > 0)
        })
        .then(|| self.now + MS)
    }

    fn deliver(&mut self) {
        for (i, path) in self.paths.iter_mut().enumerate() {
            while let Some(event) = path.poll(self.now) {
                let Event::Delivered(mut packet) = event else { continue };
                if i == 0 {
                    self.queued.push(packet.queued.as_nanos());
                }
                if packet.corrupted {
                    let at = self.delivered as usize * 7919 % packet.payload.len();
                    packet.payload[at] ^= 1 << (self.delivered % 8);
                }
                if packet.ecn == Ecn::Ce {
                    wire::set_ce(&mut packet.payload);
                }
                self.delivered += 1;
                self.ends[1 - i].receive(self.now, &packet.payload);
            }
        }
        for end in &mut self.ends {
            end.on_timer(self.now);
        }
    }

    fn work(&mut self) {
        // An ACK that a reading opens the window with may be all that the other end waits for.
        for _ in 0..2 {
            for i in 0..2 {
                self.apps[i].act(i, self.now, &mut self.ends[i], self.listener, &mut self.chunk);
                self.send(i);
            }
        }
    }

    fn send(&mut self, i: usize) {
        let mut buffer = core::mem::take(&mut self.buffer);
        while match self.virtio {
            true => self.ends[i].transmit_virtio(self.now, &mut buffer),
            false => self.ends[i].transmit(self.now, &mut buffer),
        } {
            self.frames += 1;
            match self.virtio {
                true => cut(&buffer).into_iter().for_each(|packet| self.send_packet(i, packet)),
                false => self.send_packet(i, buffer.clone()),
            }
        }
        self.buffer = buffer;
    }

    fn send_packet(&mut self, i: usize, packet: Vec<u8>) {
        if let Some(trail) = &mut self.trail {
            let mut hasher = DefaultHasher::new();
            (*trail, i, self.now.as_nanos(), &packet).hash(&mut hasher);
            *trail = hasher.finish();
        }
        if packet.len() > self.carries {
            self.too_big += 1;
            if self.tells {
                self.ends[i].receive(self.now, &too_big(&packet, self.carries as u16));
            }
            return;
        }
        let ecn = match packet[1] & 3 {
            2 => Ecn::Ect0,
            1 => Ecn::Ect1,
            _ => Ecn::NotEct,
        };
        let header = Header { wire_bytes: packet.len() as u32, flow: 0, ecn };
        let _ = self.paths[i].send(self.now, header, packet);
    }
}

/// The packets that a device makes of a frame: TCP segmentation offload.
pub(crate) fn cut(frame: &[u8]) -> Vec<Vec<u8>> {
    let field = |at: usize| usize::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
    let (headers, segment, start, offset) = (field(2), field(4), field(6), field(8));
    let mut whole = frame[10..].to_vec();
    // As a device for RFC 9768: CWR is in each of the packets.
    if frame[0] & 1 == 0 {
        assert_eq!(frame[1], 0, "a burst without a checksum to complete");
        return vec![whole];
    }
    // The sum of the pseudo-header is there already.
    let at = start + offset;
    let even = whole.len().next_multiple_of(2) + start % 2;
    let mut summed = whole[start..].to_vec();
    summed.resize(even - start, 0);
    let sum = checksum(&summed);
    whole[at..at + 2].copy_from_slice(&sum);
    let burst = wire::parse(&whole).expect("a packet with right checksums");
    let mut packets = Vec::new();
    for (i, data) in burst.payload.chunks(segment).enumerate() {
        let is_last = (i + 1) * segment >= burst.payload.len();
        let control = if is_last { burst.header.control } else { wire::Control::None };
        let seq = burst.header.seq.wrapping_add((i * segment) as u32);
        let fragments = burst.header.fragments.map(|ident| ident.wrapping_add(i as u16));
        let header = wire::Header { seq, control, fragments, ..burst.header };
        let mut packet = Vec::new();
        wire::write(&mut packet, burst.from, burst.to, &header, [data, &[]]);
        assert_eq!(packet.len() - data.len(), headers, "the headers' bytes");
        packets.push(packet);
    }
    packets
}

/// The ICMP message of a router that `packet` is larger than `mtu` (RFC 1191 section 4).
pub(crate) fn too_big(packet: &[u8], mtu: u16) -> Vec<u8> {
    icmp(packet, 3, 4, mtu)
}

/// The ICMP message of a router about `packet`, from 192.0.2.1.
pub(crate) fn icmp(packet: &[u8], kind: u8, code: u8, mtu: u16) -> Vec<u8> {
    let quoted = &packet[..28];
    let mut icmp = vec![kind, code, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(quoted);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let len = 20 + icmp.len() as u8;
    let mut ip = vec![0x45, 0, 0, len, 0, 0, 0x40, 0, 64, 1, 0, 0, 192, 0, 2, 1];
    ip.extend(&packet[12..16]);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    ip.extend(icmp);
    ip
}

/// The checksum of RFC 1071 over an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}
