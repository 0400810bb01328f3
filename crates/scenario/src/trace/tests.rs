//! Formats, one after the other. What is in the files was drawn by hand.

use std::io::{Cursor, Write};

use fullpipe_cc::Rate;

use super::*;

pub(super) fn read(
    file: impl Into<Vec<u8>>,
    options: &TraceOptions,
) -> Result<Trace, TraceFileError> {
    let (mut lines, compression) = Lines::of(Cursor::new(file.into()))?;
    let mut trace = Trace::read(&mut lines, options)?;
    trace.notes.compression = compression;
    Ok(trace)
}

pub(super) fn plain(file: impl Into<Vec<u8>>) -> Trace {
    read(file, &TraceOptions::default()).expect("a trace")
}

/// Milliseconds and kbit/s of the rate, and its period.
pub(super) fn rate(trace: &Trace) -> (Vec<(u64, u64)>, Option<u64>) {
    let Some(RateConfig::Series(series)) = &trace.rate else { panic!("no series of rates") };
    let step =
        |(at, rate): &(Duration, Rate)| (at.as_nanos() / 1_000_000, rate.as_bits_per_sec() / 1_000);
    let period = series.period().map(|p| p.as_nanos() / 1_000_000);
    (series.steps().iter().map(step).collect(), period)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("it is in memory");
    encoder.finish().expect("it is in memory")
}

fn zstd(text: &str) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(text.as_bytes(), level)
}

const ROWS: [(&str, &str); 4] =
    [("0.0", "1.463"), ("0.5", "1.556"), ("1.0", "0"), ("1.5", "7.008")];

fn rows(separator: &str, end: &str) -> String {
    ROWS.iter().map(|(time, rate)| format!("{time}{separator}{rate}{end}")).collect()
}

#[test]
fn a_table_is_the_same_in_every_dress() {
    let wanted = (vec![(0, 1463), (500, 1556), (1000, 0), (1500, 7008)], Some(2000));
    let csv = format!("time_s,rate_mbps\n{}", rows(",", "\n"));
    let epoch = |unit: f64, digits: usize| {
        let row = |(time, rate): &(&str, &str)| {
            let seconds = 1_577_836_800.0 + time.parse::<f64>().expect("a number");
            format!("{:.digits$},{rate}\n", seconds * unit)
        };
        format!("timestamp,mbps\n{}", ROWS.iter().map(row).collect::<String>())
    };
    let dates = "time,Mbit/s\n2020-01-01T00:00:00Z,1.463\n2020-01-01T00:00:00.500Z,1.556\n\
                 2020-01-01T00:00:01Z,0\n2020-01-01T00:00:01.5Z,7.008\n";
    let both = [gzip(&csv[..30]), gzip(&csv[30..])].concat();
    let frames = [zstd(&csv[..30]), zstd(&csv[30..])].concat();
    // An index of what is packed, as programs that do it in parallel write it.
    let skipped: &[u8] = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
    let empty: &[u8] = b"\x50\x2a\x4d\x18\0\0\0\0";
    let with_skipped = [skipped, &zstd(&csv[..30]), empty, skipped, &zstd(&csv[30..]), skipped];
    let swapped = ROWS.iter().map(|(time, rate)| format!("{rate} 7 {time}\n")).collect::<String>();
    let summer = "time,mbps\n2024-10-27T02:59:59.5+02:00,1.463\n2024-10-27T02:00:00+01:00,1.556\n\
                  2024-10-27T01:00:00.5Z,0\n2024-10-27T02:00:01+0100,7.008\n";
    let dresses: Vec<(&str, Vec<u8>)> = vec![
        ("plain", csv.clone().into()),
        (
            "BOM and CR LF",
            format!("\u{feff}Time,Throughput (Mbps)\r\n{}", rows(",", "\r\n")).into(),
        ),
        ("CR alone", format!("time,mbps\r{}", rows(",", "\r")).into()),
        ("no end of the last line", csv.trim_end().to_owned().into()),
        (
            "comments and empty lines",
            format!("# by hand\n\ntime,mbps\n#\n{}\n\n", rows(",", "\n")).into(),
        ),
        ("two columns, as Pensieve's and Norway's", rows("\t", "\n").into()),
        ("semicolons", format!("t;bw\n{}", rows(";", "\n")).into()),
        ("spaces", rows("   ", "\n").into()),
        (
            "quotes",
            format!(
                "\"time\",\"mbps\"\n{}",
                rows("\",\"", "\"\n")
                    .replace("0.0\"", "\"0.0\"")
                    .replace("\n0.5", "\n\"0.5")
                    .replace("\n1.", "\n\"1.")
            )
            .into(),
        ),
        ("seconds since 1970", epoch(1.0, 1).into()),
        ("milliseconds since 1970", epoch(1e3, 0).into()),
        ("microseconds since 1970", epoch(1e6, 0).into()),
        ("nanoseconds since 1970", epoch(1e9, 0).into()),
        ("dates", dates.into()),
        ("gzip", gzip(&csv)),
        ("two members of gzip", both),
        ("zstd", zstd(&csv)),
        ("two frames of zstd", frames),
        ("frames of zstd that hold nothing", with_skipped.concat()),
        ("names behind #", format!("# by hand, today\n#rate_mbps n time_s\n{swapped}").into()),
        ("a comment that names nothing", format!("# measured, today\n{}", rows(",", "\n")).into()),
        ("the end of summer time", summer.into()),
    ];
    for (name, file) in dresses {
        let trace = read(file, &TraceOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(rate(&trace), wanted, "{name}");
        assert!(trace.rtt.is_none() && trace.loss.is_none(), "{name}");
        assert_eq!(trace.notes.rows, 4, "{name}");
    }
}

#[test]
fn a_header_says_the_units() {
    let first = |header: &str, row: &str| {
        let trace = plain(format!("{header}\n0,{row}\n1,{row}\n"));
        let of =
            |series: &Option<Series<Duration>>| series.as_ref().map(|s| s.steps()[0].1.as_nanos());
        let loss = trace.loss.as_ref().map(|s| (s.steps()[0].1.as_f64() * 1e6).round());
        let kbps = trace.rate.as_ref().map(|r| r.nominal().as_bits_per_sec() / 1000);
        (kbps, of(&trace.rtt), loss)
    };
    for (header, row, wanted) in [
        ("time,kbps", "2000", (Some(2000), None, None)),
        ("time,throughput_bps", "2000", (Some(2), None, None)),
        ("time,Bandwidth (Gbit/s)", "0.5", (Some(500_000), None, None)),
        ("time,rate [kB/s]", "10", (Some(80), None, None)),
        ("time,MBps", "1", (Some(8000), None, None)),
        ("time,rtt_us", "31914", (None, Some(31_914_000), None)),
        ("time,ping (ms)", "40.5", (None, Some(40_500_000), None)),
        ("time,latency", "40", (None, Some(40_000_000), None)),
        ("time,rtt_s", "0.6", (None, Some(600_000_000), None)),
        ("time,loss", "0.02", (None, None, Some(20_000.0))),
        ("time,loss_percent", "2", (None, None, Some(20_000.0))),
        ("time,loss_rate (%)", "2", (None, None, Some(20_000.0))),
        ("time,lost", "1", (None, None, Some(1e6))),
    ] {
        assert_eq!(first(header, row), wanted, "{header}");
    }
    let steps = |header: &str| rate(&plain(format!("{header}\n0,1\n20,2\n"))).1;
    let periods = ["t,mbps", "time_ms,mbps", "ms,mbps", "time (us),mbps"].map(steps);
    assert_eq!(periods, [Some(40_000), Some(40), Some(40), Some(0)]);
}

#[test]
fn a_table_may_have_a_rate_an_rtt_and_a_loss() {
    let trace = plain("time,mbps,rtt_ms,loss\n0,14.63,40.45,0.02\n1,0,42.5,0\n2,70,40,0\n");
    assert_eq!(rate(&trace), (vec![(0, 14_630), (1000, 0), (2000, 70_000)], Some(3000)));
    let rtt = trace.rtt.as_ref().expect("an RTT");
    assert_eq!(rtt.steps().len(), 3);
    assert_eq!(rtt.steps()[1], (Duration::from_secs(1), Duration::from_micros(42_500)));
    let loss = trace.loss.as_ref().expect("a loss").steps();
    assert_eq!((loss.len(), loss[1].1), (2, Probability::ZERO), "equal values are one step");
    // Without a header they stand in this order.
    let bare = plain("0 14.63 40.45 0.02\n1 0 42.5 0\n2 70 40 0\n");
    assert_eq!((&bare.rate, &bare.rtt, &bare.loss), (&trace.rate, &trace.rtt, &trace.loss));
    // Of two directions the one down is taken.
    let starlink = plain("timestamp,upload_mbps,download_mbps,ping_ms\n0,9,100,40\n1,9,50,41\n");
    assert_eq!(rate(&starlink).0, [(0, 100_000), (1000, 50_000)]);
    assert_eq!(starlink.notes.unused, ["upload_mbps"]);
}

#[test]
fn options_say_what_the_file_does_not() {
    let columns = |time: Option<&str>, rate: Option<&str>, rtt: Option<&str>| Columns {
        time: time.map(str::to_owned),
        rate: rate.map(str::to_owned),
        rtt: rtt.map(str::to_owned),
        ..Columns::default()
    };
    let interval = Some(Duration::from_millis(10));
    let options = TraceOptions { interval, ..TraceOptions::default() };
    let irtt = read("seq,rtt_us,lost\n0,31914,0\n1,31217,1\n2,31786,0\n", &options).expect("RTTs");
    let rtt = irtt.rtt.expect("RTTs");
    assert_eq!(rtt.steps()[2].0, Duration::from_millis(20));
    assert_eq!(rtt.period(), Some(Duration::from_millis(30)));
    assert_eq!(irtt.loss.expect("losses").steps()[1].1, Probability::ONE);
    assert_eq!((irtt.rate, irtt.notes.unused), (None, vec!["seq".to_owned()]));
    let one = read("5\n7\n", &options).expect("rates");
    assert_eq!(rate(&one), (vec![(0, 5000), (10, 7000)], Some(20)));

    let file = "a,b,c\n0,1,40\n100,2,41\n";
    let named = TraceOptions {
        columns: columns(Some("a"), Some("2"), None),
        time_unit: Some(TimeUnit::Millis),
        repeat: Some(false),
        ..TraceOptions::default()
    };
    let trace = read(file, &named).expect("a trace");
    assert_eq!(rate(&trace), (vec![(0, 1000), (100, 2000)], None));
    let rtt = TraceOptions { columns: columns(Some("a"), None, Some("c")), ..named };
    let trace = read(file, &rtt).expect("a trace");
    assert!(trace.rate.is_none() && trace.rtt.is_some());
}

#[test]
fn between_two_rows_a_rate_may_change_evenly() {
    let linear = TraceOptions {
        interpolation: Some(Interpolation::Linear),
        repeat: Some(false),
        ..TraceOptions::default()
    };
    let trace = read("time_ms,kbps\n0,1000\n40,3000\n60,3000\n", &linear).expect("a trace");
    assert_eq!(rate(&trace).0, [(0, 1250), (10, 1750), (20, 2250), (30, 2750), (40, 3000)]);
    // Never more than a hundred steps, and the area is that of the line.
    let trace = read("0 0\n3600 8\n", &linear).expect("a trace");
    assert_eq!(rate(&trace).0.len(), 101);
    let bytes = trace.rate.expect("a rate");
    let bytes = bytes.bytes_between(Duration::ZERO, Duration::from_secs(3600));
    assert!(bytes.abs_diff(3600 * 500_000) < 3600, "{bytes}");
}

#[test]
fn what_is_missing_holds_from_the_row_before_and_is_counted() {
    let trace = plain("time,mbps\n0,\n1,5\n2,nan\n2,6\n3,-\n30,7\n31,8\n");
    assert_eq!(
        rate(&trace),
        (vec![(0, 5000), (2000, 6000), (30_000, 7000), (31_000, 8000)], Some(32_000))
    );
    let notes = &trace.notes;
    assert_eq!((notes.rows, notes.missing_cells, notes.repeated_times), (6, 3, 1));
    assert_eq!(notes.gaps, Gaps { count: 1, longest: Duration::from_secs(27) });
}

#[test]
fn mahimahis_format_is_as_it_was() {
    let trace = plain("# two at once\n2\n2\n\n5\n");
    assert_eq!(trace.rate, Some(RateConfig::mahimahi("2\n2\n5\n").expect("a trace")));
    assert_eq!(
        plain(gzip("1\r2\r3\r")).rate,
        Some(RateConfig::mahimahi("1\n2\n3\n").expect("one"))
    );
    assert!(trace.notes.is_mahimahi);
}

#[test]
fn what_is_no_trace_is_told_in_one_line_with_what_to_write() {
    let usual = TraceOptions::default();
    let once = TraceOptions { repeat: Some(false), ..usual.clone() };
    let linear = TraceOptions { interpolation: Some(Interpolation::Linear), ..usual.clone() };
    let interval = |ms| TraceOptions { interval: Some(Duration::from_millis(ms)), ..usual.clone() };
    let named = |time: &str, rate: &str| {
        let columns = Columns {
            time: Some(time.to_owned()),
            rate: Some(rate.to_owned()),
            ..Columns::default()
        };
        TraceOptions { columns, ..usual.clone() }
    };
    let (no_time, no_column, no_number) = (interval(0), named("a", "c"), named("1", "3"));
    let cases: Vec<(&[u8], &TraceOptions, &str)> = vec![
        (b"", &usual, "the trace is empty; write a time a line"),
        (b"# nothing\n", &usual, "the trace is empty; write a time a line"),
        (b"time,mbps\n", &usual, "no rows; write a row of numbers a line"),
        (b"1\n2\nx\n", &usual, "line 3: \"x\" is no time: give whole milliseconds"),
        (b"1\n\x1b[31mred\n", &usual, "line 2: \"\\u{1b}[31mred\" is no time"),
        (b"5\n4\n", &usual, "line 2: 4 ms is before the line above"),
        (b"1\n2\n", &once, "leave out repeat"),
        (b"1\n2\n", &linear, "leave out interpolation"),
        (b"1.5\n2.5\n", &usual, "write interval = \"100ms\""),
        (b"seq,rtt_us,lost\n0,1,0\n", &usual, "or interval = \"10ms\" for a row each 10 ms"),
        (b"a,b\n0,1\n", &usual, "they are 'a', 'b'; write columns = {"),
        (b"time,mbps,bw\n0,1,2\n", &usual, "'mbps' and 'bw' could both be the rate"),
        (b"1,2,3,4,5\n", &usual, "5 columns without names; write columns = { time = 1, rate = 2 }"),
        (b"time,mbps\n0,1\n0.5,\x1b[2J\n", &usual, "line 3: \"\\u{1b}[2J\" is no number"),
        (b"time,mbps\n0,1\nx,1\n", &usual, "line 3: \"x\" is no time"),
        (b"time,mbps\n1,1\n0,1\n", &usual, "line 3: its time is before"),
        (b"time,mbps\n0,1\n2,1\n1,1\n", &usual, "line 4: its time is before that of the row above"),
        (b"time,mbps\n0,-1\n", &usual, "line 2: a rate of -1 is below 0"),
        (b"time,mbps\n0,inf\n", &usual, "line 2: \"inf\" is no number"),
        (b"time,loss\n0,2\n", &usual, "call the column loss_percent"),
        (b"time,rtt_ms\n0,100000\n", &usual, "more than a minute"),
        (b"time,mbps\n0,0\n1,0\n", &usual, "every rate is 0"),
        (b"time,mbps\n0,1\n1,0\n", &once, "the last rate is 0 and would hold for ever"),
        (b"time,mbps\n0,\n", &usual, "no row has a value in the column of the rate"),
        (b"time,mbps\n0,1\n", &no_time, "an interval of 0"),
        (b"a,b\n0,1\n", &no_column, "columns.rate: there is no 'c'; the columns are 'a', 'b'"),
        (b"0,1\n", &no_number, "columns.rate: there is no '3'"),
        (b"\xff\xfet\0i\0", &usual, "UTF-16"),
        (b"PK\x03\x04rest", &usual, "a spreadsheet"),
        (b"\x0a\x0d\x0d\x0arest", &usual, "a capture of packets"),
        (b"1\n2\0\n", &usual, "line 2: it is no text"),
        (b"\x1f\x8bno gzip", &usual, "cannot be read"),
        (b"\x28\xb5\x2f\xfdno zstd", &usual, "cannot be read"),
        (b"\x5a\x2a\x4d\x18\xff\xff\xff\xffshort", &usual, "cannot be read"),
        (b"\x5a\x2a\x4d\x18\x01\0\0\0x", &usual, "the trace is empty"),
    ];
    for (file, options, says) in cases {
        let name = String::from_utf8_lossy(file).into_owned();
        let error = read(file, options).expect_err(&name).to_string();
        assert!(error.contains(says), "{name:?} should tell {says:?}: {error}");
        assert!(!error.contains(char::is_control), "{name:?}: {error:?}");
    }
    let long = format!("time,mbps\n0,{}\n", "1".repeat(70_000));
    let error = read(long, &usual).expect_err("a long line").to_string();
    assert!(error.starts_with("line 2: longer than 65536 bytes"), "{error}");
}

#[test]
fn a_summary_weighs_values_with_their_time() {
    let s = plain("time,mbps,rtt_ms\n0,10,40\n1,0,50\n3,20,40\n4,20,40\n").summary();
    let rate = s.rate_mbps.expect("a rate");
    assert_eq!((s.rows, s.duration_s, s.step_s), (4, 5.0, Some(1.0)));
    assert_eq!((rate.mean, rate.min, rate.p50, rate.max), (10.0, 0.0, 10.0, 20.0));
    assert_eq!(s.outage_share, Some(0.4));
    assert_eq!(s.rtt_ms.expect("RTTs").mean, 44.0);
    let means = s.rate_course_mbps.expect("means over time");
    assert_eq!((means.len(), means[0], means[20], means[63]), (64, 10.0, 0.0, 20.0));
    let mahimahi = plain("1\n1\n").summary();
    assert_eq!(mahimahi.rate_mbps.expect("a rate").mean, 24.0);
    let single = plain("time,mbps\n0,5\n").summary();
    assert_eq!((single.repeats, single.rate_mbps.map(|r| r.mean)), (false, Some(5.0)));
}

#[test]
fn a_trace_is_written_in_either_format_and_read_again() {
    let written = |trace: &Trace, to_csv: bool| {
        let mut out = Vec::new();
        let result =
            if to_csv { trace.write_csv(&mut out) } else { trace.write_mahimahi(&mut out) };
        result.expect("it is in memory");
        String::from_utf8(out).expect("text")
    };
    let trace =
        plain("time,mbps,rtt_ms,loss\n0,12,40,0.02\n0.01,0,42.5,0\n0.02,24,40,0\n0.03,24,40,0\n");
    let csv = written(&trace, true);
    assert_eq!(
        csv,
        "time_s,rate_mbps,rtt_ms,loss\n0,12,40,0.02\n0.01,0,42.5,0\n0.02,24,40,0\n0.03,24,40,0\n"
    );
    let again = plain(csv);
    assert_eq!((&again.rate, &again.rtt, &again.loss), (&trace.rate, &trace.rtt, &trace.loss));
    let mahimahi = written(&trace, false);
    let times: Vec<&str> = mahimahi.lines().collect();
    assert_eq!(
        (times.len(), times[0], times[9], times[10], times[49]),
        (50, "1", "10", "21", "40")
    );
    let again = plain(mahimahi.clone());
    assert_eq!(again.rate, Some(RateConfig::mahimahi(&mahimahi).expect("a trace")));
    // The outage at the end stays, at the price of one opportunity.
    assert_eq!(written(&plain("time_ms,mbps\n0,12\n2,0\n"), false), "1\n2\n4\n");
    assert_eq!(written(&plain("1\n1\n50\n"), true), "time_s,rate_mbps\n0,0.72\n");
    let rtts = plain("time,rtt_ms\n0,1\n");
    assert!(rtts.write_mahimahi(&mut Vec::new()).is_err());
    let days = plain("time,mbps\n0,1\n4000000,0\n5000000,1\n");
    assert!(days.write_mahimahi(&mut Vec::new()).is_err());
}

/// Whatever is in a file, it is a trace that a path can take, or one line.
#[test]
fn a_file_that_somebody_changed_is_a_trace_or_one_line() {
    use fullpipe_path::{ElementConfig, LossConfig, PathConfig, QueueLimit};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    let table = "time,mbps,rtt_ms,loss\n0,8,40,0.02\n0.5,0,60,0\n1,16,41,0\n";
    let bases: [Vec<u8>; 9] = [
        "[{\"prb_id\":7,\"timestamp\":2,\"avg\":60,\"sent\":4,\"rcvd\":3}]".into(),
        "{\"x_values\":[0,1],\"results\":{\"TCP download\":[5,6]}}".into(),
        "[1.5] ::1: icmp_seq=1 time=4 ms\n[2.5] ::1: icmp_seq=4 time=5 ms\n".into(),
        table.into(),
        "1577836800000\t1.5\n1577836800100\t0\n1577836800200\t7\n".into(),
        "1\n2\n2\n50\n".into(),
        "seq,rtt_us,lost\n0,31914,0\n1,31217,1\n".into(),
        gzip(table),
        zstd(table),
    ];
    let bytes = b"0123456789.,;\t -+eE\n\r\"#nai\x00\xff\x1b";
    let mut traces = 0;
    for case in 0..4000 {
        let mut chance = Pcg64Mcg::seed_from_u64(case);
        let mut below = |n: usize| (chance.next_u64() % n as u64) as usize;
        let mut file = bases[below(bases.len())].clone();
        for _ in 0..below(6) {
            let (at, byte) = (below(file.len() + 1), bytes[below(bytes.len())]);
            match below(3) {
                0 => file.insert(at, byte),
                1 if at < file.len() => file[at] = byte,
                _ if at < file.len() => drop(file.remove(at)),
                _ => {}
            }
        }
        let options = TraceOptions {
            repeat: [None, Some(false)][below(2)],
            interval: [None, None, Some(Duration::from_millis(10))][below(3)],
            interpolation: [None, Some(Interpolation::Linear)][below(2)],
            ..TraceOptions::default()
        };
        let trace = match read(file, &options) {
            Ok(trace) => trace,
            Err(error) => {
                assert!(!error.to_string().contains(char::is_control), "case {case}: {error:?}");
                continue;
            }
        };
        traces += 1;
        let queue = QueueLimit::Bytes(9000);
        let rate = trace.rate.clone();
        let row = [
            rate.map(|rate| ElementConfig::Bottleneck { rate, queue: queue.into() }),
            trace.rtt.clone().map(ElementConfig::DelaySeries),
            trace.loss.clone().map(|loss| ElementConfig::Loss(LossConfig::Series(loss))),
        ];
        let config = PathConfig { row: row.into_iter().flatten().collect(), seed: 1 };
        assert_eq!(config.validate(), Ok(()), "case {case}");
        let summary = trace.summary();
        let mean = summary.rate_mbps.or(summary.rtt_ms).or(summary.loss).map_or(0.0, |s| s.mean);
        assert!(mean.is_finite(), "case {case}: {summary:?}");
    }
    assert!(traces > 400, "only {traces} of 4000 were traces");
}

/// Units that a name can have; what it is in Mbit/s where the file says 8.
#[test]
fn the_unit_of_a_rate_is_that_of_its_name_or_asked_for() {
    for (name, mbps) in [
        ("rate (kb/s)", Some(0.008)),
        ("rate (Mb/s)", Some(8.0)),
        ("rate (Gb/s)", Some(8000.0)),
        ("rate (kB/s)", Some(0.064)),
        ("rate (MB/s)", Some(64.0)),
        ("rate (KiB/s)", Some(0.065_536)),
        ("Throughput (MBytes/sec)", Some(64.0)),
        ("throughput_kbytes_per_sec", Some(0.064)),
        ("mbps", Some(8.0)),
        ("rate", Some(8.0)),
        ("rate (packets/s)", None),
    ] {
        let read = read(format!("time,{name}\n0,8\n1,8\n"), &TraceOptions::default());
        match mbps {
            Some(mbps) => {
                let rate = read.expect("a trace").rate.expect("a rate");
                let bytes = rate.bytes_between(Duration::ZERO, Duration::from_secs(1));
                let off = (bytes as f64 * 8e-6 - mbps).abs();
                assert!(off <= 1e-4 * mbps + 1e-5, "{name}: {bytes} bytes in a second");
            }
            None => {
                let error = read.expect_err("no unit").to_string();
                assert!(error.contains("unit of 'rate (packets/s)' is not known"), "{error}");
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused_and_parts_of_a_row_are_put_together() {
    let error = read("time,mbps\n0,12,5\n1,13,5\n", &TraceOptions::default())
        .expect_err("two columns")
        .to_string();
    assert!(error.contains("line 2: 3 cells where the first line has 2"), "{error}");
    let parts = plain("time,mbps,rtt_ms\n0,5,\n0,,30\n1,6,\n1,,31\n2,7,40\n");
    let Some(RateConfig::Series(rates)) = &parts.rate else { panic!("a series") };
    let mbps: Vec<u64> =
        rates.steps().iter().map(|(_, rate)| rate.as_bits_per_sec() / 1_000_000).collect();
    assert_eq!(mbps, [5, 6, 7]);
    let long = "time,mbps\n0,1\n1e9,2\n2e9,3\n";
    let linear =
        TraceOptions { interpolation: Some(Interpolation::Linear), ..TraceOptions::default() };
    assert!(read(long, &linear).is_ok());
}

/// A trace that is written and read again is the same, although equal values are one step.
#[test]
fn a_table_that_is_written_again_is_as_long() {
    let text = "time,mbps\n0,1\n1,1\n2,1\n3,1\n4,1\n5,2\n6,2\n7,2\n8,2\n9,2\n";
    let trace = plain(text);
    let mut written = Vec::new();
    trace.write_csv(&mut written).expect("written");
    let again = plain(written);
    assert_eq!((again.rate, again.notes.length), (trace.rate, trace.notes.length));
}
