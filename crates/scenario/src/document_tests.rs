//! A document that is written and read again is the same one.

use std::path::Path;

use fullpipe_path::Probability;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::{Edition, ScenarioFile};
use crate::document::*;
use crate::units::Buffer;
use crate::{Protocol, Receiver};

/// Writes a document, and reads it again.
fn again(document: &Document) -> Document {
    let text = toml::to_string(document).expect("text");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The Debug output has every field.
fn assert_same(document: &Document) {
    assert_eq!(format!("{:?}", again(document)), format!("{document:?}"));
}

fn time() -> impl Strategy<Value = Time> {
    (0..1_000_000_000_000_u64).prop_map(|ns| Time(fullpipe_cc::Duration::from_nanos(ns)))
}

fn speed() -> impl Strategy<Value = Speed> {
    (1..100_000_u32).prop_map(|n| Speed::of_mbps(f64::from(n) / 8.0))
}

fn share() -> impl Strategy<Value = Share> {
    let of = |n: u32| Share(Probability::new(f64::from(n) / 1000.0).expect("a probability"));
    (0..=1000_u32).prop_map(of)
}

fn chance() -> impl Strategy<Value = Chance> {
    (0..10_000_u32).prop_map(|n| Chance::of_percent(f64::from(n) / 100.0))
}

fn room() -> impl Strategy<Value = Room> {
    prop_oneof![
        (1..1_u64 << 40).prop_map(Buffer::Bytes),
        (1..10_000_u64).prop_map(Buffer::Packets),
        (1..10_000_u32).prop_map(|n| Buffer::Bdp(f64::from(n) / 64.0)),
        time().prop_map(|time| Buffer::Time(time.0)),
    ]
    .prop_map(Room)
}

fn size() -> impl Strategy<Value = Size> {
    (0..1_u64 << 40).prop_map(Size)
}

fn steps() -> impl Strategy<Value = Repeated<RateStep>> {
    let step = (time(), speed()).prop_map(|(at, rate)| RateStep { at, rate: SpeedOrNone(rate.0) });
    prop_oneof![
        vec(step, 0..3).prop_map(Repeated::from),
        (1..100_u32, of(1..9_u64)).prop_map(|(s, repeat)| {
            let repeat = repeat.map_or(String::new(), |n| format!("repeat = {n}\n"));
            let table =
                format!("every = \"{s}s\"\n{repeat}[[list]]\nat = \"1s\"\nrate = \"1mbit\"\n");
            toml::from_str(&table).expect("rounds")
        }),
    ]
}

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        Just(Queue::TailDrop {}),
        room().prop_map(|mark_above| Queue::Step { mark_above }),
        (of(time()), of(any::<bool>()))
            .prop_map(|(target, ecn)| { Queue::CoDel(CoDel { target, ecn, ..CoDel::default() }) }),
        (room(), room(), of(share())).prop_map(|(min, max, weight)| Queue::Red {
            min,
            max,
            max_probability: None,
            weight,
            ecn: Some(true),
        }),
        of(time()).prop_map(|target| Queue::DualPi2 {
            target,
            rtt_max: None,
            ramp_from: None,
            ramp_range: target,
        }),
    ]
}

fn jitter() -> impl Strategy<Value = JitterField> {
    let table = (1..9_u32, 0..4_usize, 0..100_u32).prop_map(|(ms, shape, r)| {
        let shape = ["uniform", "normal", "pareto", "wifi"][shape];
        let correlation = if shape == "wifi" { "" } else { &format!("correlation = \"{r}%\"\n") };
        let text = format!("spread = \"{ms}ms\"\ndistribution = \"{shape}\"\n{correlation}");
        toml::from_str(&text).expect("a jitter")
    });
    prop_oneof![time().prop_map(|most| JitterField(most.0.into())), table]
}

fn element() -> impl Strategy<Value = Element> {
    let delays = (time(), time()).prop_map(|(at, delay)| DelayStep { at, delay });
    let outages = (time(), time()).prop_map(|(from, to)| Outage { from, to });
    prop_oneof![
        chance().prop_map(Element::Loss),
        vec(any::<u32>().prop_map(u64::from), 0..4).prop_map(|listed| Element::LossList { listed }),
        (share(), share(), of(share())).prop_map(|(to_bad, to_good, good)| {
            Element::GilbertElliott { to_bad, to_good, good, bad: None }
        }),
        vec(outages, 1..3).prop_map(|list| Element::Blackhole(list.into())),
        vec(delays, 1..3).prop_map(|list| Element::DelaySteps(list.into())),
        (speed(), size(), of(size())).prop_map(|(rate, bucket, tokens)| Element::Policer {
            rate,
            bucket,
            tokens
        }),
        (of(speed()), steps(), of(room()), of(queue())).prop_map(|(rate, steps, buffer, queue)| {
            Element::Bottleneck(Box::new(Wire { rate, steps, trace: None, buffer, queue }))
        }),
        time().prop_map(Element::Delay),
        jitter().prop_map(Element::Jitter),
        vec((time(), jitter()).prop_map(|(at, jitter)| JitterStep { at, jitter }), 1..3)
            .prop_map(|list| Element::JitterSteps(list.into())),
        (of(share()), of(1..9_u64), time())
            .prop_map(|(chance, every, delay)| { Element::Reordering { chance, every, delay } }),
        (time(), of(room()), of(1..9_u32)).prop_map(|(interval, burst, keep_one_in)| {
            Element::Aggregation { interval, burst, keep_one_in }
        }),
    ]
}

pub(super) fn path() -> impl Strategy<Value = PathTable> {
    let trace = prop_oneof![
        Just("lte".into()),
        Just(
            toml::from_str(
                "file = \"t.csv\"\ntime_unit = \"ms\"\nrepeat = false\n[columns]\nrate = 2\n"
            )
            .expect("a trace")
        ),
    ];
    let first = (of(time()), of(speed()), steps(), of(trace));
    let second =
        (of(room()), of(queue()), of(chance()), vec(element(), 0..4), vec(element(), 0..3));
    (first, second).prop_map(|((rtt, rate, steps, trace), (buffer, queue, loss, down, up))| {
        PathTable { rtt, rate, steps, trace, buffer, queue, loss, down, up }
    })
}

fn app() -> impl Strategy<Value = App> {
    prop_oneof![
        Just(App::Bulk {}),
        size().prop_map(App::Bytes),
        (speed(), of(size()))
            .prop_map(|(rate, write)| App::RateLimited(RateLimited { rate, write })),
        (time(), time()).prop_map(|(on, off)| App::OnOff(OnOff { on, off })),
        (speed(), of(1..99_u32), any::<bool>()).prop_map(|(bitrate, fps, adapt)| {
            App::Media(MediaTable {
                bitrate,
                fps,
                keyframes: None,
                keyframe_size: None,
                adapt,
                min: None,
                max: Some(bitrate),
                probe: adapt,
                playout: None,
            })
        }),
    ]
}

pub(super) fn flow() -> impl Strategy<Value = FlowTable> {
    let sender = prop_oneof![
        Just("bbr3"),
        Just("fixed:12mbit"),
        Just("quinn:bbr"),
        Just("linux:bbr"),
        Just("program:mine"),
    ];
    let sender = sender.prop_map(|name| name.parse::<FlowSender>().expect("a sender"));
    let first = (of("[a-z \"\\\\]{1,9}"), of(sender), of(1..9_u64), of(app()), of(time()));
    let second = (of(100..9000_u32), of(size()), of(room()), of(any::<bool>()), of(100..1000_u32));
    let third = (0..4_usize, any::<bool>(), any::<bool>(), of(any::<bool>()), of(time()));
    (first, second, third).prop_map(|(first, second, third)| FlowTable {
        name: first.0,
        cc: first.1,
        count: first.2,
        app: first.3,
        start: first.4,
        transport: second.3.map(|tcp| if tcp { Protocol::Tcp } else { Protocol::Quic }),
        receiver: second.3.map(|_| Receiver::User),
        mss: second.0,
        initial_cwnd: second.1,
        receive_window: second.2,
        resume: second.2.map(|room| Resume { cwnd: Saved(Some(room.0)), rtt: Time::of_ms(40.0) }),
        startup_pacing_gain: second.4.map(|n| Factor(fullpipe_cc::Gain::percent(n))),
        startup: second.3.map(|_| Startup::RapidStart),
        cubic: second.3.map(|_| Cubic::Rfc9438),
        pacer: second.3.map(|_| Pacer::Noq),
        bbr3x_without: second.3.map(|_| Without("path_loss".parse().expect("a name"))),
        reordering: second.3.map(|_| LossDetection::Threshold),
        ecn: [EcnMode::Off, EcnMode::Classic, EcnMode::L4s, EcnMode::Ignored][third.0],
        direction: if third.1 { Direction::Up } else { Direction::Down },
        background: third.2,
        in_fairness: third.3,
        extra_rtt: third.4,
        reroute: third.4.map(|at| Reroute { at, route: "0,2".to_owned() }).into_iter().collect(),
        access: third.4.map(|delay| AccessTable { rate: None, delay: Some(delay), buffer: None }),
        ..FlowTable::default()
    })
}

proptest! {
    #[test]
    fn a_drawn_document_is_read_as_it_was_written(
        path in of(path()),
        flow in vec(flow(), 0..3),
        duration in of(of(time())),
        seed in of(0..1_u64 << 40),
    ) {
        let duration = duration.map(|time| Length(time.map(|time| time.0)));
        assert_same(&Document { path, flow, duration, seed, ..Document::default() });
    }
}

/// Each point of each file that comes with the program.
#[test]
fn the_documents_of_all_files_are_read_as_they_were_written() {
    fn visit(dir: &Path, documents: &mut usize) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                visit(&path, documents);
                continue;
            }
            // Some are of other kinds.
            let is_toml = path.extension().is_some_and(|extension| extension == "toml");
            let file = is_toml.then(|| ScenarioFile::load(&path, Edition::default()));
            let Some(Ok(file)) = file else { continue };
            for run in &file.grid.runs {
                assert_same(&run.document);
                *documents += 1;
            }
        }
    }

    let mut documents = 0;
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"), &mut documents);
    assert!(documents > 500, "{documents} documents");
}
