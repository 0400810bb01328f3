//! Two ends that send to each other over a network that does to each packet what a sequence of
//! bytes says, and heals when the bytes are used up. Then everything arrives, both ends come to the
//! end of the connection, and nothing is kept.

use std::collections::BTreeMap;

use fullpipe_cc::{Algorithm, Duration, Instant, SavedParameters};
use fullpipe_tcp::{Config, Endpoint, ListenerHandle, wire};

use crate::common::{App, MS, ends, too_big};
use crate::input::Bytes;

/// The way of a packet that nothing happens to. On the long one the probes of two closed windows
/// cross often enough.
const DELAYS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];
/// Time after the network has healed in which all has to be done. Packets that were two minutes
/// late leave timeouts of two minutes, and rates of a segment a minute from which the congestion
/// control has to come back.
const REPAIR: Duration = Duration::from_secs(3600);
/// As long as packets pass now and then, nobody gives up.
const PATIENCE: Duration = Duration::from_secs(1_000_000);
/// Steps without the clock going on.
const MOST_AT_ONCE: u32 = 10_000;

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::BBR3,
    Algorithm::BBR3X,
    Algorithm::BBR3_LINUX,
    Algorithm::BBR3X_LINUX,
    Algorithm::BBR1,
    Algorithm::CUBIC,
    Algorithm::RENO,
];

/// The parameters of the shorter way, with more than is ever to be sent.
const RESUME: SavedParameters = SavedParameters { cwnd: 1_000_000, rtt: Duration::from_millis(20) };

struct World {
    now: Instant,
    ends: [Endpoint; 2],
    apps: [App; 2],
    listener: ListenerHandle,
    /// Packets by the time and the order of their arrival, and the end that each goes to.
    under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    delay: Duration,
    /// Of 256 packets, as many are disturbed.
    badness: u8,
    /// Bytes of the largest packet that passes, and whether a router says so.
    carries: usize,
    tells: bool,
    /// The ends of outages in each direction, and of pauses of each application.
    silent: [Instant; 2],
    idle: [Instant; 2],
    /// Neither application reads before the first time. Then both go on as soon as packets are on
    /// their way in both directions, which meet windows that have just opened; or at the second.
    held: Option<[Instant; 2]>,
    /// The most segments that each end had under way.
    segments: [usize; 2],
    /// Bytes that the buffers of each end may hold.
    buffers: [usize; 2],
    /// Bytes for each application to send that it does not know of yet.
    later: [u64; 2],
    /// The time after which nothing is disturbed any more.
    healed: Option<Instant>,
    events: usize,
    buffer: Vec<u8>,
    chunk: Vec<u8>,
}

/// Runs what `input` says; the number of packets, and of steps of the applications.
pub(crate) fn run(input: &[u8]) -> usize {
    let mut bytes = Bytes(input);
    let mut world = World::new(&mut bytes);
    let wanted = [0, 1].map(|i| world.apps[i].to_write + world.later[i]);
    world.run(&mut bytes, |world| !world.apps.iter().all(App::is_done));
    assert_eq!(world.apps.map(|app| app.error), [None; 2]);
    assert_eq!(world.apps.map(|app| app.read), [wanted[1], wanted[0]]);
    for i in 0..2 {
        let handle = world.apps[i].handle.expect("open");
        world.ends[i].release(world.now, handle);
    }
    world.run(&mut bytes, |world| world.ends.iter().any(|end| end.connections() > 0));
    world.events
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let now = Instant::default() + MS;
        let [flags, algorithm, badness, carries] = [(); 4].map(|()| bytes.byte());
        let is_set = |bit: u8| flags >> bit & 1 == 1;
        let buffers = [(); 2].map(|()| buffer(bytes));
        // Where `carries` says nothing else.
        let is_fast = !is_set(5) && carries >= 64;
        // Those that came later are chosen by values that only repeated others: inputs that were
        // found before mean what they meant.
        let (chosen, resume) = match algorithm {
            248.. => (Algorithm::BBR_SWIFT, None),
            240..248 => (Algorithm::PRAGUE, None),
            _ => (
                ALGORITHMS[usize::from(algorithm) % ALGORITHMS.len()],
                (algorithm >= 208).then_some(RESUME),
            ),
        };
        let congestion = fullpipe_cc::Config { resume, ..Config::default().congestion };
        let config = |i: usize| Config {
            algorithm: chosen,
            congestion,
            // Prague is for marks that are counted.
            accurate_ecn: chosen == Algorithm::PRAGUE,
            send_buffer: buffers[i],
            receive_buffer: buffers[1 - i],
            // As large as that, or less and growing.
            initial_receive_buffer: 1 + buffers[i],
            mtu: 576 + u16::from(algorithm) * 8,
            user_timeout: PATIENCE,
            connect_timeout: PATIENCE,
            // One end alone does not want these.
            sack: is_set(0) || i == 0,
            timestamps: is_set(1) || i == 1,
            window_scaling: is_set(2),
            ecn: is_set(3),
            nagle: is_set(4),
            fast_open: is_fast,
            receiver_delay: algorithm & 0x80 != 0,
            ..Config::default()
        };
        let mut all = [Endpoint::new([1; 16], 8), Endpoint::new([2; 16], 8)];
        let [local, remote] = ends();
        let listener = all[1].listen(remote, 2, &config(1)).expect("nobody listens");
        if is_fast {
            give_cookie(&mut all, now, listener, &config(0));
        }
        let handle = all[0].connect(now, local, remote, &config(0)).expect("a connection");
        // No more than so many round trips through a tiny buffer.
        let amounts =
            buffers.map(|buffer| (u64::from(bytes.byte()) * 600).min(500 * buffer as u64));
        let mut apps = [App::writer(0, 0), App::writer(1, 0)];
        apps[0].handle = Some(handle);
        for app in &mut apps {
            app.closes = false;
        }
        Self {
            now,
            ends: all,
            apps,
            listener,
            under_way: BTreeMap::new(),
            sent: 0,
            delay: DELAYS[usize::from(is_set(7))],
            badness,
            // BASE_PLPMTU of RFC 8899 or more.
            carries: if is_set(5) { 1200 + 4 * usize::from(carries) } else { usize::MAX },
            tells: is_set(6),
            silent: [now; 2],
            idle: [now; 2],
            held: None,
            segments: [0; 2],
            buffers: [buffers[0] + buffers[1]; 2],
            later: amounts,
            healed: None,
            events: 0,
            buffer: Vec::new(),
            chunk: vec![0; 16_384],
        }
    }

    fn run(&mut self, bytes: &mut Bytes<'_>, goes_on: impl Fn(&Self) -> bool) {
        let mut at_once = 0;
        while goes_on(self) {
            self.disturb(bytes);
            if self.may_go_on() {
                self.go_on();
            }
            for i in 0..2 {
                if self.idle[i] <= self.now {
                    let (app, end) = (&mut self.apps[i], &mut self.ends[i]);
                    app.act(i, self.now, end, self.listener, &mut self.chunk);
                }
                self.send(i, bytes);
            }
            if !goes_on(self) {
                return;
            }
            let next = self.next().unwrap_or_else(|| panic!("nothing will happen: {self:?}"));
            at_once = if next > self.now { 0 } else { at_once + 1 };
            assert!(at_once < MOST_AT_ONCE, "time stands still: {self:?}");
            self.now = next.max(self.now);
            let healed = self.healed.unwrap_or(self.now);
            assert!(self.now < healed + REPAIR, "too late: {self:?}");
            self.deliver();
            self.check_memory();
        }
        // What follows has a time of its own.
        self.healed = self.healed.map(|_| self.now);
    }

    /// The applications' part of what the bytes say.
    fn disturb(&mut self, bytes: &mut Bytes<'_>) {
        self.events += 1;
        let Some(event) = bytes.next() else { return self.heal() };
        let i = usize::from(event & 1);
        match event >> 1 & 31 {
            0 => self.idle[i] = self.now + MS.times(1 << (bytes.byte() % 16)),
            1 => self.apps[i].read_step = usize::from(bytes.byte()) * 8,
            2 => {
                let algorithm = ALGORITHMS[usize::from(bytes.byte()) % ALGORITHMS.len()];
                if let Some(handle) = self.apps[i].handle {
                    self.ends[i].set_congestion(self.now, handle, algorithm);
                }
            }
            3 => {
                if let Some(handle) = self.apps[i].handle {
                    self.ends[i].set_nagle(handle, bytes.byte() & 1 == 1);
                }
            }
            4..=15 => {
                let more = self.later[i].min(u64::from(bytes.byte()) * 100);
                (self.later[i], self.apps[i].to_write) =
                    (self.later[i] - more, self.apps[i].to_write + more);
            }
            16 => {
                let time = MS.times(1 << (bytes.byte() % 16));
                self.held = Some([self.now + time, self.now + time.times(16)]);
                for (app, later) in self.apps.iter_mut().zip(&mut self.later) {
                    let more = (*later).min(20_000);
                    (*later, app.to_write, app.holds) = (*later - more, app.to_write + more, true);
                }
            }
            _ => {}
        }
    }

    /// True if both applications read again, at the same time.
    fn may_go_on(&self) -> bool {
        let Some([_, last]) = self.held.filter(|held| held[0] <= self.now) else { return false };
        let is_crossing = |to| self.under_way.values().any(|(i, _)| *i == to);
        last <= self.now || is_crossing(0) && is_crossing(1)
    }

    fn go_on(&mut self) {
        self.held = None;
        self.apps.iter_mut().for_each(|app| app.holds = false);
    }

    /// Memory follows what is in the buffers and under way, and not what ever was.
    fn check_memory(&mut self) {
        for i in 0..2 {
            let handle = self.apps[i].handle;
            let Some(connection) = handle.and_then(|h| self.ends[i].connection(h)) else { return };
            let info = connection.info();
            self.segments[i] = self.segments[i].max((info.unacked + info.sacked) as usize);
            // Twice what is in the lists, those of transmissions and of pieces that arrived
            // included. What arrived before its turn moves from one buffer to another.
            let lists = 330 * self.segments[i] + 120 * self.segments[1 - i] + 3000;
            let most = 4 * self.buffers[i] + lists;
            let held = connection.memory();
            assert!(held <= most, "{held} bytes of {most} at end {i}: {self:?}");
        }
    }

    fn heal(&mut self) {
        if self.healed.is_some() {
            return;
        }
        self.healed = Some(self.now);
        (self.silent, self.idle) = ([self.now; 2], [self.now; 2]);
        for (app, later) in self.apps.iter_mut().zip(&mut self.later) {
            app.to_write += core::mem::take(later);
            (app.closes, app.read_step) = (true, 0);
        }
    }

    fn send(&mut self, i: usize, bytes: &mut Bytes<'_>) {
        let mut buffer = core::mem::take(&mut self.buffer);
        while self.ends[i].transmit(self.now, &mut buffer) {
            self.events += 1;
            if buffer.len() > self.carries {
                if self.tells {
                    self.ends[i].receive(self.now, &too_big(&buffer, self.carries as u16));
                }
            } else if self.silent[i] <= self.now {
                self.pass(i, &buffer, bytes);
            }
        }
        self.buffer = buffer;
    }

    /// Does to a packet of end `i` what the bytes say.
    fn pass(&mut self, i: usize, packet: &[u8], bytes: &mut Bytes<'_>) {
        let is_disturbed = bytes.next().is_some_and(|byte| byte < self.badness);
        if !is_disturbed {
            return self.arrive_after(self.delay, i, packet.to_vec());
        }
        let (kind, detail) = (bytes.byte(), bytes.byte());
        // At most two minutes, the lifetime of a segment (RFC 9293 section 3.4.1).
        let time = Duration::from_micros(1 << (detail % 27));
        let mut packet = packet.to_vec();
        match kind % 12 {
            0..=3 => return,
            4 | 5 => return self.arrive_after(time, i, packet),
            6 | 7 => self.arrive_after(time, i, packet.clone()),
            8 => {
                let bit = usize::from(bytes.byte()) << 8 | usize::from(detail);
                let bit = bit % (packet.len() * 8);
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            9 => wire::set_ce(&mut packet),
            10 => {
                let said = too_big(&packet, u16::from(detail) * 8);
                return self.ends[i].receive(self.now, &said);
            }
            _ => self.silent[i] = self.now + time,
        }
        self.arrive_after(self.delay, i, packet);
    }

    fn arrive_after(&mut self, delay: Duration, from: usize, packet: Vec<u8>) {
        self.sent += 1;
        self.under_way.insert((self.now + delay, self.sent), (1 - from, packet));
    }

    /// The time of the next event.
    fn next(&self) -> Option<Instant> {
        let slow = self.apps.iter().any(|app| app.read_step > 0).then(|| self.now + MS);
        let times = [
            self.under_way.keys().next().map(|(at, _)| *at),
            self.ends[0].poll_at(),
            self.ends[1].poll_at(),
            Some(self.idle[0]).filter(|at| *at > self.now),
            Some(self.idle[1]).filter(|at| *at > self.now),
            self.held.and_then(|held| held.into_iter().find(|at| *at > self.now)),
            slow,
        ];
        // Where both are quiet, the bytes say what follows.
        times.into_iter().flatten().min().or(self.healed.is_none().then(|| self.now + self.delay))
    }

    fn deliver(&mut self) {
        while let Some(first) = self.under_way.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, packet) = first.remove();
            self.ends[to].receive(self.now, &packet);
        }
        for end in &mut self.ends {
            end.on_timer(self.now);
        }
    }
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let infos = [0, 1].map(|i| {
            let handle = self.apps[i].handle?;
            Some(self.ends[i].connection(handle)?.info())
        });
        f.debug_struct("World")
            .field("now", &self.now)
            .field("healed", &self.healed)
            .field("apps", &self.apps)
            .field("infos", &infos)
            .field("under_way", &self.under_way.len())
            .finish_non_exhaustive()
    }
}

/// One to 50,000 bytes: tiny ones often enough.
fn buffer(bytes: &mut Bytes<'_>) -> usize {
    let (kind, size) = (bytes.byte(), usize::from(bytes.byte()));
    match kind % 4 {
        0 => 1 + size * 8,
        1 => 1 + size * 40,
        _ => 1 + size * 200,
    }
}

/// A connection before the one that counts: with its cookie that one begins with data.
fn give_cookie(ends: &mut [Endpoint; 2], now: Instant, listener: ListenerHandle, config: &Config) {
    let [local, remote] = self::ends();
    let handle = ends[0].connect(now, local, remote, config).expect("a connection");
    let mut packet = Vec::new();
    let mut carry = |ends: &mut [Endpoint; 2]| {
        while let Some(i) = (0..2).find(|&i| ends[i].transmit(now, &mut packet)) {
            ends[1 - i].receive(now, &packet);
        }
    };
    carry(ends);
    ends[0].abort(handle);
    ends[0].release(now, handle);
    carry(ends);
    let accepted = ends[1].accept(listener).expect("a connection");
    ends[1].release(now, accepted);
    carry(ends);
    assert_eq!([0, 1].map(|i| ends[i].connections()), [0, 0]);
}
