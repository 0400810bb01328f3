//! Live media: an encoder at the sender that makes frames, and a player at the receiver that stands
//! still where a frame is late. The rules by which the encoder follows the sender's rate are ours,
//! and simple; they stand here and in docs/media.md.

use std::collections::VecDeque;

use fullpipe_cc::{BandwidthProbe, Duration, Gain, Instant, Rate};

/// The share of the sender's estimate that the encoder fills: the rest is for headers,
/// retransmissions and the sizes of frames.
const SHARE: Gain = Gain::percent(85);
/// The encoder raises its bitrate when that share is above it by this factor, and when nothing has
/// waited for [`CALM`]. In between it stays as it is.
const RAISE: Gain = Gain::percent(110);
const CALM: Duration = Duration::from_millis(500);
/// A probe asks for this much more bitrate at once.
const STEP: Gain = Gain::percent(200);
/// Padding fills the flow up to this much of the bitrate, above the highest one as well. A window
/// of slow start is twice the estimate, which is at most [`RAISE`] above the bitrate: with less the
/// window would not be full, and so would not grow.
const FILL: Gain = Gain::percent(225);
/// Its target is so much above that, lest rounding leaves the estimate below it.
const MARGIN: Gain = Gain::percent(101);
/// Padding is offered so often, and for so long at most.
const TICK: Duration = Duration::from_millis(5);
const LONGEST_PROBE: Duration = Duration::from_secs(2);
/// The next probe is so long after one that reached its target, after a refusal, and after one that
/// found nothing.
const AFTER_SUCCESS: Duration = Duration::from_secs(1);
const AFTER_REFUSAL: Duration = Duration::from_millis(200);
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// A live encoder and its player.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Media {
    /// Bitrate of the frames; with `adapt` that of the start.
    pub bitrate: Rate,
    /// Frames per second, above 0.
    pub fps: u32,
    /// Time from keyframe to keyframe; zero for frames of one size.
    pub keyframes: Duration,
    /// The size of a keyframe in other frames.
    pub keyframe_size: u32,
    /// The encoder follows the sender's estimate between two bitrates.
    pub adapt: Option<Adapt>,
    /// Time from a frame's capture to its turn in the player. Also the encoder's limit: while more
    /// than this time's bytes wait at the sender, it makes no frame.
    pub playout: Duration,
}

/// The rule by which an encoder follows the sender's estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adapt {
    /// The lowest bitrate.
    pub min: Rate,
    /// The highest bitrate.
    pub max: Rate,
    /// The application asks for probes of the bandwidth, and offers padding for them.
    pub probe: bool,
}

/// Counters of a flow of [`Media`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaStats {
    /// Frames that the receiver has in full.
    pub frames: u64,
    /// Frames that the encoder did not make, because too much waited at the sender.
    pub dropped_frames: u64,
    /// Bytes of all frames that the encoder made.
    pub frame_bytes: u64,
    /// Bytes of padding that the application offered.
    pub padding_bytes: u64,
    /// Times at which the player stood still.
    pub stalls: u64,
    /// The time in nanoseconds for which it did.
    pub stalled_ns: u64,
}

/// The sender as its application sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderView {
    /// The rate that the application may plan with; `None` where nobody says.
    pub estimate: Option<Rate>,
    /// Bytes that were written and have not left.
    pub backlog: u64,
}

/// A probe at work.
#[derive(Clone, Copy, Debug)]
struct Probe {
    begun: Instant,
    /// The rate that was asked for, and the one up to which padding is offered.
    target: Rate,
    fill: Rate,
    /// Bytes written since.
    written: u64,
}

/// Both ends of a flow of media.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    media: Media,
    bitrate: Rate,
    /// Frames captured so far, and the first of them that is to be a keyframe again.
    captured: u64,
    next_keyframe: u64,
    /// Frames from keyframe to keyframe.
    gop: u64,
    first: Instant,
    view: SenderView,
    /// The newest moment at which data waited, or the bitrate changed.
    busy: Instant,
    probe: Option<Probe>,
    next_probe: Instant,
    next_padding: Option<Instant>,
    written: u64,
    /// The ends of frames that have not arrived, in bytes since the begin, and their captures.
    under_way: VecDeque<(u64, Instant)>,
    /// The end of the newest stall.
    stalled_until: Instant,
    stats: MediaStats,
}

impl Live {
    pub(crate) fn new(media: Media) -> Self {
        Self {
            media,
            bitrate: media.bitrate,
            captured: 0,
            next_keyframe: 1,
            gop: (media.keyframes.as_nanos() / media.interval(1).as_nanos().max(1)).max(1),
            first: Instant::default(),
            view: SenderView::default(),
            busy: Instant::default(),
            probe: None,
            next_probe: Instant::default(),
            next_padding: None,
            written: 0,
            under_way: VecDeque::new(),
            stalled_until: Instant::default(),
            stats: MediaStats::default(),
        }
    }

    /// The flow is connected: the first frame is captured now.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.first, self.busy, self.next_probe) = (now, now, now + AFTER_SUCCESS);
    }

    /// The counters at this time, with the part so far of a stall that has not ended.
    pub(crate) fn stats(&self, now: Instant) -> MediaStats {
        let mut stats = self.stats;
        if let Some(due) =
            self.under_way.front().map(|(_, captured)| *captured + self.media.playout)
        {
            stats.add_stall(due, self.stalled_until, now);
        }
        stats
    }

    /// Frames that were made and have not arrived.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.len() as u64
    }

    fn next_frame(&self) -> Instant {
        self.first + self.media.interval(self.captured)
    }

    /// The time of the next step.
    pub(crate) fn wakes(&self) -> Instant {
        self.next_padding.map_or(self.next_frame(), |padding| padding.min(self.next_frame()))
    }

    pub(crate) fn on_sender(&mut self, view: SenderView) {
        self.view = view;
    }

    /// The rate for which a probe is wanted now.
    pub(crate) fn wanted_rate(&self, now: Instant) -> Option<Rate> {
        if let Some(probe) = self.probe {
            return Some(probe.target);
        }
        let adapt = self.media.adapt.filter(|adapt| adapt.probe && self.bitrate < adapt.max)?;
        let is_calm = now.since(self.busy) >= CALM;
        let wanted = STEP.of_rate(self.bitrate).min(adapt.max);
        (is_calm && now >= self.next_probe).then(|| SHARE.divide_rate(MARGIN.of_rate(wanted)))
    }

    /// The answer for the rate of [`Self::wanted_rate`].
    pub(crate) fn on_probe(&mut self, now: Instant, answer: BandwidthProbe) {
        let waits = self.view.backlog > self.most_in_probe();
        match (answer, self.probe) {
            (BandwidthProbe::Probing, None) => {
                let Some(target) = self.wanted_rate(now) else { return };
                let fill = SHARE.divide_rate(FILL.of_rate(self.bitrate));
                self.probe = Some(Probe { begun: now, target, fill, written: 0 });
                self.next_padding = Some(now);
            }
            (BandwidthProbe::Probing, Some(probe))
                if now.since(probe.begun) < LONGEST_PROBE && !waits => {}
            (BandwidthProbe::Probing, Some(_)) => self.end_probe(now + AFTER_FAILURE),
            (BandwidthProbe::Reached, _) => self.end_probe(now + AFTER_SUCCESS),
            (_, None) => self.end_probe(now + AFTER_REFUSAL),
            (_, Some(_)) => self.end_probe(now + AFTER_FAILURE),
        }
    }

    /// More waits only where the path does not carry a probe: two frames, or a keyframe, and the
    /// padding of a tick.
    fn most_in_probe(&self) -> u64 {
        let mean = self.bytes_of(self.media.interval(1));
        let frames = self.keyframe_bytes(mean).max(mean.saturating_mul(2));
        frames.saturating_add(self.probe.map_or(0, |probe| probe.fill.bytes_in(TICK)))
    }

    fn end_probe(&mut self, next: Instant) {
        (self.probe, self.next_padding, self.next_probe) = (None, None, next);
    }

    /// The step that is due: the bytes to write, or none.
    pub(crate) fn step(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let due = self.next_frame();
        if due > now {
            return self.pad(now).map(|bytes| (bytes, now));
        }
        self.captured += 1;
        self.adapt(now);
        if self.view.backlog > self.bytes_of(self.media.playout) {
            self.stats.dropped_frames += 1;
            return None;
        }
        let bytes = self.frame_bytes();
        self.stats.frame_bytes = self.stats.frame_bytes.saturating_add(bytes);
        self.write(bytes);
        self.under_way.push_back((self.written, due));
        Some((bytes, due))
    }

    fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
        self.view.backlog = self.view.backlog.saturating_add(bytes);
        if let Some(probe) = &mut self.probe {
            probe.written = probe.written.saturating_add(bytes);
        }
    }

    /// Tops up what waits to a tick's bytes at the rate of the probe, so that a frame waits for no
    /// more padding than that, and not beyond that rate over the whole probe.
    fn pad(&mut self, now: Instant) -> Option<u64> {
        let probe = self.probe?;
        self.next_padding = Some(now + TICK);
        let most = probe.fill.bytes_in(now.since(probe.begun) + TICK);
        let room = probe.fill.bytes_in(TICK).saturating_sub(self.view.backlog);
        let bytes = room.min(most.saturating_sub(probe.written));
        self.stats.padding_bytes = self.stats.padding_bytes.saturating_add(bytes);
        self.write(bytes);
        (bytes > 0).then_some(bytes)
    }

    /// Bytes that the encoder makes in this time.
    fn bytes_of(&self, time: Duration) -> u64 {
        self.bitrate.bytes_in(time)
    }

    /// The size of the frame that was captured last. The bitrate is the mean over the time from
    /// keyframe to keyframe. A keyframe that was dropped is made in place of the next frame.
    fn frame_bytes(&mut self) -> u64 {
        let mean = self.bitrate.bytes_in(self.media.interval(1));
        if self.gop == 1 {
            return mean.max(1);
        }
        if self.captured < self.next_keyframe {
            return self.other_bytes(mean).max(1);
        }
        self.next_keyframe = self.captured + self.gop;
        self.keyframe_bytes(mean).max(1)
    }

    /// A frame between keyframes, where a frame has so many bytes in the mean.
    fn other_bytes(&self, mean: u64) -> u64 {
        mean.saturating_mul(self.gop) / (self.gop - 1 + u64::from(self.media.keyframe_size.max(1)))
    }

    fn keyframe_bytes(&self, mean: u64) -> u64 {
        match self.gop {
            1 => mean,
            _ => self.other_bytes(mean).saturating_mul(u64::from(self.media.keyframe_size.max(1))),
        }
    }

    /// Follows the estimate, at a frame. While nothing waits, it may only say what this encoder
    /// made, and is no reason to make less.
    fn adapt(&mut self, now: Instant) {
        let (Some(adapt), Some(estimate)) = (self.media.adapt, self.view.estimate) else { return };
        let usable = SHARE.of_rate(estimate).min(adapt.max).max(adapt.min);
        if self.probe.is_none() && self.view.backlog > 0 {
            self.busy = now;
            self.bitrate = self.bitrate.min(usable);
        } else if usable >= RAISE.of_rate(self.bitrate).min(adapt.max)
            && now.since(self.busy) >= CALM
        {
            self.bitrate = self.bitrate.max(usable);
            self.busy = now;
        }
    }

    /// The receiver has read so many bytes in all: the delay of the next frame that is complete.
    pub(crate) fn on_read(&mut self, now: Instant, read: u64) -> Option<Duration> {
        let (_, captured) = *self.under_way.front().filter(|(end, _)| *end <= read)?;
        self.under_way.pop_front();
        self.stats.frames += 1;
        let due = captured + self.media.playout;
        self.stats.add_stall(due, self.stalled_until, now);
        if now > due {
            self.stalled_until = now;
        }
        Some(now.since(captured))
    }
}

impl MediaStats {
    /// A frame that was due at this time is there now, or is waited for until now. Frames that were
    /// late up to `counted` are counted.
    fn add_stall(&mut self, due: Instant, counted: Instant, now: Instant) {
        if now > due {
            self.stalls += u64::from(due > counted || self.stalls == 0);
            self.stalled_ns += now.since(due.max(counted)).as_nanos();
        }
    }
}

impl Media {
    /// The time of so many frames.
    fn interval(&self, frames: u64) -> Duration {
        let nanos = u128::from(frames) * 1_000_000_000 / u128::from(self.fps.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(5_000_000);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const fn kbit(kilobits: u64) -> Rate {
        Rate::from_bits_per_sec(kilobits * 1_000)
    }

    /// 800 kbit/s in 10 frames a second: 10 kB each.
    const MEDIA: Media = Media {
        bitrate: kbit(800),
        fps: 10,
        keyframes: Duration::ZERO,
        keyframe_size: 4,
        adapt: None,
        playout: ms(200),
    };

    const ADAPTS: Media =
        Media { adapt: Some(Adapt { min: kbit(200), max: kbit(4_000), probe: true }), ..MEDIA };

    fn live(media: Media) -> Live {
        let mut live = Live::new(media);
        live.begin(START);
        live
    }

    /// The sizes of all frames of so many seconds, with this view of the sender before each.
    fn frames(live: &mut Live, secs: u64, view: SenderView) -> Vec<u64> {
        let end = live.first.max(live.next_frame()) + Duration::from_secs(secs);
        let mut all = Vec::new();
        while live.wakes() < end {
            live.on_sender(view);
            let now = live.wakes();
            all.extend(live.step(now).map(|(bytes, _)| bytes));
        }
        all
    }

    #[test]
    fn frames_are_of_the_bitrate_with_and_without_keyframes() {
        assert_eq!(frames(&mut live(MEDIA), 2, SenderView::default()), [10_000; 20]);
        let media = Media { keyframes: Duration::from_secs(1), ..MEDIA };
        let all = frames(&mut live(media), 3, SenderView::default());
        // One of four parts and nine of one part are 100 kB.
        assert_eq!(all[..3], [30_768, 7_692, 7_692]);
        assert_eq!(all.iter().filter(|bytes| **bytes == 30_768).count(), 3);
        assert!((299_900..=300_000).contains(&all.iter().sum::<u64>()));
    }

    #[test]
    fn no_frame_is_made_while_more_waits_than_the_playout_delay_holds() {
        let mut live = live(MEDIA);
        let waits = |backlog| SenderView { estimate: None, backlog };
        assert_eq!(frames(&mut live, 1, waits(20_000)).len(), 10);
        assert_eq!(frames(&mut live, 1, waits(20_001)).len(), 0);
        assert_eq!(live.stats(START).dropped_frames, 10);
    }

    #[test]
    fn a_keyframe_that_was_dropped_is_made_next() {
        let mut live = live(Media { keyframes: Duration::from_secs(1), ..MEDIA });
        let waits = SenderView { estimate: None, backlog: 1 << 20 };
        assert_eq!(frames(&mut live, 1, SenderView::default())[..2], [30_768, 7_692]);
        let keyframe = live.next_frame();
        live.on_sender(waits);
        assert_eq!(live.step(keyframe), None);
        let all = frames(&mut live, 2, SenderView::default());
        let keyframes = all.iter().enumerate().filter(|(_, bytes)| **bytes == 30_768);
        assert_eq!(keyframes.map(|(i, _)| i).collect::<Vec<_>>(), [0, 10]);
    }

    #[test]
    fn the_bitrate_follows_the_estimate_down_when_data_waits_and_up_when_none_does() {
        let mut live = live(ADAPTS);
        let view = |kilobits, backlog| SenderView { estimate: Some(kbit(kilobits)), backlog };
        // A low estimate alone may be this encoder's own work.
        assert_eq!(frames(&mut live, 1, view(400, 0)), [10_000; 10]);
        assert_eq!(frames(&mut live, 1, view(400, 1)), [4_250; 10], "85 %");
        assert_eq!(frames(&mut live, 1, view(100, 1)), [2_500; 10], "the lowest");
        let up = frames(&mut live, 1, view(1_000, 0));
        assert_eq!(up, [[2_500; 4].to_vec(), [10_625; 6].to_vec()].concat(), "after 500 ms");
        assert_eq!(frames(&mut live, 1, view(1_090, 0)), [10_625; 10], "too little more");
        let most = frames(&mut live, 1, view(100_000, 0));
        assert_eq!(most.last(), Some(&50_000), "the highest");
        let mut fixed = Live::new(MEDIA);
        fixed.begin(START);
        assert_eq!(frames(&mut fixed, 1, view(100, 1)), [10_000; 10], "without adapt");
    }

    /// Steps until `end`; the sender takes all that it is given, and probes while `answer` says so.
    fn run(live: &mut Live, end: Instant, answer: impl Fn(Instant) -> BandwidthProbe) -> u64 {
        let before = live.written;
        while live.wakes() < end {
            let now = live.wakes();
            live.on_sender(SenderView { estimate: Some(kbit(900)), backlog: 0 });
            if live.wanted_rate(now).is_some() {
                live.on_probe(now, answer(now));
            }
            let (due, frames) = (live.next_frame(), live.captured);
            live.step(now);
            assert!(live.captured == frames || due <= now, "a frame before its time");
        }
        live.written - before
    }

    #[test]
    fn a_probe_fills_the_flow_up_with_padding_and_ends() {
        let mut live = live(ADAPTS);
        let second = Duration::from_secs(1);
        run(&mut live, START + second, |_| panic!("too early"));
        let told = live.first + second + second;
        let probing = run(&mut live, told, |_| BandwidthProbe::Probing);
        // 225 % of 800 kbit/s are 85 % of the rate.
        let fill = 1_800_000 * 100 / 85 / 8;
        assert!(probing.abs_diff(fill) < 2_000, "{probing} of {fill}");
        assert!(live.probe.is_some());
        run(&mut live, told + second, |_| BandwidthProbe::Reached);
        let padding = live.stats(START).padding_bytes;
        assert!(padding > 70_000 && padding.abs_diff(fill - 100_000) < 2_000, "{padding}");
        let refused = BandwidthProbe::NotNow(fullpipe_cc::NotNow::TooSoon);
        run(&mut live, told + second.times(4), |_| refused);
        assert_eq!(live.stats(START).padding_bytes, padding, "none without a probe");
    }

    /// The window of slow start is as large below the highest bitrate as anywhere.
    #[test]
    fn a_probe_near_the_highest_bitrate_asks_for_no_more_than_that_and_fills_as_much() {
        let near = Adapt { max: kbit(850), ..ADAPTS.adapt.expect("it adapts") };
        let written = [ADAPTS.adapt, Some(near)].map(|adapt| {
            let mut live = live(Media { adapt, ..ADAPTS });
            let begin = START + Duration::from_millis(1_100);
            run(&mut live, begin, |_| BandwidthProbe::Probing);
            let asked = live.wanted_rate(begin).expect("it probes").as_bits_per_sec() / 1_000;
            (asked, run(&mut live, begin + Duration::from_secs(1), |_| BandwidthProbe::Probing))
        });
        // 101 % of twice the bitrate, and of the highest, are 85 % of the rate.
        assert_eq!(written.map(|(asked, _)| asked), [1_901, 1_009]);
        assert_eq!(written[0].1, written[1].1);
    }

    #[test]
    fn a_probe_without_an_end_is_given_up() {
        let mut live = live(ADAPTS);
        run(&mut live, START + Duration::from_secs(7), |_| BandwidthProbe::Probing);
        assert!(live.probe.is_none(), "from 1 s to 3 s, and then for 5 s none");
        let padding = live.stats(START).padding_bytes;
        assert!(padding.abs_diff(2 * (264_706 - 100_000)) < 4_000, "{padding}");
    }

    #[test]
    fn a_frame_that_is_late_stops_the_player_until_it_is_there() {
        let mut live = live(MEDIA);
        for _ in 0..5 {
            let now = live.wakes();
            live.on_sender(SenderView::default());
            live.step(now);
        }
        let mut read = |at: u64, bytes| live.on_read(START + ms(at), bytes);
        assert_eq!(read(50, 9_999), None);
        assert_eq!(read(200, 10_000), Some(ms(200)), "in time");
        // Captured at 100 ms and due at 300.
        assert_eq!(read(350, 30_000), Some(ms(250)));
        assert_eq!(read(350, 30_000), Some(ms(150)));
        assert_eq!(read(350, 30_000), None);
        // Due at 500 and 600: one stall.
        assert_eq!(read(650, 50_000), Some(ms(350)));
        assert_eq!(read(650, 50_000), Some(ms(250)));
        let stats = |live: &Live, at| {
            let stats = live.stats(START + ms(at));
            (stats.frames, stats.stalls, stats.stalled_ns / 1_000_000)
        };
        assert_eq!(stats(&live, 650), (5, 2, 200));
        // The next one is due at 700 and has not come: the stall counts while it lasts, once.
        assert_eq!(live.step(START + ms(500)), Some((10_000, START + ms(500))));
        assert_eq!(stats(&live, 700), (5, 2, 200));
        assert_eq!(stats(&live, 1_000), (5, 3, 500));
        assert_eq!(live.on_read(START + ms(1_200), 60_000), Some(ms(700)));
        assert_eq!(stats(&live, 2_000), (6, 3, 700));
    }
}
