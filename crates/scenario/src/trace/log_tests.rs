//! Logs of programs, each as its documentation has it; the values were drawn by hand.

use super::tests::{plain, rate, read};
use super::*;

/// The program, the means of rate and round-trip time, and the mean loss.
fn told(trace: &Trace) -> (Option<&'static str>, Option<f64>, Option<f64>, Option<f64>) {
    let summary = trace.summary();
    let mean = |spread: Option<Spread>| spread.map(|spread| (spread.mean * 1e6).round() / 1e6);
    (trace.notes.program, mean(summary.rate_mbps), mean(summary.rtt_ms), mean(summary.loss))
}

fn refused(file: &str) -> String {
    let error = read(file, &TraceOptions::default()).expect_err(file).to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
    error
}

fn iperf3(intervals: &[(f64, f64, bool)]) -> String {
    let interval = |(start, mbps, omitted): &(f64, f64, bool)| {
        format!(
            "{{\"streams\": [{{\"start\": {start}, \"bits_per_second\": 1, \"rtt\": 45000}}],\n \
             \"sum\": {{\"start\": {start}, \"end\": {}, \"bits_per_second\": {}, \"omitted\": {omitted}}}}}",
            start + 1.0,
            mbps * 1e6
        )
    };
    let intervals: Vec<String> = intervals.iter().map(interval).collect();
    format!(
        "{{\"start\": {{\"version\": \"iperf 3.16\"}},\n\"intervals\": [{}], \"end\": {{}}}}",
        intervals.join(",\n")
    )
}

#[test]
fn iperf3_has_rates_and_round_trip_times() {
    let trace = plain(iperf3(&[(0.0, 90.0, true), (0.0, 40.0, false), (1.0, 48.0, false)]));
    assert_eq!(told(&trace), (Some("iperf3 -J"), Some(44.0), Some(45.0), None));
    assert_eq!(rate(&trace), (vec![(0, 40_000), (1000, 48_000)], Some(2000)));
    let stream = "{\"event\":\"start\",\"data\":{\"version\":\"iperf 3.17\"}}\n\
        {\"event\":\"interval\",\"data\":{\"sum\":{\"start\":0,\"bits_per_second\":8e6,\"lost_percent\":2}}}\n\
        {\"event\":\"interval\",\"data\":{\"sum\":{\"start\":1,\"bits_per_second\":6e6,\"lost_percent\":0}}}\n\
        {\"event\":\"end\",\"data\":{}}\n";
    let program = Some("iperf3 --json-stream");
    assert_eq!(told(&plain(stream)), (program, Some(7.0), None, Some(0.01)));
    let none = refused(&iperf3(&[(0.0, 90.0, true)]));
    assert!(none.contains("of iperf3 -J, and has no rows"), "{none}");
    let cut = refused(&iperf3(&[(0.0, 40.0, false)])[..200]);
    assert!(cut.contains("begins as JSON and is none: EOF") && cut.contains("whole log"), "{cut}");
    let options = TraceOptions { rate_unit: Some(RateUnit::Bytes), ..TraceOptions::default() };
    let error = read(iperf3(&[(0.0, 40.0, false)]), &options).expect_err("two units").to_string();
    assert!(error.starts_with("iperf3 -J as a table: the name of 'bits_per_second'"), "{error}");
}

#[test]
fn irtt_and_ripe_atlas_have_round_trip_times_and_losses() {
    let trip = |ms: u64, lost: &str, rtt: u64| {
        format!(
            "{{\"lost\": \"{lost}\", \"timestamps\": {{\"client\": {{\"send\": {{\"wall\": {}, \
             \"monotonic\": {}}}}}}}, \"delay\": {{\"rtt\": {rtt}}}}}",
            1_700_000_000_000_000_000 + ms * 1_000_000,
            ms * 1_000_000
        )
    };
    let trips =
        [trip(0, "false", 40_000_000), trip(10, "true_down", 9), trip(20, "false", 46_000_000)];
    let irtt =
        format!("{{\"version\": {{\"irtt\": \"0.9.1\"}}, \"round_trips\": [{}]}}", trips.join(","));
    let trace = plain(irtt);
    assert_eq!(told(&trace), (Some("irtt"), None, Some(42.0), Some(0.333_333)));
    assert_eq!(trace.notes.length, Duration::from_millis(30));

    let result = |probe, at, rtt, arrived| {
        format!(
            "{{\"fw\":5080,\"type\":\"ping\",\"prb_id\":{probe},\"timestamp\":{at},\"avg\":{rtt},\"sent\":4,\
             \"rcvd\":{arrived},\"result\":[{{\"rtt\":1}},{{\"x\":\"*\"}}]}}"
        )
    };
    let (late, lost, early) = (
        result(7, 1_700_000_480, "60", 4),
        result(7, 1_700_000_240, "-1", 0),
        result(7, 1_700_000_000, "30", 3),
    );
    let wanted = (Some("RIPE Atlas ping"), None, Some(40.0), Some(0.416_667));
    // As a list, and one a line.
    assert_eq!(told(&plain(format!(" [{late},\n{lost},{early}]"))), wanted);
    assert_eq!(told(&plain(format!("{early}\n{lost}\n{late}\n"))), wanted);
    let two = refused(&format!("[{early},{}]", result(8, 1_700_000_000, "30", 4)));
    assert!(two.contains("differ in prb_id") && two.contains("select(.prb_id == 7)"), "{two}");
}

#[test]
fn tests_of_the_speed_are_read() {
    let row = |kind: &str, origin: &str, us: u64, bytes: u64| {
        format!(
            "{{\"Key\":\"measurement\",\"Value\":{{\"AppInfo\":{{\"ElapsedTime\":{us},\"NumBytes\":{bytes}}},\
             \"Origin\":\"{origin}\",\"Test\":\"{kind}\"}}}}\n"
        )
    };
    let ndt7 = [
        "{\"Key\":\"starting\",\"Value\":{\"Test\":\"download\"}}\n".to_owned(),
        row("download", "client", 250_000, 100_000),
        row("download", "server", 260_000, 999_999),
        row("download", "client", 500_000, 350_000),
        row("download", "client", 750_000, 850_000),
        row("upload", "client", 250_000, 999_999),
    ];
    let trace = plain(ndt7.concat());
    assert_eq!(trace.notes.program, Some("ndt7-client -format json"));
    assert_eq!(rate(&trace).0, [(0, 8000), (500, 16_000)]);
    let tcp = |us: u64, bytes: u64| {
        format!("{{\"TCPInfo\":{{\"ElapsedTime\":{us},\"BytesAcked\":{bytes},\"RTT\":45000}}}}")
    };
    let archive = format!(
        "{{\"Version\":\"v0.5\",\"Download\":{{\"ServerMeasurements\":[{},{}]}}}}",
        tcp(100_000, 0),
        tcp(200_000, 125_000)
    );
    assert_eq!(told(&plain(archive)), (Some("ndt7"), Some(10.0), Some(45.0), None));
    let cli = |hour, mbps: f64| {
        format!(
            "{{\"download\": {}, \"upload\": 1.5, \"ping\": 24.5, \"server\": {{}}, \"timestamp\": \
             \"2024-05-01T0{hour}:00:00.123456Z\"}}\n",
            mbps * 1e6
        )
    };
    let trace = plain(cli(1, 80.5) + &cli(2, 40.5));
    assert_eq!(told(&trace), (Some("speedtest-cli --json"), Some(60.5), Some(24.5), None));
    assert_eq!(trace.notes.length, Duration::from_secs(7200));
    let ookla = "{\"type\":\"result\",\"timestamp\":\"2024-05-01T01:00:00Z\",\"ping\":{\"latency\":9.5},\
        \"download\":{\"bandwidth\":1250000},\"packetLoss\":1}";
    let wanted = (Some("speedtest -f json"), Some(10.0), Some(9.5), Some(0.01));
    assert_eq!(told(&plain(ookla)), wanted);
}

#[test]
fn flents_series_stand_beside_each_other() {
    let flent = |names: [&str; 3]| {
        format!(
            "{{\"metadata\": {{}}, \"version\": 4, \"x_values\": [0.0, 0.2, 0.4], \"results\": {{\n\
             \"{}\": [20.5, null, 40.5], \"{}\": [5, 6, 7], \"{}\": [9, 9, 9]}}}}",
            names[0], names[1], names[2]
        )
    };
    let trace = plain(flent(["Ping (ms) ICMP", "TCP download", "TCP upload"]));
    assert_eq!(told(&trace), (Some("flent"), Some(6.0), Some(27.166_667), None));
    assert_eq!(rate(&trace), (vec![(0, 5000), (200, 6000), (400, 7000)], Some(600)));
    let sum = plain(flent(["Ping (ms) avg", "TCP download sum", "TCP download BE"]));
    assert_eq!(told(&sum).1, Some(6.0));
    let odd = flent(["Raw", "TCP downlaod", "UDP"]);
    let error = refused(&odd);
    assert!(error.contains("'Raw', 'TCP downlaod', 'UDP'"), "{error}");
    let columns =
        Columns { time: Some("time_s".into()), rate: Some("UDP".into()), ..Columns::default() };
    let trace = read(odd, &TraceOptions { columns, ..TraceOptions::default() }).expect("a trace");
    assert_eq!(told(&trace), (Some("flent"), Some(9.0), None, None));
}

#[test]
fn json_of_other_programs_is_refused_with_a_command_that_makes_a_table() {
    for file in ["{}", "{\"a\": [1, 2]}", "[{\"t\": 1, \"r\": 2}]", "\n [\n\n{\"t\": 1}]"] {
        let error = refused(file);
        assert!(error.contains("iperf3 -J, ") && error.contains("jq -r '"), "{error}");
    }
    // With spaces and a byte-order mark in front it is the same log.
    let marked = format!("\u{feff}\n  {}", iperf3(&[(0.0, 40.0, false)]));
    assert_eq!(told(&plain(marked)).0, Some("iperf3 -J"));
}

#[test]
fn the_lines_of_ping_and_fping_have_round_trip_times_and_losses() {
    let ping = "PING example.net (192.0.2.7) 56(84) bytes of data.\n\
        [1700000000.000000] 64 bytes from 192.0.2.7: icmp_seq=1 ttl=55 time=40.5 ms\n\
        [1700000000.200000] 64 bytes from 192.0.2.7: icmp_seq=2 ttl=55 time=42.5 ms\n\
        [1700000000.600000] 64 bytes from 192.0.2.7: icmp_seq=4 ttl=55 time=44.5 ms\n\
        [1700000000.800000] no answer yet for icmp_seq=5\n\
        [1700000001.000000] 64 bytes from 192.0.2.7: icmp_seq=6 ttl=55 time=46.5 ms\n\n\
        --- example.net ping statistics ---\n6 packets transmitted, 4 received, 33% packet loss, time 999ms\n\
        rtt min/avg/max/mdev = 40.5/43.5/46.5/1.000 ms\n";
    let trace = plain(ping);
    assert_eq!(told(&trace), (Some("ping"), None, Some(43.5), Some(0.333_333)));
    let lost = trace.loss.as_ref().expect("losses").steps();
    assert_eq!(lost[1], (Duration::from_millis(400), Probability::ONE), "between its neighbours");
    // Numbers begin again, and a late answer is none that was lost.
    let wrapped: String = [65_534, 65_535, 0, 1, 3, 2, 4]
        .iter()
        .enumerate()
        .map(|(i, n)| {
            format!("[170000000{i}.0] 64 bytes from ::1: icmp_seq={n} ttl=64 time=1 ms\n")
        })
        .collect();
    assert_eq!(plain(wrapped).notes.rows, 7 + 1);
    let fping = "[1700000000.10000] 192.0.2.7 : [0], 64 bytes, 20.5 ms (20.5 avg, 0% loss)\n\
        [1700000001.10000] 192.0.2.7 : [1], timed out (20.5 avg, 50% loss)\n\
        [1700000002.10000] 192.0.2.7 : [2], 64 bytes, 26.5 ms (23.5 avg, 33% loss)\n\n\
        192.0.2.7 : xmt/rcv/%loss = 3/2/33%, min/avg/max = 20.5/23.5/26.5\n";
    assert_eq!(told(&plain(fping)), (Some("fping"), None, Some(22.5), Some(0.333_333)));
    for (file, says) in [
        (
            "64 bytes from ::1: icmp_seq=1 ttl=64 time=1 ms\n",
            "line 1: ping without times; write those with ping -D",
        ),
        ("::1 : [0], 64 bytes, 0.05 ms (0.05 avg, 0% loss)\n", "line 1: fping without times"),
        (
            "[1700000000.1] a : [0], 64 bytes, 1 ms\n[1700000000.2] b : [0], 64 bytes, 1 ms\n",
            "line 2: answers of two hosts, which are two paths; keep one: grep -F 'a :'",
        ),
        (
            "[1.0] 64 bytes from ::1: icmp_seq=1 time=1 ms\n[2.0] 64 bytes from ::1: icmp_seq=4000000000 time=1 ms\n",
            "more than 10000000 rows",
        ),
        ("PING example.net (192.0.2.7) 56(84) bytes of data.\n", "has no answer"),
    ] {
        let error = refused(file);
        assert!(error.contains(says), "{says}: {error}");
    }
}
