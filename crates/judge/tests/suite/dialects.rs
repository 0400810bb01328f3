//! One connection in the forms in which other stacks write their logs: the names of fields, units
//! and groups of events are theirs, and the packets noq's.

use std::fs;

use fullpipe_judge::capture::Story;
use fullpipe_judge::program::judge::Kind;
use serde_json::{Value, json};

use crate::qlogs::{as_0_3, is_of_packets, logs, read, records, sequence};

/// The name of an event without its category.
fn name(event: &Value) -> &str {
    event["name"].as_str().and_then(|name| name.rsplit(':').next()).expect("a name")
}

fn time_ms(event: &Value) -> f64 {
    event["time"].as_f64().expect("a time")
}

fn microseconds(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

/// Ranges with both ends, also of one packet.
fn pairs(frames: &mut Value) {
    let frames = frames.as_array_mut().into_iter().flatten();
    for range in frames.filter_map(|f| f["acked_ranges"].as_array_mut()).flatten() {
        if let Some([one]) = range.as_array().map(Vec::as_slice) {
            *range = json!([one, one]);
        }
    }
}

/// ngtcp2: a sequence with whole milliseconds.
fn ngtcp2(events: &[Value]) -> String {
    let head = json!({
        "qlog_format": "JSON-SEQ",
        "qlog_version": "0.3",
        "trace": {
            "vantage_point": { "name": "x", "type": "server" },
            "common_fields": { "time_format": "relative", "reference_time": 0, "group_id": "ab" },
        },
    });
    let whole = |event: &Value| {
        let mut event = event.clone();
        event["time"] = json!(time_ms(&event) as u64);
        if name(&event) == "metrics_updated" {
            for rtt in ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"] {
                event["data"][rtt] = json!(event["data"][rtt].as_f64().map(|ms| ms as u64));
            }
        }
        event
    };
    sequence(&head, &events.iter().map(whole).collect::<Vec<_>>(), "\u{1e}")
}

/// picoquic: lists in capitals, microseconds, the size in the header and the type beside it.
fn picoquic(events: &[Value]) -> String {
    let lists = events.iter().map(|event| {
        let at = microseconds(time_ms(event));
        let data = &event["data"];
        let header = &data["header"];
        if name(event) == "metrics_updated" {
            let rtt = |name: &str| data[name].as_f64().map(microseconds);
            let metrics = json!({
                "cwnd": data["congestion_window"],
                "pacing_rate": data["pacing_rate"],
                "bytes_in_flight": data["bytes_in_flight"],
                "smoothed_rtt": rtt("smoothed_rtt"),
                "min_rtt": rtt("min_rtt"),
                "latest_rtt": rtt("latest_rtt"),
            });
            return json!([at, "recovery", "metrics_updated", metrics]);
        }
        let header_with_size = json!({
            "packet_size": data["raw"]["length"],
            "packet_number": header["packet_number"],
        });
        let mut packet = json!({
            "packet_type": header["packet_type"],
            "header": header_with_size,
            "frames": data["frames"],
        });
        pairs(&mut packet["frames"]);
        match name(event) {
            "packet_lost" => {
                packet["packet_number"] = header["packet_number"].clone();
                json!([at, "RECOVERY", "PACKET_LOST", packet])
            }
            other => json!([at, "TRANSPORT", other.to_uppercase(), packet]),
        }
    });
    let trace = json!({
        "vantage_point": { "name": "x", "type": "server" },
        "title": "x",
        "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
        "configuration": { "time_units": "us" },
        "common_fields": { "protocol_type": "QUIC_HTTP3", "reference_time": "1700000000000000" },
        "events": lists.collect::<Vec<_>>(),
    });
    json!({ "qlog_version": "draft-00", "title": "x", "traces": [trace] }).to_string()
}

/// mvfst: lists with times since the host started as strings, other names for frames and metrics,
/// and one event for all packets that are found lost at once.
fn mvfst(events: &[Value]) -> String {
    let mut lists: Vec<Value> = Vec::new();
    let mut lost: Option<(u64, u64, u64)> = None;
    for event in events {
        let at = microseconds(time_ms(event)) + 77_000_000_000;
        let data = &event["data"];
        let number = data["header"]["packet_number"].as_u64();
        if name(event) == "packet_lost" {
            let number = number.expect("a number");
            let before = lost.filter(|lost| lost.0 == at);
            lost = Some((at, number, before.map_or(1, |lost| lost.2 + 1)));
            continue;
        }
        if let Some((at, largest, packets)) = lost.take() {
            let data = json!({
                "largest_lost_packet_num": largest,
                "lost_bytes": 1452 * packets,
                "lost_packets": packets,
            });
            lists.push(json!([at.to_string(), "loss", "packets_lost", data]));
        }
        if name(event) == "metrics_updated" {
            let rtt = |name: &str| data[name].as_f64().map(microseconds);
            let congestion = json!({
                "bytes_in_flight": data["bytes_in_flight"],
                "current_cwnd": data["congestion_window"],
                "congestion_event": "x",
                "state": "x",
                "recovery_state": "",
            });
            let rtts = json!({
                "latest_rtt": rtt("latest_rtt"), "mrtt": rtt("min_rtt"), "srtt": rtt("smoothed_rtt"),
            });
            let at = at.to_string();
            lists.push(json!([at, "metric_update", "congestion_metric_update", congestion]));
            lists.push(json!([at, "metric_update", "metric_update", rtts]));
            continue;
        }
        let mut frames = data["frames"].clone();
        pairs(&mut frames);
        for frame in frames.as_array_mut().into_iter().flatten() {
            match frame["frame_type"].as_str() {
                Some("ack") => frame["frame_type"] = json!("ack_ecn"),
                Some("crypto") => frame["frame_type"] = json!("crypto_frame"),
                _ => {}
            }
        }
        let packet = json!({
            "header": { "packet_size": data["raw"]["length"], "packet_number": number },
            "packet_type": data["header"]["packet_type"],
            "frames": frames,
        });
        lists.push(json!([at.to_string(), "transport", name(event), packet]));
    }
    let trace = json!({
        "vantage_point": { "name": "server", "type": "server" },
        "configuration": { "time_offset": 0, "time_units": "us" },
        "common_fields": { "reference_time": "0", "dcid": "ab", "scid": "cd" },
        "event_fields": ["relative_time", "category", "event", "data"],
        "events": lists,
    });
    json!({ "qlog_version": "draft-00", "summary": {}, "traces": [trace] }).to_string()
}

/// neqo: version 0.3, and acknowledged ranges with both ends also of one packet.
fn neqo(events: &[Value]) -> String {
    let head = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "trace": {
            "vantage_point": { "name": "neqo-Server", "type": "server" },
            "title": "x",
            "description": "x",
            "configuration": { "time_offset": 0.0 },
            "common_fields": { "reference_time": 0.0, "time_format": "relative" },
        },
    });
    let pairs_of = |event: &Value| {
        let mut event = event.clone();
        pairs(&mut event["data"]["frames"]);
        event
    };
    sequence(&head, &events.iter().map(pairs_of).collect::<Vec<_>>(), "\u{1e}")
}

/// quiche with version 0.18 of its qlog crate: the head and the names of the newest draft, both
/// sizes of a packet, and no event of a loss.
fn quiche(events: &[Value]) -> String {
    let head = json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "JSON-SEQ",
        "title": "x",
        "trace": {
            "title": "x",
            "vantage_point": { "type": "server" },
            "common_fields": {
                "reference_time": {
                    "clock_type": "monotonic",
                    "epoch": "unknown",
                    "wall_clock_time": "2024-01-01T00:00:00.000Z",
                },
            },
            "event_schemas": [
                "urn:ietf:params:qlog:events:quic",
                "urn:ietf:params:qlog:events:http3",
            ],
        },
    });
    let kept = events.iter().filter(|event| name(event) != "packet_lost");
    let newest = kept.map(|event| {
        let mut event = event.clone();
        let name = match name(&event) {
            "metrics_updated" => "recovery_metrics_updated",
            name => name,
        };
        event["name"] = json!(format!("quic:{name}"));
        if let Some(length) = event["data"]["raw"]["length"].as_u64() {
            event["data"]["raw"]["payload_length"] = json!(length.saturating_sub(30));
        }
        event
    });
    sequence(&head, &newest.collect::<Vec<_>>(), "\u{1e}")
}

#[test]
fn a_log_without_losses_tells_them_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let [server, _] = logs("bbr3", "loss 1 %", 4, dir.path());
    let of_noq = read(&server);
    let (_, events) = records(&server);
    let events: Vec<Value> = events.iter().filter(|e| is_of_packets(e)).map(as_0_3).collect();
    let [of_neqo, of_quiche] = [neqo(&events), quiche(&events)].map(|text| {
        let file = dir.path().join("other");
        fs::write(&file, text).expect("written");
        read(&file)
    });
    for story in [&of_neqo, &of_quiche] {
        let says = story.text();
        let (a, b) = (&story.figures, &of_noq.figures);
        assert_eq!((a.sent_packets, a.acks), (b.sent_packets, b.acks), "{says}");
        assert!((a.goodput_mbps - b.goodput_mbps).abs() < 0.02, "{says}");
        assert_eq!(story.verdict.looks.kind, of_noq.verdict.looks.kind, "{says}");
        assert_eq!(story.verdict.defects, of_noq.verdict.defects, "{says}");
        let rtt = |story: &Story| story.figures.rtt_ms.as_ref().expect("round trips").p50;
        assert!((rtt(story) - rtt(&of_noq)).abs() < 0.1, "{says}");
    }
    let lost = |story: &Story| story.figures.resent_packets.expect("losses");
    assert_eq!(lost(&of_neqo), lost(&of_noq), "{}", of_neqo.text());
    // Of the last round trip nobody knows yet, and what arrived after all was not lost.
    let (lost, of_noq) = (lost(&of_quiche), lost(&of_noq));
    assert!(lost > 20 && lost.abs_diff(of_noq) <= 3 + of_noq / 20, "{lost} {of_noq}");
    assert!(of_quiche.remarks.join("\n").contains("names no lost packets"), "{}", of_quiche.text());
}

#[test]
fn a_log_tells_the_same_in_the_words_of_other_stacks() {
    let dir = tempfile::tempdir().expect("a directory");
    let [server, _] = logs("bbr3", "loss 1 %", 4, dir.path());
    let of_noq = read(&server);
    let (_, events) = records(&server);
    let events: Vec<Value> = events.iter().filter(|e| is_of_packets(e)).map(as_0_3).collect();
    let lost = |story: &Story| story.figures.resent_packets.expect("losses");
    assert!(lost(&of_noq) > 20, "{}", of_noq.text());
    for (stack, text) in
        [("ngtcp2", ngtcp2(&events)), ("picoquic", picoquic(&events)), ("mvfst", mvfst(&events))]
    {
        let file = dir.path().join(stack);
        fs::write(&file, text).expect("written");
        let story = read(&file);
        let says = format!("{stack}: {}", story.text());
        let (a, b) = (&story.figures, &of_noq.figures);
        assert_eq!((a.sent_packets, a.acks), (b.sent_packets, b.acks), "{says}");
        assert_eq!(lost(&story), lost(&of_noq), "{says}");
        assert!((a.goodput_mbps - b.goodput_mbps).abs() < 0.02, "{says}");
        assert!(matches!(story.verdict.looks.kind, Kind::BbrLike { .. }), "{says}");
        assert!(story.verdict.defects.is_empty(), "{says}");
        let rtt = |story: &Story| story.figures.rtt_ms.as_ref().expect("round trips").p50;
        assert!((rtt(&story) - rtt(&of_noq)).abs() < 1.1, "{says}");
        let inflight = |story: &Story| story.figures.inflight_bytes.as_ref().expect("known").p50;
        assert!((inflight(&story) - inflight(&of_noq)).abs() < 3000.0, "{says}");
        // Packets that share a millisecond did not leave together.
        let is_coarse = stack == "ngtcp2";
        assert_eq!(a.burst_packets.is_none(), is_coarse, "{says}");
        assert_eq!(says.contains("cannot tell: pacing and bursts"), is_coarse, "{says}");
    }
}
