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
    assert_eq!(told(&plain(wrapped)), (Some("ping"), None, Some(1.0), Some(0.0)));
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
            "line 2: answers of two hosts, which are two paths; keep one: grep -E '(^|] )a +: '",
        ),
        (
            "[1.0] a : [0], 64 bytes, 1 ms\n[2.0] a : [4000000000], 64 bytes, 1 ms\n",
            "more than 10000000 rows",
        ),
        ("PING example.net (192.0.2.7) 56(84) bytes of data.\n", "has no answer"),
    ] {
        let error = refused(file);
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// Lines of ping with times, numbers, round-trip times and whatever follows.
fn pings(lines: &[(f64, u32, &str)]) -> String {
    let line = |(at, n, rest): &(f64, u32, &str)| {
        format!("[{:.3}] 64 bytes from 192.0.2.7: icmp_seq={n} ttl=55 {rest}\n", 1.7e9 + at)
    };
    lines.iter().map(line).collect()
}

/// The number of rows, and of those the lost ones.
fn rows_and_losses(file: &str) -> (usize, usize) {
    let trace = plain(file);
    let losses = trace.loss.as_ref().expect("losses").steps();
    let lost = losses.iter().filter(|(_, lost)| *lost == Probability::ONE).count();
    (trace.notes.rows, lost)
}

#[test]
fn numbers_of_ping_go_on_behind_65535_and_begin_anew_with_each_run() {
    // The answer to the last number comes behind that to the first one.
    let wrapped = pings(&[
        (0.0, 65_534, "time=10 ms"),
        (1.0, 0, "time=10 ms"),
        (1.1, 65_535, "time=1100 ms"),
        (2.0, 1, "time=10 ms"),
        (3.0, 2, "time=10 ms"),
    ]);
    assert_eq!(rows_and_losses(&wrapped), (5, 0));
    let run = |at: f64| {
        "PING a (192.0.2.7) 56(84) bytes of data.\n".to_owned()
            + &pings(&[(at, 1, "time=10 ms"), (at + 1.0, 3, "time=10 ms")])
    };
    // Each of three runs lost one, and between two runs nothing was.
    assert_eq!(rows_and_losses(&(run(0.0) + &run(10.0) + &run(20.0))), (9, 3));
    let fping = |at: u32| {
        format!(
            "[{at}.0] a : [0], 64 bytes, 1 ms\n[{}.0] a : [2], 64 bytes, 1 ms\na : xmt/rcv/%loss = 3/2/33%\n",
            at + 2
        )
    };
    assert_eq!(rows_and_losses(&(fping(10) + &fping(20))), (6, 2));
    let error = refused(&pings(&[(0.0, 70_000, "time=10 ms")]));
    assert!(error.contains("line 1: an icmp_seq of 70000"), "{error}");
}

#[test]
fn answers_of_ping_are_those_of_one_host() {
    let answer = |from: &str, n: u32| {
        format!("[170000000{n}.0] 64 bytes from {from}: icmp_seq={n} ttl=55 time=10 ms\n")
    };
    let named = answer("a.example (192.0.2.7)", 1) + &answer("192.0.2.7", 2);
    assert_eq!(rows_and_losses(&named), (2, 0));
    let keep = "keep one: grep -E '[ (]192\\.0\\.2\\.7(\\)|: icmp)'";
    let asked = |host: &str| format!("PING {host} ({host}) 56(84) bytes of data.\n");
    let two = asked("192.0.2.7") + &answer("192.0.2.7", 1) + &asked("192.0.2.8");
    for (file, line) in [(answer("192.0.2.7", 1) + &answer("192.0.2.8", 2), 2), (two, 3)] {
        let error = refused(&file);
        assert!(error.contains(&format!("line {line}: ")) && error.contains(keep), "{error}");
    }
    // A name in a file ends no quotes.
    let odd = refused(&(answer("a';b", 1) + &answer("c", 2)));
    assert!(odd.contains("grep -E '[ (]a?;b("), "{odd}");
}

#[test]
fn numbers_of_ping_may_have_a_comma_and_are_no_losses() {
    let comma = pings(&[(0.0, 1, "time=0,5 ms"), (1.0, 2, "time=12,5 ms"), (2.0, 3, "")]);
    assert_eq!(told(&plain(comma)), (Some("ping"), None, Some(8.5), Some(0.0)));
    let error = refused(&pings(&[(0.0, 1, "time=1.2.3 ms")]));
    assert!(error.contains("line 1: \"1.2.3\" is no number"), "{error}");
    let error = refused("[2023-11-14 22:13:20] a : [0], 64 bytes, 1 ms\n");
    assert!(error.contains("line 1: '2023-11-14 22:13:20' is no time in seconds"), "{error}");
}

#[test]
fn a_packet_is_lost_or_answered_once() {
    let late = pings(&[(0.0, 1, "time=10 ms"), (0.5, 1, "time=510 ms (DUP!)")])
        + "[1700000001.000] no answer yet for icmp_seq=2\n"
        + &pings(&[(1.6, 2, "time=1600 ms"), (2.0, 3, "time=10 ms")]);
    assert_eq!(rows_and_losses(&late), (3, 0));
    let redirect = "[1700000000.0] From 10.0.0.1 icmp_seq=1 Redirect Host(New nexthop: 10.0.0.2)\n"
        .to_owned()
        + &pings(&[(0.1, 1, "time=1 ms"), (1.1, 2, "time=1 ms")]);
    assert_eq!(rows_and_losses(&redirect), (2, 0));
    let told_twice = pings(&[(0.0, 1, "time=1 ms"), (2.0, 3, "time=1 ms")])
        + "[1700000003.0] From 10.0.0.1 icmp_seq=2 Destination Host Unreachable\n";
    assert_eq!(rows_and_losses(&told_twice), (3, 1));
}

#[test]
fn results_of_several_paths_are_refused_with_a_command_that_keeps_one() {
    let result = |measurement: u32, host: &str, at: u32| {
        format!(
            "{{\"prb_id\":1,\"msm_id\":{measurement},\"dst_addr\":\"{host}\",\"timestamp\":{at},\"avg\":9,\"sent\":1,\
             \"rcvd\":1}}"
        )
    };
    let error = refused(&format!("{}\n{}", result(1, "a", 1), result(2, "b", 2)));
    assert!(error.contains("keep one: jq -s '[flatten[] | select(.msm_id == 1)]'"), "{error}");
    let error = refused(&format!("[{},{}]", result(1, "a", 1), result(1, "b", 2)));
    assert!(error.contains("jq -s '[flatten[] | select(.dst_addr == \"a\")]'"), "{error}");
    let error = refused(&format!("[{},{}]", result(1, "a'", 1), result(1, "b", 2)));
    assert!(error.contains("select(.dst_addr == \"a?\")]'"), "{error}");
}

#[test]
fn a_second_run_in_a_log_is_refused() {
    let run = iperf3(&[(0.0, 40.0, false), (1.0, 40.0, false)]);
    let error = refused(&(run.clone() + "\n" + &run));
    assert!(error.starts_with("it is of iperf3 -J, and its times begin again"), "{error}");
    let flent = "{\"x_values\":[0,1],\"results\":{\"TCP upload\":[5,6],\"TCP totals\":[9,9]}}";
    let error = refused(&format!("{flent}\n{flent}"));
    assert!(error.contains("it is of flent, and has several logs"), "{error}");
    assert_eq!(told(&plain(flent)).1, Some(5.5), "an upload");
    let totals = refused("{\"x_values\":[0,1],\"results\":{\"TCP totals\":[9,9]}}");
    assert!(totals.contains("none is known as a rate"), "{totals}");
}

#[test]
fn of_flent_the_named_series_alone_are_written() {
    let series: Vec<String> = (0..2000).map(|i| format!("\"S {i}\":[{i}]")).collect();
    let times = vec!["0"; 40_000].join(",");
    let log = format!("{{\"x_values\":[{times}],\"results\":{{{}}}}}", series.join(","));
    let log: serde_json::Value = serde_json::from_str(&log).expect("JSON");
    let options = |time: &str, rate: &str| TraceOptions {
        columns: Columns { time: Some(time.into()), rate: Some(rate.into()), ..Columns::default() },
        ..TraceOptions::default()
    };
    // By name, and by number behind the times.
    for (time, rate) in [("time_s", "s 7"), ("1", "9")] {
        let table = flent::table(&log, &options(time, rate)).expect("a table");
        assert!(table.text.starts_with("time_s,\"S 7\"\n0,7\n0,\n"), "{rate}");
        assert_eq!(table.options.columns.rate.as_deref(), Some("S 7"));
    }
    let error = flent::table(&log, &options("1", "none")).err().expect("none").to_string();
    assert!(error.contains("has no series 'none'; its series are 'S 0', 'S 1'"), "{error}");
}

#[test]
fn json_of_many_small_values_is_refused_before_they_take_memory() {
    for (value, count) in [("0", 2 << 20), ("{\"\":0}", 1 << 20), ("[[]]", 1 << 20)] {
        let text = format!("{{\"a\":[{}]}}", vec![value; count].join(","));
        let error = refused(&text);
        assert!(error.contains("more than 256 MB of memory"), "{value}: {error}");
    }
    // A log of 20,000 intervals is far from that.
    let intervals: Vec<_> = (0..20_000).map(|i| (f64::from(i), 8.0, false)).collect();
    assert_eq!(told(&plain(iperf3(&intervals))).1, Some(8.0));
}
