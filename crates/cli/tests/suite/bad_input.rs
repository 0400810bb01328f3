//! Bad input is answered with one line on stderr and exit code 2, before anything is done.

use crate::checks::refused_with;
use crate::common::{certificate, fullpipe, names, run, text};

const ALGORITHMS: &[&str] = &[
    "unknown algorithm",
    "bbr3",
    "bbr3-linux",
    "bbr-swift",
    "prague",
    "bbr1",
    "cubic",
    "reno",
    "noq:bbr3",
    "noq:cubic",
    "noq:reno",
];

#[test]
fn of_serve() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(dir.path());
    let (cert, key) = (text(&cert), text(&key));
    let other = tempfile::tempdir().expect("a directory");
    let (_, other_key) = certificate(other.path());
    let garbage = "-----BEGIN CERTIFICATE-----\nwhatever this is\n-----END CERTIFICATE-----\n";
    std::fs::write(dir.path().join("garbage.pem"), garbage).expect("a file");
    let garbage_key = garbage.replace("CERTIFICATE", "PRIVATE KEY");
    std::fs::write(dir.path().join("badkey.pem"), garbage_key).expect("a file");
    std::fs::write(dir.path().join("noise.pem"), [0xff, 0, 0x80, 7]).expect("a file");
    refused_with(
        dir.path(),
        &[
            (&["serve"], &["DIR"]),
            (&["serve", ".", "--listen", "4433"], &["4433", "127.0.0.1:4433"]),
            (&["serve", ".", "--listen", "localhost"], &["127.0.0.1:4433"]),
            (&["serve", ".", "--cc", "bbr"], ALGORITHMS),
            (&["serve", ".", "--cc", "quinn:bbr"], ALGORITHMS),
            (&["serve", ".", "--cert", cert], &["--key"]),
            (&["serve", ".", "--key", key], &["--cert"]),
            (&["serve", ".", "--cert", "none.pem", "--key", key], &["none.pem", "No such file"]),
            (&["serve", ".", "--cert", cert, "--key", "none.pem"], &["none.pem", "No such file"]),
            (&["serve", ".", "--cert", ".", "--key", key], &["\".\"", "directory"]),
            (&["serve", ".", "--cert", "garbage.pem", "--key", key], &["garbage.pem", "no X.509"]),
            (&["serve", ".", "--cert", "noise.pem", "--key", key], &["noise.pem", "certificate"]),
            (&["serve", ".", "--cert", key, "--key", key], &["key.pem", "no PEM certificate"]),
            (&["serve", ".", "--cert", cert, "--key", cert], &["cert.pem", "no PEM private key"]),
            (
                &["serve", ".", "--cert", cert, "--key", text(&other_key)],
                &["certificate", "is not that of"],
            ),
            (&["serve", ".", "--cert", cert, "--key", "badkey.pem"], &["badkey.pem", "key"]),
            (&["serve", ".", "--nonsense"], &["--nonsense"]),
            (&["serve", ".", "--bulk"], &["--bulk", "DIR"]),
            (&["serve", ".", "--threads", "0"], &["--threads"]),
            (&["serve", ".", "--ciphers", "rot13"], &["unknown cipher", "chacha20"]),
            (&["serve", ".", "--cc-for", "cubic"], &["192.0.2.0/24=cubic"]),
            (&["serve", ".", "--cc-for", "1.2.3=cubic"], &["no network", "192.0.2.0/24"]),
            (&["serve", ".", "--preferred-address", "here"], &["no preferred", "192.0.2.1:4433"]),
            (&["serve", ".", "--cc-for", "::/0=bbr"], ALGORITHMS),
            (&["serve", ".", "--metrics", "9090"], &["9090", "127.0.0.1:4433"]),
            (&["serve", ".", "--qlog", "noise.pem"], &["qlog", "noise.pem"]),
            (&["serve", ".", "--early-data", "--no-resumption"], &["--no-resumption"]),
        ],
    );
}

#[test]
fn of_get() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("sub")).expect("a directory");
    std::fs::write(dir.path().join("garbage.pem"), "whatever this is").expect("a file");
    let (_, key) = certificate(dir.path());
    let before = names(dir.path());
    let url = "https://localhost:4433/f";
    refused_with(
        dir.path(),
        &[
            (&["get"], &["URL"]),
            (&["get", "tcp://localhost/f"], &["no port", "https://localhost:4433/file"]),
            (&["get", "http://localhost:4433/f"], &["https://"]),
            (&["get", "localhost:4433/f"], &["https://"]),
            (&["get", "nonsense"], &["no URL"]),
            (&["get", "https://localhost:99999/f"], &["no URL", "port"]),
            (&["get", "https://me:hidden@localhost:4433/f"], &["no passwords"]),
            (&["get", "https://localhost:4433/"], &["-o FILE"]),
            (&["get", "https://localhost:4433/a%2fb"], &["-o FILE"]),
            (&["get", url, "--cc", "bbr"], ALGORITHMS),
            (&["get", url, "--insecure", "--ca", "garbage.pem"], &["--insecure", "--ca"]),
            (&["get", url, "--ca", "none.pem"], &["none.pem", "No such file"]),
            (&["get", url, "--ca", "garbage.pem"], &["garbage.pem", "no PEM certificate"]),
            (&["get", url, "--ca", text(&key)], &["key.pem", "no PEM certificate"]),
            (&["get", url, "--insecure", "-o", "none/f"], &["none/f", "No such file"]),
            (&["get", url, "--insecure", "-o", "sub"], &["sub", "directory"]),
            (&["get", url, "--insecure", "-o", "garbage.pem/f"], &["garbage.pem/f"]),
            (&["get", url, "--ciphers", "rot13"], &["unknown cipher", "chacha20"]),
            (&["get", url, "--alpn", "http/1.1"], &["unknown protocol", "h3", "hq-interop"]),
            (&["get", url, url, "--insecure"], &["two URLs", "f"]),
            (&["get", "-C", url, &format!("{url}.part"), "--insecure"], &["f.part", "one by one"]),
            (&["get", url, "https://localhost:4433/g", "-o", "x"], &["--output-dir"]),
            (&["get", url, "--early-data"], &["--resume"]),
            (&["get", url, "--nonsense"], &["--nonsense"]),
            (&["fetch", url], &["fetch"]),
        ],
    );
    assert_eq!(names(dir.path()), before, "nothing was made");
}

#[test]
fn secrets_are_not_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["get", "https://me:hidden@localhost:4433/f"]));
    assert!(!said.stderr.contains("hidden"), "{}", said.stderr);
    let (cert, key) = certificate(dir.path());
    let pem = std::fs::read_to_string(&key).expect("a key");
    let secret = pem.lines().nth(1).expect("its first line");
    std::fs::write(&key, pem.replace("-----END", "")).expect("a broken key");
    let said =
        run(fullpipe(dir.path(), &["serve", ".", "--cert", text(&cert), "--key", text(&key)]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(!said.stderr.contains(&secret[..20]), "{}", said.stderr);
}

#[test]
fn help_and_version_are_no_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["get", "-h"]] {
        let said = run(fullpipe(dir.path(), args));
        assert_eq!(said.code, Some(0), "{args:?}");
        assert!(said.stderr.is_empty() && !said.stdout.is_empty(), "{args:?}");
    }
}

/// Commands and files of every kind: each gets one line, which says what to write instead.
#[test]
fn of_all_commands_and_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("a file");
    };
    let path = "path = { rate = \"10mbit\", rtt = \"20ms\" }\n";
    let good = format!("cc = \"bbr3\"\nduration = \"1s\"\n{path}");
    file("good.toml", &good);
    file("metric.toml", &format!("{good}expect = [\"queue_ms <= 10\"]\n"));
    file("slip.toml", &format!("{good}expect = [\"goodput_mbp > 1\"]\n"));
    file("below.toml", &format!("{good}[[flow]]\ncount = 2\nexpect = [\"jain > 0.9\"]\n"));
    file("field.toml", &good.replace("rtt", "rt"));
    file("cc.toml", &good.replace("bbr3", "bbr"));
    file("queue.toml", &good.replace("\"20ms\"", "\"20ms\", queue = \"fqcodel\""));
    file("size.toml", &good.replace("\"20ms\"", "\"20ms\", queue = \"2bdp\""));
    file("buffer.toml", &good.replace("\"20ms\"", "\"20ms\", buffer = 3"));
    file("unit.toml", &good.replace("10mbit", "10"));
    file("none.toml", "");
    file("clock.toml", &format!("stack = \"s2n\"\nclock = \"virtual\"\n{good}"));
    let link = "stack = \"noq\"\nclock = \"real\"\nreal_link = \"netem\"\n";
    file("link.toml", &format!("{link}{good}"));
    file("flows.toml", &format!("{good}flow = [{{ count = 100000 }}]\n"));
    file("late.toml", &format!("{good}flow = [{{ start = \"2s\" }}]\n"));
    file("quic.toml", &format!("{good}flow = [{{ prr = false, transport = \"tcp\" }}]\n"));
    std::fs::create_dir(dir.path().join("sub")).expect("a directory");
    let before = names(dir.path());
    let rows: &[(&[&str], &[&str])] = &[
        (&["runn"], &["unrecognized subcommand", "did you mean run?"]),
        (&["run"], &["<FILE.toml>"]),
        (&["run", "godo.toml"], &["No such file", "did you mean good.toml?"]),
        (&["run", "sub"], &["sub", "directory"]),
        (&["run", "good.toml", "--stak", "sim"], &["did you mean --stack?"]),
        (&["run", "good.toml", "--stack", "simulator"], &["there are sim, noq"]),
        (
            &["run", "good.toml", "--stack", "s2n", "--clock", "virtual"],
            &["--clock: stack", "write real"],
        ),
        (&["run", "good.toml", "--backend", "quic:noq"], &["it has become --stack noq"]),
        (&["run", "good.toml", "--over=tcp:user-tun"], &["become --stack tcp --clock real"]),
        (&["run", "good.toml", "-b", "simulator"], &["it has become --stack, with --clock"]),
        (&["run", "good.toml", "--stack", "quic:noq"], &["it has become --stack noq"]),
        (&["conformance", "--backend", "quic:noq"], &["it has become --stack noq"]),
        (&["figures", "fig3", "--link", "udp"], &["unexpected argument '--link'"]),
        (&["run", "clock.toml"], &["clock.toml:2: clock: stack s2n has no virtual clock"]),
        (&["explain", "clock.toml"], &["clock.toml:2: clock: stack s2n has no virtual clock"]),
        (&["run", "link.toml"], &["link.toml:3: real_link: noq (real clock) has no link netem"]),
        (&["run", "good.toml", "--jobs", "0"], &["'0' is too few", "like 2"]),
        (&["run", "good.toml", "--max-memory", "2B"], &["more than the 2B", "--max-memory"]),
        (&["run", "good.toml", "--max-memory", "lots"], &["100MB"]),
        (&["run", "good.toml", "--json", "--csv"], &["--json", "--csv"]),
        (&["run", "good.toml", "--report", "none/x.html"], &["none/x.html", "No such file"]),
        (&["run", "good.toml", "--out", "good.toml"], &["good.toml", "a directory"]),
        (&["run", "metric.toml"], &["metric.toml:4", "write queue_ms.p95"]),
        (&["run", "slip.toml"], &["slip.toml:4", "did you mean goodput_mbps?"]),
        (&["run", "below.toml"], &["below.toml:6", "above the first line in [ ]"]),
        (&["run", "field.toml"], &["field.toml:3: path.rt", "did you mean rtt?"]),
        (&["run", "cc.toml"], &["cc.toml:1: cc", "did you mean bbr3?"]),
        (&["run", "queue.toml"], &["did you mean fq_codel?"]),
        (&["run", "buffer.toml"], &["'3' has no unit", "1bdp, 6MB, 700pkts or 100ms"]),
        (&["run", "unit.toml"], &["'10' has no unit", "100mbit"]),
        (&["run", "none.toml"], &["write path ="]),
        (&["run", "flows.toml"], &["write 10000 or fewer"]),
        (&["run", "late.toml"], &["write a longer duration"]),
        (
            &["run", "quic.toml", "--stack", "noq", "--clock", "real"],
            &["does not run over noq (real clock)", "--stack sim"],
        ),
        (&["sweep", "good.toml"], &["--out"]),
        (&["sweep", "nowhere.toml", "--out", "out"], &["nowhere.toml", "No such file"]),
        (&["compare", "--cc", "cubik"], &["did you mean cubic?"]),
        (&["compare", "bbr3,cubic"], &["'bbr3,cubic'", "as in --cc bbr3,cubic"]),
        (&["explain", "bbr3"], &["bbr3: No such file", "--cc bbr3"]),
        (&["run", "size.toml"], &["size.toml:3", "buffer = \"2bdp\""]),
        (&["compare", "--buffer", "3"], &["'3' has no unit", "700pkts"]),
        (&["compare", "--flows", "100000"], &["--flows", "write 10000 or fewer"]),
        (&["compare", "--rate", "0mbit"], &["--rate", "like 100mbit"]),
        (&["compare", "--loss", "100%"], &["--loss", "below 100%"]),
        (&["explain", "good.toml", "--flow", "7"], &["flow"]),
        (&["explain", "good.toml", "--cc", "bbr3"], &["--cc"]),
        (&["figures", "figg3"], &["there is no such figure", "did you mean fig3?"]),
        (&["figures", "fig3", "--all"], &["--all"]),
        (&["conformance", "99"], &["a number from 1 to"]),
        (&["kernel", "laod"], &["did you mean load?"]),
        (&["clean", "all"], &["unexpected argument 'all'"]),
        (&["serve", ".", "--listen", "4433"], &["127.0.0.1:4433"]),
        (&["get", "tcp://localhost/f"], &["no port", "https://localhost:4433/file"]),
    ];
    assert!(rows.len() >= 30, "{} rows", rows.len());
    refused_with(dir.path(), rows);
    assert_eq!(names(dir.path()), before, "nothing was made");
}

#[test]
fn the_version_says_what_it_is_built_from_and_the_file_is_small() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["--version"]));
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.starts_with("fullpipe 0.1.0 (") && text.contains("feature kernel)"), "{text}");
    let bytes = std::fs::metadata(env!("CARGO_BIN_EXE_fullpipe")).expect("a file").len();
    // With the lines of the source it was 80 MB.
    assert!(!cfg!(target_os = "linux") || bytes < 60_000_000, "{bytes} bytes");
}

#[test]
fn every_command_has_examples() {
    let dir = tempfile::tempdir().expect("a directory");
    for command in [
        "clean",
        "compare",
        "conformance",
        "explain",
        "figures",
        "get",
        "kernel",
        "run",
        "serve",
        "sweep",
        "trace",
    ] {
        let said = run(fullpipe(dir.path(), &[command, "--help"]));
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(
            text.contains("Examples:\n") && text.contains(&format!("fullpipe {command}")),
            "{text}"
        );
    }
}
