//! Stories of qlogs: of noq under a virtual clock, as it writes them and in the forms of others.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use fullpipe_judge::capture::{Choice, Place, Story};
use fullpipe_judge::program::judge::{Kind, TestPath};
use serde_json::{Value, json};

use crate::world;

thread_local! {
    /// The directory in which the connections that are made leave their logs, and true if they are
    /// noq's own.
    static LOGS: RefCell<(PathBuf, bool)> = const { RefCell::new((PathBuf::new(), true)) };
}

pub(crate) mod noq {
    crate::world::quic_peer!(noq_proto, {
        use std::num::NonZeroUsize;

        use fullpipe_adapter::CongestionControl;
        use fullpipe_cc::Algorithm;

        fn set_congestion_control(transport: &mut TransportConfig, name: &str) {
            let planted = crate::planted::ALL.iter().find(|planted| planted.name == name);
            let control = match planted {
                Some(planted) => Algorithm::Custom(planted).into(),
                None => name.parse::<CongestionControl>().expect("a name"),
            };
            let factory = Arc::new(fullpipe_noq::Controllers::new(control).with_seed(1));
            transport.congestion_controller_factory(factory);
            super::LOGS.with_borrow(|(dir, is_noqs)| {
                match is_noqs {
                    true => transport.qlog_from_path(dir, "x"),
                    false => transport.qlog_factory(Arc::new(fullpipe_noq::QlogFiles::new(dir))),
                };
            });
        }

        fn endpoint(seed: u8, server: Option<Arc<ServerConfig>>) -> Endpoint {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([seed; 32]));
            Endpoint::new(Arc::new(config), server, true)
        }

        fn handle(
            endpoint: &mut Endpoint,
            now: StdInstant,
            remote: SocketAddr,
            datagram: BytesMut,
            reply: &mut Vec<u8>,
        ) -> Option<DatagramEvent> {
            endpoint.handle(now, noq_proto::FourTuple::from_remote(remote), None, datagram, reply)
        }

        fn timer(connection: &mut Connection) -> Option<StdInstant> {
            connection.poll_timeout()
        }

        /// The bytes of a datagram: one at a time, as a paced socket sends them.
        fn transmit(
            connection: &mut Connection,
            now: StdInstant,
            buffer: &mut Vec<u8>,
        ) -> Option<(usize, Option<usize>)> {
            const ONE: NonZeroUsize = NonZeroUsize::new(1).expect("one");
            connection.poll_transmit(now, ONE, buffer).map(|t| (t.size, t.segment_size))
        }
    });
}

/// noq's own logs of the server, which sends, and of the client.
pub(crate) fn logs(cc: &str, test_path: &str, seconds: u64, dir: &Path) -> [PathBuf; 2] {
    logs_by(true, cc, test_path, seconds, dir)
}

fn logs_by(is_noqs: bool, cc: &str, test_path: &str, seconds: u64, dir: &Path) -> [PathBuf; 2] {
    LOGS.set((dir.to_owned(), is_noqs));
    let path = TestPath::named(test_path).expect("a test path").path(false).expect("a path");
    drop(world::run(&path, seconds, noq::pair(cc)));
    let files = fs::read_dir(dir).expect("a directory");
    let files: Vec<PathBuf> = files.map(|f| f.expect("a file").path()).collect();
    ["server", "client"].map(|end| {
        let is_its = |f: &&PathBuf| f.to_string_lossy().contains(end);
        files.iter().find(is_its).expect("a log").clone()
    })
}

/// Lets the connections that are made in this thread leave our logs there.
pub(crate) fn log_into(dir: &Path) {
    LOGS.set((dir.to_owned(), false));
}

pub(crate) fn read(file: &Path) -> Story {
    Story::of_qlog(file, &Choice::Largest).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The records of a log: the head, and the events.
pub(crate) fn records(file: &Path) -> (Value, Vec<Value>) {
    let text = fs::read_to_string(file).expect("text");
    let records = text.lines().map(|line| line.trim_start_matches('\u{1e}'));
    let mut records = records.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    (records.next().expect("a head"), records.collect())
}

/// Writes an event in the form of version 0.3: other names, and the size in `raw`.
pub(crate) fn as_0_3(event: &Value) -> Value {
    let name = event["name"].as_str().expect("a name");
    let name = match name {
        "quic:recovery_metrics_updated" => "recovery:metrics_updated".to_owned(),
        other => other.replace("quic:", "transport:"),
    };
    let mut data = event["data"].clone();
    if let Some(length) = data["header"]["length"].as_u64() {
        data["raw"] = json!({ "length": length });
        data["header"].as_object_mut().expect("an object").remove("length");
    }
    // Both ends of a range are packets there.
    for frame in data["frames"].as_array_mut().into_iter().flatten() {
        for range in frame["acked_ranges"].as_array_mut().into_iter().flatten() {
            let bounds: Vec<u64> =
                range.as_array().expect("a range").iter().filter_map(Value::as_u64).collect();
            *range = match bounds[1] - bounds[0] {
                1 => json!([bounds[0]]),
                _ => json!([bounds[0], bounds[1] - 1]),
            };
        }
    }
    json!({ "time": event["time"], "name": name, "data": data })
}

pub(crate) fn is_of_packets(event: &Value) -> bool {
    event["name"].as_str().is_some_and(|name| name.contains("packet_") || name.contains("metrics"))
}

/// A trace of the oldest drafts: lists, times in microseconds, numbers as strings.
fn as_lists(events: &[Value]) -> Value {
    let lists = events.iter().map(|event| {
        let name = event["name"].as_str().expect("a name");
        let (category, name) = name.split_once(':').expect("a category");
        let time = (event["time"].as_f64().expect("a time") * 1e3).round() as u64;
        let mut data = event["data"].clone();
        if let Some(length) = data["raw"]["length"].as_u64() {
            data["header"]["packet_size"] = json!(length);
            data.as_object_mut().expect("an object").remove("raw");
        }
        if let Some(number) = data["header"]["packet_number"].as_u64() {
            data["header"]["packet_number"] = json!(number.to_string());
        }
        json!([time, category.to_uppercase(), name.to_uppercase(), data])
    });
    json!({
        "qlog_version": "draft-00",
        "traces": [{
            "vantage_point": { "type": "server" },
            "configuration": { "time_units": "us" },
            "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
            "events": lists.collect::<Vec<_>>(),
        }],
    })
}

pub(crate) fn sequence(head: &Value, events: &[Value], separator: &str) -> String {
    let records = std::iter::once(head).chain(events);
    records.map(|record| format!("{separator}{record}\n")).collect()
}

/// Times from event to event.
fn as_deltas(events: &[Value]) -> Vec<Value> {
    let mut before = 0.0;
    let deltas = events.iter().map(|event| {
        let time = event["time"].as_f64().expect("a time");
        let mut event = event.clone();
        event["time"] = json!(time - before);
        before = time;
        event
    });
    deltas.collect()
}

#[test]
fn a_log_tells_the_same_in_every_form() {
    let dir = tempfile::tempdir().expect("a directory");
    let [server, client] = logs("bbr3", "clean", 6, dir.path());
    let of_noq = read(&server);
    let text = of_noq.text();
    assert!(matches!(of_noq.verdict.looks.kind, Kind::BbrLike { .. }), "{text}");
    assert_eq!(of_noq.verdict.looks.paced, Some(true), "{text}");
    assert!(of_noq.verdict.defects.is_empty(), "{text}");
    assert!(of_noq.remarks.join("\n").contains("end behind the last packet"), "{text}");
    let f = of_noq.figures.clone();
    assert!((18.0..19.7).contains(&f.peak_mbps), "{text}");
    assert!((40.0..42.0).contains(&f.rtt_ms.expect("round trips").min), "{text}");

    let (head, events) = records(&server);
    // The first part is enough to compare.
    let early = |e: &&Value| e["time"].as_f64().expect("a time") < 2000.0;
    let events: Vec<Value> = events.into_iter().filter(|e| early(&e)).collect();
    let file = dir.path().join("other");
    fs::write(&file, sequence(&head, &events, "\u{1e}")).expect("written");
    let of_noq = read(&file);
    let events: Vec<Value> = events.iter().filter(|e| is_of_packets(e)).map(as_0_3).collect();
    let head = json!({ "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {} });
    let delta = json!({
        "qlog_version": "0.3",
        "qlog_format": "NDJSON",
        "trace": { "common_fields": { "time_format": "delta" } },
    });
    let document = json!({ "qlog_version": "0.3", "traces": [{ "events": events }] });
    for (form, text) in [
        ("JSON-SEQ", sequence(&head, &events, "\u{1e}")),
        ("by line", sequence(&delta, &as_deltas(&events), "")),
        ("JSON", document.to_string()),
        ("lists", as_lists(&events).to_string()),
    ] {
        fs::write(&file, text).expect("written");
        let other = read(&file);
        let says = other.text();
        assert_eq!(other.verdict.looks.paced, of_noq.verdict.looks.paced, "{form}: {says}");
        assert_eq!(other.verdict.because, of_noq.verdict.because, "{form}: {says}");
        let (a, b) = (&other.figures, &of_noq.figures);
        assert!((a.goodput_mbps - b.goodput_mbps).abs() < 0.01, "{form}: {says}");
        assert_eq!((a.sent_packets, a.resent_packets), (b.sent_packets, b.resent_packets));
    }

    // The other end knows less.
    let of_client = read(&client);
    assert_eq!(of_client.place, Place::Receiver);
    assert_eq!((of_client.figures.inflight_bytes, of_client.figures.resent_packets), (None, None));
    assert!(of_client.text().contains("the log is the receiver's"), "{}", of_client.text());
    assert!(of_client.text().contains("the log's other end sends"), "{}", of_client.text());
    assert!((of_client.figures.peak_mbps - f.peak_mbps).abs() < 0.5, "{}", of_client.text());
}

#[test]
fn the_logs_of_our_connections_tell_what_noqs_tell() {
    let story = |is_noqs| {
        let dir = tempfile::tempdir().expect("a directory");
        let [server, _] = logs_by(is_noqs, "bbr3", "loss 1 %", 4, dir.path());
        let (head, events) = records(&server);
        (read(&server), head, events)
    };
    let ((noqs, ..), (ours, head, events)) = (story(true), story(false));
    assert_eq!((&head["qlog_version"], &head["qlog_format"]), (&json!("0.3"), &json!("JSON-SEQ")));
    let times: Vec<f64> = events.iter().map(|e| e["time"].as_f64().expect("a time")).collect();
    assert!(times.is_sorted() && times.len() > 10_000, "{}", times.len());
    assert!(ours.remarks.is_empty(), "{:?}", ours.remarks);
    assert_eq!(ours.verdict, noqs.verdict);
    let (mut a, b) = (ours.figures, noqs.figures);
    // One of noq's events is late, and an interval begins with it.
    a.series = b.series.clone();
    assert_eq!(a, b);
}

#[test]
fn losses_of_a_log_are_the_senders() {
    let dir = tempfile::tempdir().expect("a directory");
    let [server, _] = logs("cubic", "loss 1 %", 6, dir.path());
    let story = read(&server);
    let text = story.text();
    assert!(matches!(story.verdict.looks.kind, Kind::LossBased { .. }), "{text}");
    let share = story.figures.resent_share.expect("losses");
    assert!((0.004..0.018).contains(&share), "{text}");
}

/// An acknowledgement of what was not sent yet, as of an event that was logged late, says nothing
/// about all others.
#[test]
fn one_acknowledgement_of_the_next_packet_changes_no_range() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x");
    let header = |n: u64| json!({ "packet_type": "1RTT", "packet_number": n });
    let sent = |n: u64| {
        let data = json!({ "header": header(n), "raw": { "length": 1200 } });
        json!({ "time": n, "name": "quic:packet_sent", "data": data })
    };
    let acked = |at: u64, from: u64, to: u64| {
        let frame = json!({ "frame_type": "ack", "acked_ranges": [[from, to]] });
        let data = json!({ "header": header(at), "frames": [frame], "raw": { "length": 40 } });
        json!({ "time": at, "name": "quic:packet_received", "data": data })
    };
    let delivered = |bogus: Option<Value>| {
        let acks = [acked(10, 0, 0), acked(20, 0, 9)].into_iter().chain(bogus);
        let mut events: Vec<Value> = (0..30).map(sent).collect();
        events.extend(acks.chain([acked(40, 0, 19), acked(41, 0, 29)]));
        events.sort_by_key(|event| event["time"].as_u64());
        let head = json!({ "qlog_version": "0.3", "trace": {} });
        fs::write(&file, sequence(&head, &events, "\u{1e}")).expect("written");
        read(&file)
    };
    let (with, without) = (delivered(Some(acked(25, 0, 26))), delivered(None));
    assert!(with.remarks.is_empty(), "{:?}", with.remarks);
    let bytes = |story: &Story| story.figures.bytes_per_ack.as_ref().map(|b| b.max);
    assert!(bytes(&without).is_some_and(|most| most >= 10.0 * 1200.0), "{}", without.text());
    assert_eq!(without.figures.acks + 1, with.figures.acks);
    assert_eq!(with.figures.goodput_mbps, without.figures.goodput_mbps);
}

#[test]
fn a_log_that_is_cut_or_none_is_said_in_a_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x");
    let event = |n: u64| {
        let header = json!({ "packet_type": "1RTT", "packet_number": n });
        let data = json!({ "header": header, "raw": { "length": 1200 } });
        json!({ "time": n, "name": "transport:packet_sent", "data": data })
    };
    let head = json!({ "qlog_version": "0.3", "trace": {} });
    let events: Vec<Value> = (0..100).map(event).collect();
    let text = sequence(&head, &events, "\u{1e}");
    fs::write(&file, &text[..text.len() - 20]).expect("written");
    let story = read(&file);
    assert_eq!(story.figures.sent_packets, 99);
    assert!(story.remarks.join("\n").contains("ends inside an event"), "{:?}", story.remarks);
    let damaged = text.replace("\"time\":50", "time: 50");
    fs::write(&file, damaged).expect("written");
    assert!(
        read(&file).remarks.join("\n").contains("1 of 100 events"),
        "{:?}",
        read(&file).remarks
    );
    let document = json!({ "qlog_version": "0.3", "traces": [{ "events": events }] }).to_string();
    for (text, says) in [
        ("", "it is empty"),
        ("{}", "no qlog"),
        ("[1, 2]", "no qlog"),
        ("{\"qlog_version\": \"0.3\"}", "it has no traces"),
        ("{\"qlog_version\": \"0.3\", \"traces\": []}", "no packet_sent"),
        ("time,mbps\n", "no JSON"),
        ("\u{1e}nothing\n", "its first record is no JSON"),
        (&document[..document.len() / 2], "ends too early"),
        ("\n\r\r\n", "--pcap"),
    ] {
        fs::write(&file, text).expect("written");
        let error = Story::of_qlog(&file, &Choice::Largest).expect_err(text).to_string();
        assert!(error.contains(says) && error.lines().count() == 1, "{text:.40}: {error}");
    }
}
