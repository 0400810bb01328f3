use super::*;

fn one_line_with_an_example<T: fmt::Debug>(text: &str, r: Result<T, ParseError>) {
    let e = r.expect_err(text).to_string();
    assert!(!e.contains('\n') && e.len() < 200, "{text:?}: {e}");
    assert!(e.contains("write a") && e.contains(" like "), "{text:?}: {e}");
}

#[test]
fn rates() {
    for (text, bits, shown) in [
        ("100mbit", 100_000_000, "100mbit"),
        ("100Mbit", 100_000_000, "100mbit"),
        ("100 Mbit/s", 100_000_000, "100mbit"),
        ("100M", 100_000_000, "100mbit"),
        ("1gbit", 1_000_000_000, "1gbit"),
        ("1.5G", 1_500_000_000, "1500mbit"),
        ("500kbit", 500_000, "500kbit"),
        ("64k", 64_000, "64kbit"),
        ("8bit", 8, "8bit"),
        ("0", 0, "0bit"),
    ] {
        let rate = parse_rate(text).expect(text);
        assert_eq!(rate.as_bits_per_sec(), bits, "{text}");
        assert_eq!(show_rate(rate), shown, "{text}");
        assert_eq!(parse_rate(shown), Ok(rate));
    }
    for text in [
        "",
        "fast",
        "mbit",
        "-1mbit",
        "1e3mbit",
        "1.2.3mbit",
        "inf",
        "nan",
        "100",
        "1000000",
        "100mbps",
        "100MBps",
        "100MB",
        "100mbit extra",
        "99999999999tbit",
        "1\nfast",
        ".",
    ] {
        one_line_with_an_example(text, parse_rate(text));
    }
    assert!(parse_rate("100mbps").unwrap_err().to_string().contains("bytes"));
    assert!(parse_rate("100").unwrap_err().to_string().contains("no unit"));
}

#[test]
fn times() {
    for (text, nanos, shown) in [
        ("40ms", 40_000_000, "40ms"),
        ("1s", 1_000_000_000, "1s"),
        ("0.5s", 500_000_000, "500ms"),
        ("200us", 200_000, "200us"),
        ("200µs", 200_000, "200us"),
        ("7ns", 7, "7ns"),
        ("2min", 120_000_000_000, "120s"),
        ("0", 0, "0ns"),
        ("0ms", 0, "0ns"),
    ] {
        let d = parse_duration(text).expect(text);
        assert_eq!(d.as_nanos(), nanos, "{text}");
        assert_eq!(show_duration(d), shown, "{text}");
        assert_eq!(parse_duration(shown), Ok(d));
    }
    for text in ["", "40", "ms", "-1s", "1h", "soon", "9999999999999s", "1 ms 2"] {
        one_line_with_an_example(text, parse_duration(text));
    }
    assert!(parse_duration("40").unwrap_err().to_string().contains("no unit"));
    assert!(parse_duration("20m").unwrap_err().to_string().contains("minutes (min)"));
}

#[test]
fn volumes() {
    for (text, bytes, shown) in [
        ("100MB", 100_000_000, "100MB"),
        ("1GiB", 1 << 30, "1GiB"),
        ("512kB", 512_000, "512kB"),
        ("512KB", 512_000, "512kB"),
        ("1.5MiB", 1_572_864, "1536KiB"),
        ("1500", 1_500, "1500B"),
        ("1500B", 1_500, "1500B"),
        ("0", 0, "0B"),
    ] {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        assert_eq!(show_bytes(bytes), shown, "{text}");
        if bytes > 0 {
            assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
        }
    }
    for text in ["", "MB", "6M", "6m", "-6MB", "6mbit", "6XB", "999999999999TB"] {
        one_line_with_an_example(text, parse_bytes(text));
    }
}

#[test]
fn buffers() {
    for (text, buffer) in [
        ("1bdp", Buffer::Bdp(1.0)),
        ("0.5BDP", Buffer::Bdp(0.5)),
        ("6MB", Buffer::Bytes(6_000_000)),
        ("512kB", Buffer::Bytes(512_000)),
        ("700pkts", Buffer::Packets(700)),
        ("700p", Buffer::Packets(700)),
        ("1 packet", Buffer::Packets(1)),
        ("100ms", Buffer::Time(Duration::from_millis(100))),
        ("1.5s", Buffer::Time(Duration::from_millis(1500))),
    ] {
        assert_eq!(text.parse(), Ok(buffer), "{text}");
        assert_eq!(buffer.to_string().parse(), Ok(buffer), "{text}");
    }
    let second = Buffer::Time(Duration::from_secs(1));
    assert_eq!(
        second.bytes_on(Rate::from_bits_per_sec(8_000_000), Duration::ZERO),
        Some(1_000_000)
    );
    for text in ["", "bdp", "1.5pkts", "6M", "20m", "-1bdp", "big", "99999999999999999999p"] {
        one_line_with_an_example(text, text.parse::<Buffer>());
    }
}

#[test]
fn counts() {
    assert_eq!((parse_count("2"), parse_count("0")), (Ok(2_u32), Ok(0_u64)));
    assert_eq!(parse_count(&u64::MAX.to_string()), Ok(u64::MAX));
    assert_eq!(parse_count_above_0("3").map(NonZeroUsize::get), Ok(3));
    for (text, why) in [
        ("abc", "is no whole number"),
        ("", "is no whole number"),
        ("+1", "is no whole number"),
        ("-", "is no whole number"),
        ("1.5", "is no whole number"),
        ("-1", "is below 0"),
        ("4294967296", "is too large"),
        ("99999999999999999999", "is too large"),
    ] {
        one_line_with_an_example(text, parse_count::<u32>(text));
        let said = parse_count::<u32>(text).unwrap_err().to_string();
        assert!(said.starts_with(&format!("'{text}' {why}; ")), "{said}");
    }
    one_line_with_an_example("0", parse_count_above_0("0"));
}

#[test]
fn a_bdp_is_rate_times_rtt() {
    let (rate, rtt) = (parse_rate("100mbit").unwrap(), parse_duration("40ms").unwrap());
    assert_eq!(Buffer::Bdp(1.0).bytes_on(rate, rtt), Some(500_000));
    assert_eq!(Buffer::Bdp(6.0).bytes_on(rate, rtt), Some(3_000_000));
    assert_eq!(Buffer::Bytes(7).bytes_on(rate, rtt), Some(7));
    assert_eq!(Buffer::Packets(7).bytes_on(rate, rtt), None);
}

#[test]
fn losses() {
    for (text, p, shown) in [
        ("0.1%", 0.001, "0.1%"),
        ("0.001", 0.001, "0.1%"),
        ("1 %", 0.01, "1%"),
        ("0", 0.0, "0%"),
        ("0%", 0.0, "0%"),
        ("7%", 0.07, "7%"),
        ("99.9%", 0.999, "99.9%"),
    ] {
        let loss = parse_loss(text).expect(text).as_f64();
        assert!((loss - p).abs() < 1e-12, "{text}");
        assert_eq!(show_loss(loss), shown, "{text}");
    }
    for text in ["", "%", "1", "5", "100%", "101%", "-1%", "1ppm", "nan"] {
        one_line_with_an_example(text, parse_loss(text));
    }
    assert!(parse_loss("5").unwrap_err().to_string().contains("if you meant 5%"));
}
