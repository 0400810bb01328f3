//! `fullpipe serve` and `fullpipe get`, each a process of its own.

use std::time::Instant;

use fullpipe_testkit::PATIENCE;

use crate::common::{certificate, fullpipe, names, run, serve, sha256, text, write_file};

fn a_hundred_megabytes_arrive_whole() {
    arrives_whole("bbr3");
}

fn a_hundred_megabytes_arrive_whole_with_other_algorithms() {
    arrives_whole("cubic");
    arrives_whole("noq:bbr3");
}

fn arrives_whole(cc: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, here) = (dir.path().join("www"), dir.path().join("here"));
    std::fs::create_dir(&www).expect("a directory");
    std::fs::create_dir(&here).expect("a directory");
    write_file(&www.join("big.bin"), 100_000_000);
    let server = serve(&www, &["--cc", cc]);
    let start = Instant::now();
    let said = run(fullpipe(&here, &["get", &server.url("/big.bin"), "--insecure"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(sha256(&here.join("big.bin")), sha256(&www.join("big.bin")));
    assert_eq!(names(&here), ["big.bin"], "nothing else is left");
    assert!(said.stdout.is_empty());
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    assert!(said.stderr.starts_with("100000000 bytes in "), "{}", said.stderr);
    assert!(said.stderr.contains("Mbit/s"), "{}", said.stderr);
}

fn the_line_of_serve_says_where_what_and_who() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), &["--cc", "noq:reno"]);
    for part in ["127.0.0.1:", "hq-interop", "noq:reno", "self-signed, SHA-256 fingerprint "] {
        assert!(server.line.contains(part), "{}", server.line);
    }
    assert_ne!(server.address.port(), 0);
    let (cert, key) = certificate(dir.path());
    let server = serve(dir.path(), &["--cert", text(&cert), "--key", text(&key)]);
    assert!(server.line.contains(text(&cert)), "{}", server.line);
    assert!(!server.line.contains("self-signed"), "{}", server.line);
}

fn a_certificate_is_checked_unless_the_user_says_otherwise() {
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("f"), 1000);
    let (cert, key) = certificate(dir.path());
    let server = serve(&www, &["--cert", text(&cert), "--key", text(&key)]);
    let stranger = serve(&www, &[]);
    let get = |server: &crate::common::Serve, args: &[&str]| {
        let mut command = fullpipe(dir.path(), &["get", &server.url("/f"), "-o", "-"]);
        command.args(args);
        command
    };
    let ca = ["--ca", text(&cert)];
    for (command, trusted) in [
        (get(&server, &ca), true),
        (get(&server, &["--insecure"]), true),
        (get(&stranger, &["--insecure"]), true),
        (get(&stranger, &ca), false),
        (get(&server, &[]), false),
    ] {
        let shown = format!("{command:?}");
        let said = run(command);
        assert_eq!(said.stdout.len(), if trusted { 1000 } else { 0 }, "{shown}");
        assert_eq!(said.code, Some(if trusted { 0 } else { 1 }), "{shown}: {}", said.stderr);
        assert_eq!(said.stderr.contains("not trusted"), !trusted, "{shown}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{shown}: {}", said.stderr);
    }
    // Without a flag it is the system's roots that count, and the environment can name them.
    let mut command = get(&server, &[]);
    let said = run({
        command.env("SSL_CERT_FILE", &cert);
        command
    });
    assert_eq!((said.code, said.stdout.len()), (Some(0), 1000), "{}", said.stderr);
    let mut command = get(&server, &[]);
    let said = run({
        command.env("SSL_CERT_FILE", "/dev/null");
        command
    });
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("--insecure"), "{}", said.stderr);
}

fn the_file_goes_where_it_should_with_the_mode_that_it_should_have() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("a b"), 1000);
    write_file(&www.join("empty"), 0);
    let server = serve(&www, &[]);
    let get = |path: &str, args: &[&str]| {
        let mut command = fullpipe(dir.path(), &["get", &server.url(path), "--insecure"]);
        command.args(args);
        let said = run(command);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout
    };
    get("/a%20b", &[]);
    assert_eq!(sha256(&dir.path().join("a b")), sha256(&www.join("a b")));
    get("/empty", &[]);
    assert_eq!(std::fs::read(dir.path().join("empty")).expect("a file"), b"");
    assert_eq!(get("/a%20b", &["-o", "-"]), std::fs::read(www.join("a b")).expect("a file"));
    get("/a%20b", &["-o", "/dev/null"]);

    let mode = |name: &str| {
        let metadata = std::fs::metadata(dir.path().join(name)).expect("a file");
        metadata.permissions().mode() & 0o777
    };
    std::fs::File::create(dir.path().join("made by hand")).expect("a file");
    assert_eq!(mode("empty"), mode("made by hand"), "as any new file");

    let old = dir.path().join("old");
    std::fs::write(&old, "older and longer than nothing").expect("a file");
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o600)).expect("a mode");
    symlink("old", dir.path().join("link")).expect("a link");
    get("/empty", &["-o", "link"]);
    assert!(dir.path().join("link").is_symlink(), "the link is still one");
    assert_eq!(std::fs::read(&old).expect("a file"), b"");
    assert_eq!(mode("old"), 0o600, "as the file before it");
}

fn a_certificate_can_be_trusted_by_the_fingerprint_that_serve_prints() {
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("f"), 1000);
    let (server, other) = (serve(dir.path(), &[]), serve(dir.path(), &[]));
    let pin = |server: &crate::common::Serve| {
        server.line.split("fingerprint ").nth(1).expect("it is printed").trim().to_owned()
    };
    let get = |pin: &str| {
        let args = ["get", &server.url("/f"), "-o", "-", "--fingerprint", pin];
        run(fullpipe(dir.path(), &args))
    };
    let said = get(&pin(&server));
    assert_eq!((said.code, said.stdout.len()), (Some(0), 1000), "{}", said.stderr);
    let said = get(&pin(&other));
    assert_eq!((said.code, said.stdout.len()), (Some(1), 0), "{}", said.stderr);
    let has = format!("its fingerprint is {}", pin(&server));
    assert!(said.stderr.contains(&has), "{}", said.stderr);
    let said = get("12:34");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("64 hexadecimal digits"), "{}", said.stderr);
}

/// The endless bodies of the experiments' server are not served by a public one.
fn a_directory_is_all_that_is_served() {
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("f"), 10);
    let server = serve(dir.path(), &[]);
    for path in ["/bulk", "/bulk/100", "/rate/4096/1000000", "/on-off/1000000/1000000"] {
        let args = ["get", &server.url(path), "-o", "-", "--insecure"];
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!((said.code, said.stdout.len()), (Some(1), 0), "{path}: {}", said.stderr);
        assert!(said.stderr.contains("404 (not found)"), "{path}: {}", said.stderr);
    }
}

fullpipe_testkit::tests! {
    [] a_hundred_megabytes_arrive_whole;
    long [] a_hundred_megabytes_arrive_whole_with_other_algorithms;
    [] the_line_of_serve_says_where_what_and_who;
    [] a_certificate_is_checked_unless_the_user_says_otherwise;
    [] the_file_goes_where_it_should_with_the_mode_that_it_should_have;
    [] a_certificate_can_be_trusted_by_the_fingerprint_that_serve_prints;
    [] a_directory_is_all_that_is_served;
}
