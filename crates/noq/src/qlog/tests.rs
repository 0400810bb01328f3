//! Records in noq's form, and what becomes of them.

use std::io::Write;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Log, MOST_WAITING};

/// The records of a log of these.
fn written(records: &[Value]) -> Vec<Value> {
    let mut out = Vec::new();
    let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let mut log = Log::new(&mut out, "a title".to_owned(), began);
    for record in records {
        // In pieces, as noq's serializer writes them.
        let text = format!("\u{1e}{record}\n");
        text.as_bytes().chunks(7).for_each(|piece| log.write_all(piece).expect("written"));
    }
    drop(log);
    let text = String::from_utf8(out).expect("text");
    let records = text.split('\u{1e}').skip(1);
    records.map(|record| serde_json::from_str(record).expect("JSON")).collect()
}

fn head() -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "JSON-SEQ",
        "trace": {
            "common_fields": { "group_id": "ab", "reference_time": { "clock_type": "", "epoch": "" } },
            "vantage_point": { "type": "client" },
            "event_schemas": [],
        },
    })
}

fn lost(time_ms: f64, number: u64) -> Value {
    let header = json!({ "packet_type": "1RTT", "packet_number": number, "length": 1200 });
    json!({ "time": time_ms, "name": "quic:packet_lost", "data": { "header": header } })
}

fn times(records: &[Value]) -> Vec<f64> {
    records[1..].iter().map(|record| record["time"].as_f64().expect("a time")).collect()
}

#[test]
fn the_head_is_that_of_the_newest_draft_and_of_qvis() {
    let records = written(&[head()]);
    let [head] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(head["serialization_format"], "application/qlog+json-seq");
    assert_eq!((&head["qlog_version"], &head["qlog_format"]), (&json!("0.3"), &json!("JSON-SEQ")));
    let trace = &head["trace"];
    assert_eq!(trace["event_schemas"], json!(["urn:ietf:params:qlog:events:quic"]));
    assert_eq!(trace["vantage_point"]["type"], "client");
    let common = &trace["common_fields"];
    assert_eq!(common["group_id"], "ab");
    let reference = &common["reference_time"];
    assert_eq!(
        *reference,
        json!({
            "clock_type": "monotonic",
            "epoch": "unknown",
            "wall_clock_time": "2023-11-14T22:13:20.123Z",
        })
    );
}

#[test]
fn events_are_in_the_order_of_their_times() {
    let records = [head(), lost(2.0, 1), lost(1.5, 2), lost(90.0, 3), lost(3.0, 4), lost(1.0, 5)];
    let records = written(&records);
    assert_eq!(times(&records), [1.0, 1.5, 2.0, 3.0, 90.0]);
    // One that is later than the patience has for it does not go back in time.
    let records = written(&[head(), lost(1.0, 1), lost(500.0, 2), lost(0.5, 3)]);
    assert_eq!(times(&records), [1.0, 1.0, 500.0]);
    // Nor are there ever too many that wait.
    let many: Vec<Value> = (0..=MOST_WAITING as u64 + 1).map(|n| lost(1.0, n)).collect();
    let records = written(&[vec![head()], many, vec![lost(0.5, 0)]].concat());
    assert_eq!(times(&records), vec![1.0; MOST_WAITING + 3]);
}

/// A process that ends with its connection does not drop the log.
#[test]
fn a_log_is_written_when_its_connection_is_closed() {
    let mut log = Log::new(Vec::new(), String::new(), SystemTime::UNIX_EPOCH);
    let frames = json!([{ "frame_type": "connection_close", "error_code": 0 }]);
    let data = json!({ "header": { "packet_type": "1RTT" }, "frames": frames });
    let closed = json!({ "time": 2.0, "name": "quic:packet_sent", "data": data });
    for record in [head(), lost(1.0, 1)] {
        log.write_all(format!("\u{1e}{record}\n").as_bytes()).expect("written");
    }
    assert!(log.out.is_empty());
    log.write_all(format!("\u{1e}{closed}\n").as_bytes()).expect("written");
    assert_eq!(log.out.iter().filter(|byte| **byte == 0x1e).count(), 3);
    log.write_all(format!("\u{1e}{}\n", lost(3.0, 2)).as_bytes()).expect("written");
    assert_eq!(log.out.iter().filter(|byte| **byte == 0x1e).count(), 4);
}

#[test]
fn packets_have_the_sizes_delays_and_ranges_of_the_schema() {
    let parameters = |initiator: &str, exponent: u64| {
        let data = json!({ "initiator": initiator, "ack_delay_exponent": exponent });
        json!({ "time": 0.0, "name": "quic:parameters_set", "data": data })
    };
    let packet = |name: &str| {
        let ack = json!({
            "frame_type": "ack", "ack_delay": 100.0, "acked_ranges": [[0, 1], [3, 7]]
        });
        let stream = json!({ "frame_type": "stream", "stream_id": 0, "raw": { "length": 30 } });
        let header = json!({ "packet_type": "1RTT", "packet_number": 9, "length": 1200 });
        json!({ "time": 1.0, "name": name, "data": { "header": header, "frames": [ack, stream] } })
    };
    let records = [
        head(),
        parameters("local", 3),
        parameters("remote", 10),
        packet("quic:packet_sent"),
        packet("quic:packet_received"),
    ];
    let records = written(&records);
    for (event, delay_ms) in [(&records[3], 0.8), (&records[4], 102.4)] {
        let data = &event["data"];
        assert_eq!(
            (&event["category"], &data["raw"]["length"]),
            (&json!("transport"), &json!(1200))
        );
        assert_eq!(data["header"].get("length"), None);
        let [ack, stream] = data["frames"].as_array().expect("frames").as_slice() else {
            panic!("{event}")
        };
        assert_eq!(ack["acked_ranges"], json!([[0, 0], [3, 6]]));
        assert!((ack["ack_delay"].as_f64().expect("a delay") - delay_ms).abs() < 1e-9, "{ack}");
        assert_eq!(
            (&stream["length"], &stream["raw"]),
            (&json!(30), &json!({ "payload_length": 30 }))
        );
    }
}

#[test]
fn metrics_have_both_of_their_names() {
    let data = json!({ "congestion_window": 12000 });
    let event = json!({ "time": 1.0, "name": "quic:recovery_metrics_updated", "data": data });
    let records = written(&[head(), event]);
    let names: Vec<_> = records[1..].iter().map(|r| (&r["name"], &r["category"])).collect();
    let category = json!("recovery");
    assert_eq!(
        names,
        [
            (&json!("quic:recovery_metrics_updated"), &category),
            (&json!("recovery:metrics_updated"), &category)
        ]
    );
    assert_eq!(records[1]["data"], records[2]["data"]);
}
