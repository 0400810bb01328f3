//! The other end is a second implementation of QUIC and of hq-interop: aioquic.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{
    Running, certificate, first_line, fullpipe, run, serve, sha256, text, write_file,
};

/// A script of the Python that has aioquic.
fn python(script: &str) -> Command {
    let python = std::env::var_os("FULLPIPE_PYTHON").expect("the test names Need::Aioquic");
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic").join(script));
    command
}

struct Place {
    _dir: tempfile::TempDir,
    www: PathBuf,
    here: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, here) = (dir.path().join("www"), dir.path().join("here"));
    std::fs::create_dir(&www).expect("a directory");
    std::fs::create_dir(&here).expect("a directory");
    let (certificate, key) = certificate(dir.path());
    for (name, bytes) in [("empty", 0), ("small", 1), ("large", 5_000_000)] {
        write_file(&www.join(name), bytes);
    }
    Place { _dir: dir, www, here, certificate, key }
}

fn get_fetches_from_an_aioquic_server() {
    let place = place();
    let mut command = python("server.py");
    command.args([&place.www, &place.certificate, &place.key]).stdout(Stdio::piped());
    let mut server = Running(command.spawn().expect("Python starts"));
    let port = first_line(&mut server);
    for name in ["empty", "small", "large"] {
        let url = format!("https://localhost:{}/{name}", port.trim());
        let ca = ["--ca", text(&place.certificate)];
        let said = run(fullpipe(&place.here, &["get", &url, ca[0], ca[1]]));
        assert_eq!(said.code, Some(0), "{name}: {}", said.stderr);
        assert_eq!(sha256(&place.here.join(name)), sha256(&place.www.join(name)), "{name}");
    }
}

const V2: &str = "version 0x6b3343cf";

fn get_speaks_version_2_with_an_aioquic_server() {
    let place = place();
    for (versions, v2) in [("v1,v2", true), ("v2", true), ("v1", false)] {
        let mut command = python("server.py");
        command.args([&place.www, &place.certificate, &place.key]);
        command.env("AIOQUIC_V2", "").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Running(command.spawn().expect("Python starts"));
        let port = first_line(&mut server);
        let url = format!("https://localhost:{}/large", port.trim());
        let ca = text(&place.certificate);
        let line = ["get", &url, "--ca", ca, "--quic-versions", versions, "--key-update"];
        let said = run(fullpipe(&place.here, &line));
        assert_eq!(said.code, Some(0), "{versions}: {}", said.stderr);
        assert_eq!(sha256(&place.here.join("large")), sha256(&place.www.join("large")));
        std::fs::remove_file(place.here.join("large")).expect("it is there");
        server.0.kill().expect("it runs");
        let told = server.stderr();
        assert_eq!(told.contains(V2), v2, "{versions}: {told}");
    }
}

fn serve_speaks_version_2_with_an_aioquic_client() {
    let place = place();
    let (cert, key) = (text(&place.certificate), text(&place.key));
    for (more, first, v2) in [
        (&[][..], "", true),
        (&[], "first", true),
        (&["--retry-above", "0"], "", true),
        (&["--retry-above", "0"], "first", true),
        (&["--quic-versions", "v1"], "", false),
    ] {
        let args = [&["--cert", cert, "--key", key], more].concat();
        let server = serve(&place.www, &args);
        let mut command = python("client.py");
        command.args([&server.address.port().to_string(), cert, text(&place.here), "/large"]);
        let said = run({
            command.env("AIOQUIC_V2", first);
            command
        });
        assert_eq!(said.code, Some(0), "{more:?} {first}: {}", said.stderr);
        assert_eq!(sha256(&place.here.join("large")), sha256(&place.www.join("large")));
        std::fs::remove_file(place.here.join("large")).expect("it is there");
        assert_eq!(said.stderr.contains(V2), v2, "{more:?} {first}: {}", said.stderr);
    }
}

fn serve_serves_an_aioquic_client() {
    let place = place();
    for cc in ["bbr3", "cubic", "reno"] {
        let (cert, key) = (text(&place.certificate), text(&place.key));
        let server = serve(&place.www, &["--cert", cert, "--key", key, "--cc", cc]);
        let mut command = python("client.py");
        command.args([&server.address.port().to_string(), cert, text(&place.here)]);
        command.args(["/empty", "/small", "/large", "/missing", "/../cert.pem"]);
        let said = run(command);
        assert_eq!(said.code, Some(0), "{cc}: {}", said.stderr);
        let expected = "/empty wrote empty\n/small wrote small\n/large wrote large\n\
                        /missing reset 404\n/../cert.pem reset 403\n";
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{cc}");
        for name in ["empty", "small", "large"] {
            let got = place.here.join(name);
            assert_eq!(sha256(&got), sha256(&place.www.join(name)), "{cc} {name}");
            std::fs::remove_file(got).expect("it is there");
        }
    }
}

fn an_aioquic_client_works_through_a_relay() {
    let place = place();
    let (cert, key) = (text(&place.certificate), text(&place.key));
    let server = serve(&place.www, &["--cert", cert, "--key", key]);
    let client = python("client.py");
    let mut command = fullpipe(
        &place.here,
        &["link", "--udp", &format!("0={}", server.address), "--rate", "50mbit", "--json", "--"],
    );
    command.arg(client.get_program()).args(client.get_args());
    let said = run({
        command.args(["{port}", cert, text(&place.here), "/empty", "/small", "/large"]);
        command
    });
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for name in ["empty", "small", "large"] {
        assert_eq!(sha256(&place.here.join(name)), sha256(&place.www.join(name)), "{name}");
    }
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
    assert!(object["link"]["down"]["payload_bytes"].as_u64() > Some(5_000_000), "{object}");
}

fn get_fetches_over_http_3_from_an_aioquic_server() {
    let place = place();
    let mut command = python("h3_server.py");
    command.args([&place.www, &place.certificate, &place.key]).stdout(Stdio::piped());
    let mut server = Running(command.spawn().expect("Python starts"));
    let port = first_line(&mut server);
    let url = |name: &str| format!("https://localhost:{}/{name}", port.trim());
    let ca = ["--ca", text(&place.certificate)];
    for alpn in ["h3", "any"] {
        let urls = ["empty", "small", "large"].map(url);
        let args = ["get", &urls[0], &urls[1], &urls[2], ca[0], ca[1], "--alpn", alpn];
        let said = run(fullpipe(&place.here, &args));
        assert_eq!(said.code, Some(0), "{alpn}: {}", said.stderr);
        for name in ["empty", "small", "large"] {
            let got = place.here.join(name);
            assert_eq!(sha256(&got), sha256(&place.www.join(name)), "{alpn} {name}");
            std::fs::remove_file(got).expect("it is there");
        }
    }
    let said = run(fullpipe(&place.here, &["get", &url("none"), ca[0], ca[1]]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("status 404 (not found)"), "{}", said.stderr);
}

fn serve_serves_an_aioquic_client_over_http_3() {
    let place = place();
    let (cert, key) = (text(&place.certificate), text(&place.key));
    let server = serve(&place.www, &["--cert", cert, "--key", key]);
    let port = server.address.port().to_string();
    let mut command = python("h3_client.py");
    command.args([&port, cert, text(&place.here), "/empty", "/small", "/large", "/missing"]);
    command.args(["HEAD=/large", "GET:bytes=7-=/empty", "POST=/large", "/%2e%2e/cert.pem"]);
    command.args(["GET:bytes=9999999-=/large", "HEAD:bytes=0-1=/large", "GET:bytes=x=/small"]);
    let said = run(command);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let expected = "/empty 200 0\n/small 200 1\n/large 200 5000000\n/missing 404 0\n/large 200 5000000\n\
        /empty 416 bytes */0 0\n/large 405 0 GET, HEAD\n/%2e%2e/cert.pem 403 0\n/large 416 bytes */5000000 0\n\
        /large 200 5000000\n/small 200 1\n";
    let sorted = |text: &str| -> Vec<Vec<String>> {
        // Fields may stand in any order.
        let words = |line: &str| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        text.lines().map(words).collect()
    };
    assert_eq!(sorted(&String::from_utf8_lossy(&said.stdout)), sorted(expected));
    for name in ["small", "large"] {
        assert_eq!(sha256(&place.here.join(name)), sha256(&place.www.join(name)), "{name}");
    }
    // Parts of a file.
    let whole = std::fs::read(place.www.join("large")).expect("a file");
    for (range, bytes, from, to) in [
        ("bytes=1000000-3999999", "1000000-3999999", 1_000_000, 4_000_000),
        ("bytes=-5", "4999995-4999999", 4_999_995, 5_000_000),
    ] {
        let mut command = python("h3_client.py");
        command.args([&port, cert, text(&place.here), &format!("GET:{range}=/large")]);
        let said = run(command);
        let line = String::from_utf8_lossy(&said.stdout).into_owned();
        let range_of_it = format!("bytes {bytes}/5000000");
        assert!(line.contains(" 206 ") && line.contains(&range_of_it), "{line}{}", said.stderr);
        let part = std::fs::read(place.here.join("large")).expect("a file");
        assert_eq!(part, whole[from..to], "{range}");
    }
}

/// Ten thousand files over one connection, which is many times what the server lets be open at
/// once.
fn ten_thousand_small_files_come_over_http_3() {
    let place = place();
    let names: Vec<String> = (0..10_000).map(|i| format!("f{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        std::fs::write(place.www.join(name), format!("content of {i}")).expect("a file");
    }
    let (cert, key) = (text(&place.certificate), text(&place.key));
    let server = serve(&place.www, &["--cert", cert, "--key", key]);
    let paths: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    let mut command = python("h3_client.py");
    command.args([&server.address.port().to_string(), cert, text(&place.here)]).args(&paths);
    let theirs = run(command);
    assert_eq!(theirs.code, Some(0), "{}", theirs.stderr);
    let check = || {
        for (i, name) in names.iter().enumerate() {
            let got = std::fs::read_to_string(place.here.join(name)).expect(name);
            assert_eq!(got, format!("content of {i}"));
            std::fs::remove_file(place.here.join(name)).expect("it is there");
        }
    };
    check();
    let urls = paths.iter().map(|path| server.url(path));
    let mut command = fullpipe(&place.here, &["get", "--ca", cert, "--alpn", "h3"]);
    command.args(urls);
    let ours = run(command);
    assert_eq!(ours.code, Some(0), "{}", &ours.stderr[ours.stderr.len().saturating_sub(500)..]);
    check();
}

fullpipe_testkit::tests! {
    [Aioquic] get_fetches_from_an_aioquic_server,
        serve_serves_an_aioquic_client_over_http_3;
    long [Aioquic] get_speaks_version_2_with_an_aioquic_server,
        serve_speaks_version_2_with_an_aioquic_client,
        serve_serves_an_aioquic_client,
        an_aioquic_client_works_through_a_relay,
        get_fetches_over_http_3_from_an_aioquic_server,
        ten_thousand_small_files_come_over_http_3;
}
