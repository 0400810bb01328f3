//! Units, times and columns that a file does not say or says in a way of its own.

use super::tests::{plain, rate, read};
use super::*;

/// Means of the rate in Mbit/s and of the round-trip time in milliseconds.
fn means(trace: &Trace) -> (Option<f64>, Option<f64>) {
    let summary = trace.summary();
    let mean = |spread: Option<Spread>| spread.map(|spread| (spread.mean * 1e6).round() / 1e6);
    (mean(summary.rate_mbps), mean(summary.rtt_ms))
}

fn refused(file: &str, options: &TraceOptions) -> String {
    let error = read(file, options).expect_err(file).to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
    error
}

#[test]
fn values_that_no_link_has_are_refused_with_the_units_that_would_fit() {
    let usual = TraceOptions::default();
    let error = refused("time,speed\n0,5\n1,79522889.5\n", &usual);
    for part in [
        "line 3: 79522889.5 Mbit/s in column 'speed' is a rate of more than 1 Tbit/s",
        "bit/s, kbit/s, B/s, kB/s",
        "rate_unit = \"bit/s\"",
        "--rate-unit bit/s",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = refused("time,rtt\n0,61000\n", &usual);
    for part in ["61000 ms in column 'rtt'", "may be us, ns", "--rtt-unit us"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // A name that says its unit is not contradicted.
    let error = refused("time,rtt_s\n0,61\n", &usual);
    assert!(error.contains("may be ms, us, ns: write that in its name"), "{error}");
    let error = refused("time,bps\n0,2e12\n", &usual);
    assert!(error.contains("in every other unit too"), "{error}");
    let error = refused("time,lost\n0,1.5\n", &usual);
    assert!(error.contains("in column 'lost'") && error.contains("loss_percent"), "{error}");
    let fastest = means(&plain("time,gbps\n0,1000\n1,1000\n"));
    assert_eq!(fastest.0, Some(1e6));
    assert_eq!(means(&plain("time,rtt_s\n0,60\n1,60\n")).1, Some(60_000.0));
}

#[test]
fn an_option_says_the_units_that_the_names_do_not() {
    for (unit, mbps) in RateUnit::ALL.into_iter().zip([8e-6, 8e-3, 8.0, 8e3, 64e-6, 64e-3, 64.0]) {
        let options = TraceOptions { rate_unit: Some(unit), ..TraceOptions::default() };
        let trace = read("time,rate\n0,8\n1,8\n", &options).expect("a trace");
        assert_eq!(means(&trace).0, Some(mbps), "{unit:?}");
        let named = refused("time,rate (MiB/s)\n0,8\n", &options);
        assert!(named.contains("leave out rate_unit"), "{named}");
    }
    for (unit, ms) in TimeUnit::ALL.into_iter().zip([8e3, 8.0, 8e-3, 8e-6]) {
        let options = TraceOptions { rtt_unit: Some(unit), ..TraceOptions::default() };
        let trace = read("time,rtt\n0,8\n1,8\n", &options).expect("a trace");
        assert_eq!(means(&trace).1, Some(ms), "{unit:?}");
        assert!(refused("time,mbps\n0,8\n", &options).contains("leave out rtt_unit"));
    }
    let micros = Some(TimeUnit::Micros);
    let options = TraceOptions { time_unit: micros, ..TraceOptions::default() };
    assert!(refused("time_ms,mbps\n0,8\n", &options).contains("leave out time_unit"));
}

#[test]
fn bytes_since_the_row_before_are_a_rate_up_to_their_row() {
    let options =
        TraceOptions { rate_unit: Some(RateUnit::BytesPerRow), ..TraceOptions::default() };
    let trace = read("time,bytes\n10,1000\n11,2000\n13,8000\n14,500\n", &options).expect("one");
    // The row at 10 s is taken to be as long as most are.
    assert_eq!(rate(&trace), (vec![(0, 8), (1000, 16), (2000, 32), (4000, 4)], Some(5000)));
    // Two rows at one time have one sum, and a row without bytes is no row of zero bytes.
    let trace = read("time,bytes\n1,1000\n2,1000\n2,3000\n3,\n4,0\n", &options).expect("one");
    assert_eq!(rate(&trace).0, [(0, 8), (1000, 32), (3000, 0)]);
    let interval = TraceOptions { interval: Some(Duration::from_millis(10)), ..options.clone() };
    assert_eq!(rate(&read("1000.5\n2000\n", &interval).expect("one")).0, [(0, 800), (10, 1600)]);
    assert!(refused("time,bytes\n1,5\n", &options).contains("how long a row is"));
    assert!(refused("time_ns,bytes\n1,500\n2,500\n", &options).contains("more than 1 Tbit/s"));
    let error = refused(
        "time,bytes_acked,rtt\n1,5,1\n",
        &TraceOptions {
            columns: Columns {
                time: Some("time".into()),
                rate: Some("bytes_acked".into()),
                ..Columns::default()
            },
            ..TraceOptions::default()
        },
    );
    assert!(error.contains("rate_unit = \"B/s\" or \"B/row\""), "{error}");
}

#[test]
fn times_are_read_as_they_are_written() {
    let table = |times: [&str; 3]| {
        let rows: String = times.iter().zip(1..).map(|(at, r)| format!("{at},{r}\n")).collect();
        format!("time,mbps\n{rows}")
    };
    let starts = |times, options: &TraceOptions| {
        let trace = read(table(times), options).unwrap_or_else(|e| panic!("{times:?}: {e}"));
        rate(&trace).0.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    let usual = TraceOptions::default();
    let by = |format: &str| TraceOptions { time_format: Some(format.to_owned()), ..usual.clone() };
    for (times, options) in [
        (["2019.11.25_15.34.34", "2019.11.25_15.34.35", "2019.11.25_15.34.37"], &usual),
        (["12:59:59", "13:00:00.000", "13:00:02"], &usual),
        // At midnight a time of day goes on.
        (["23:59:59", "00:00:00", "00:00:02"], &usual),
        (["2019-12-31-23:59:59", "2020-01-01-00:00:00", "2020-01-01-00:00:02"], &usual),
        (
            ["11/25/2019 11:59:59 AM", "11/25/2019 12:00:00 PM", "11/25/2019 12:00:02 PM"],
            &by("%m/%d/%Y %I:%M:%S %p"),
        ),
        (["20191231235959", "20200101000000", "20200101000002"], &by("%Y%m%d%H%M%S")),
    ] {
        assert_eq!(starts(times, options), [0, 1000, 3000], "{times:?}");
    }
    let days = starts(["20:00:00", "01:00:00", "20:00:00"], &usual);
    assert_eq!(days, [0, 5 * 3_600_000, 24 * 3_600_000], "a gap in the day is no midnight");
    for (times, options, says) in [
        (
            ["11/25/2019 03:34 PM", "", ""],
            &usual,
            "line 2: \"11/25/2019 03:34 PM\" may be one of several times",
        ),
        (["11/25/2019 03:34 PM", "", ""], &usual, "--time-format '%m/%d/%Y %I:%M %p', in a table"),
        (["01/02/2019 03:34", "", ""], &usual, "'%m/%d/%Y %H:%M' or '%d/%m/%Y %H:%M'"),
        (["next", "", ""], &usual, "or say how they are written, time_format"),
        (["12:00:01", "12:00:00", ""], &usual, "line 3: its time is before"),
        (["12:00:01", "5", ""], &usual, "line 3: 5 is a number, and the times above are none"),
        (["12:00:01", "2019-11-25T12:00:02", ""], &usual, "line 3: its time is written in another"),
        (["12:00", "", ""], &by("%d.%m.%Y"), "line 2: \"12:00\" is not as time_format = \"%d"),
        (["12:00", "", ""], &by("%Q"), "time_format: '%Q' is no format"),
    ] {
        let error = refused(&table(times), options);
        assert!(error.contains(says), "{says}: {error}");
    }
    let both = TraceOptions { time_unit: Some(TimeUnit::Millis), ..by("%Y") };
    assert!(refused(&table(["1", "2", "3"]), &both).contains("leave out time_unit"));
    let interval = TraceOptions { interval: Some(Duration::from_millis(1)), ..by("%Y") };
    assert!(refused("mbps\n1\n", &interval).contains("leave out time_format"));
}

#[test]
fn tables_of_known_programs_are_read_in_their_units() {
    for (program, file, wanted, columns) in [
        (
            "Puffer",
            "time (ns GMT),session_id,video_ts,cwnd,in_flight,min_rtt,rtt,delivery_rate\n\
             1700000000000000000,a=,1,30,4,38000,45000,2000000\n\
             1700000002000000000,a=,2,30,4,38000,55000,1000000\n",
            (Some(12.0), Some(50.0)),
            "time (ns GMT) (time, ns), delivery_rate (rate, B/s), rtt (rtt, us)",
        ),
        (
            "G-NetTrack",
            "Timestamp,Speed,DL_bitrate,UL_bitrate,State,PINGAVG,PINGMIN,PINGLOSS\n\
             2019.12.16_13.40.00,0,30000,626,D,38,-,-\n2019.12.16_13.40.01,0,50000,1,D,-,-,-\n",
            (Some(40.0), Some(38.0)),
            "Timestamp (time, date), DL_bitrate (rate, kbit/s), PINGAVG (rtt, ms)",
        ),
        (
            "G-NetTrack without pings",
            "Timestamp,Speed,DL_bitrate,PINGAVG\n2019.12.16_13.40.00,0,30000,-\n",
            (Some(30.0), None),
            "Timestamp (time, date), DL_bitrate (rate, kbit/s)",
        ),
        (
            "speedtest-cli",
            "Server ID,Sponsor,Server Name,Timestamp,Distance,Ping,Download,Upload,Share\n\
             1,X,Y,2024-05-01T00:00:00.123456Z,10.1,24,80000000.5,9151080.5,\n\
             1,X,Y,2024-05-01T01:00:00.123456Z,10.1,26,40000000.5,9151080.5,\n",
            (Some(60.0), Some(25.0)),
            "Timestamp (time, date), Download (rate, bit/s), Ping (rtt, ms)",
        ),
        (
            "cake-autorate",
            "INFO; 2025-01-16-23:08:59; 1737061739.0; started\n\
             LOAD_HEADER; LOG_DATETIME; LOG_TIMESTAMP; CAKE_DL_RATE_KBPS\n\
             DATA_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; CAKE_DL_RATE_KBPS\n\
             DATA; 2025-01-16-23:09:00; 1737061740.000000; 1737061740.0; 8922; 20000\n\
             LOAD; 2025-01-16-23:09:00; 1737061740.100000; 9000\n\
             DATA; 2025-01-16-23:09:01; 1737061741.000000; 1737061741.0; 8922; 30000\n",
            (Some(25.0), None),
            "LOG_TIMESTAMP (time, s), CAKE_DL_RATE_KBPS (rate, kbit/s)",
        ),
    ] {
        let trace = plain(file);
        assert_eq!(means(&trace), wanted, "{program}");
        assert_eq!(trace.notes.columns.join(", "), columns, "{program}");
        assert_eq!(trace.notes.other_rows, usize::from(program == "cake-autorate"), "{program}");
    }
    // What the options name has its unit as well, and the options come first.
    let file = "Timestamp,DL_bitrate,UL_bitrate\n0,1,4000\n1,1,4000\n";
    let up = Columns {
        time: Some("Timestamp".into()),
        rate: Some("UL_bitrate".into()),
        ..Columns::default()
    };
    let options = TraceOptions { columns: up, ..TraceOptions::default() };
    assert_eq!(means(&read(file, &options).expect("one")).0, Some(4.0));
    let options = TraceOptions { rate_unit: Some(RateUnit::Bytes), ..options };
    assert_eq!(means(&read(file, &options).expect("one")).0, Some(0.032));
}

#[test]
fn of_several_columns_the_value_itself_is_taken_and_else_all_are_named() {
    let trace =
        plain("time (ns),video_ts,min_rtt,rtt,rtt_var\n0,1,20,40,9\n1000000000,2,20,42,9\n");
    assert_eq!(means(&trace), (None, Some(41.0)));
    let error =
        refused("PROC_TIME,ACHIEVED_KBPS,SHAPER_KBPS,rtt\n0,1,2,3\n", &TraceOptions::default());
    let says = "'ACHIEVED_KBPS' and 'SHAPER_KBPS' could both be the rate; write columns = { time = \"PROC_TIME\", \
                rate = \"ACHIEVED_KBPS\", rtt = \"rtt\" }, or another of them";
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_unit_that_a_name_has_is_never_passed_over() {
    let read = |file: &str| read(file, &TraceOptions::default()).expect(file);
    for (name, ms) in [
        ("rtt_usecs", 25.0),
        ("rtt (microsecond)", 25.0),
        ("rtt_nanosecond", 0.025),
        ("rtt_msecs", 25_000.0),
        ("rtt_min", 25_000.0),
    ] {
        let rtt = means(&read(&format!("time,{name}\n0,25000\n1,25000\n"))).1;
        assert_eq!(rtt, Some(ms), "{name}");
    }
    for (name, mbps) in
        [("throughput_kilobits", 5.0), ("rate (megabits)", 5000.0), ("rate (Mib/s)", 5242.88)]
    {
        assert_eq!(means(&read(&format!("time,{name}\n0,5000\n1,5000\n"))).0, Some(mbps), "{name}");
    }
    for (name, seconds) in
        [("elapsed_minutes", 60), ("time (min)", 60), ("time_h", 3600), ("elapsed days", 86_400)]
    {
        let trace = read(&format!("{name},mbps\n0,5\n1,6\n"));
        assert_eq!(trace.notes.length, Duration::from_secs(2 * seconds), "{name}");
    }
    let usual = TraceOptions::default();
    for name in
        ["throughput_kb", "rate_MB", "rate_gib", "rate_pps", "throughput_mibps", "packet rate"]
    {
        let error = refused(&format!("time,{name},rtt\n0,5,20\n"), &usual);
        assert!(error.contains(&format!("the unit of '{name}' is not known")), "{error}");
    }
    // Counts of packets, deviations and the speed of a vehicle are none of the values.
    for name in [
        "lost_packets",
        "packets lost",
        "loss_rate_pps",
        "rtt_ms_std",
        "jitter_latency",
        "delay_var",
    ] {
        let trace = read(&format!("time,mbps,{name}\n0,5,0\n1,5,1\n"));
        assert_eq!(trace.notes.unused, [name]);
    }
    for name in ["packet_loss", "lost_packets_ratio", "loss_rate"] {
        assert!(read(&format!("time,mbps,{name}\n0,5,0\n1,5,1\n")).loss.is_some(), "{name}");
    }
    let trace = read("time,lat,lon,speed,rtt_ms\n0,5,0,50,20\n1,6,1,60,20\n");
    assert_eq!(means(&trace), (None, Some(20.0)));
    let trace = read("time,lat,lon,download speed\n0,5,0,50\n1,6,1,50\n");
    assert_eq!(means(&trace).0, Some(50.0));
}

#[test]
fn a_delay_counts_twice_where_units_are_said_that_fit() {
    let error = refused("time,delay\n0,45000\n", &TraceOptions::default());
    for part in ["a delay of more than half a minute", "may be us, ns: write rtt_unit = \"us\""] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn sessions_of_puffer_are_several_paths() {
    let file = "time (ns GMT),session_id,in_flight,min_rtt,rtt,delivery_rate\n\
        1700000000000000000,A,4,5000,6000,1000000\n1700000001000000000,B,4,5000,6000,1000000\n";
    let error = refused(file, &TraceOptions::default());
    let says = "line 3: its session_id differs from that of the rows above, so that it is of another path; keep one: \
                awk -F ',' 'NR == 1 || $2 == \"A\"'";
    assert!(error.contains(says), "{error}");
}
