//! Requests of `fullpipe get` beyond those for a whole file, and the addresses that it asks.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Running, Said, fullpipe, names, run, serve};
use fullpipe_testkit::{line_of, until_some};

/// A server of HTTP/1.1 that gives answers one after the other, each to a connection of its own.
struct Scripted {
    address: SocketAddr,
    /// The headers of the requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn start(answers: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", answers)
    }

    fn start_at(address: &str, answers: &[&str]) -> Self {
        let listener = TcpListener::bind(address).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut answers: VecDeque<String> = answers.iter().copied().map(String::from).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = asked.clone();
        thread::spawn(move || {
            while let Some(answer) = answers.pop_front() {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = String::new();
                let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
                while lines.read_line(&mut request).expect("a line") > 2 {}
                heard.lock().expect("no panic").push(request.to_ascii_lowercase());
                stream.write_all(answer.as_bytes()).expect("an answer");
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("tcp://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn get(dir: &Path, args: &[&str]) -> Said {
    run(fullpipe(dir, &[&["get"], args].concat()))
}

fn answer(status: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{fields}\r\n{body}"
    )
}

fn a_redirect_is_followed_to_another_server_without_passwords() {
    let dir = tempfile::tempdir().expect("a directory");
    let last = Scripted::start(&[&answer("200 OK", "", "there")]);
    let to_last = format!("location: http://{}/b?c\r\n", last.address);
    let first = Scripted::start(&[
        &answer("302 Found", "location: ../other\r\n", "elsewhere"),
        &answer("308 Permanent Redirect", &to_last, ""),
    ]);
    let secret = ["-H", "Authorization: hidden", "-H", "cookie: hidden", "-H", "X-Kept: yes"];
    let url = first.url("/a/file");
    let said = get(dir.path(), &[&["-L", &url][..], &secret].concat());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(dir.path().join("file")).expect("a file"), "there");
    let (of_first, of_last) = (first.asked(), last.asked());
    assert!(of_first[1].starts_with("get /other http/1.1\r\n"), "{of_first:?}");
    for request in &of_first {
        assert!(request.contains("authorization: hidden\r\n"), "{request}");
        assert!(request.contains("cookie: hidden\r\n"), "{request}");
    }
    assert!(of_last[0].starts_with("get /b?c http/1.1\r\n"), "{of_last:?}");
    assert!(of_last[0].contains("x-kept: yes\r\n"), "{of_last:?}");
    assert!(!of_last[0].contains("hidden"), "{of_last:?}");
}

fn redirects_have_an_end_and_lead_to_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let circle = answer("301 Moved Permanently", "location: /f\r\n", "");
    let to_file = answer("302 Found", "location: file:///etc/passwd\r\n", "");
    for (answers, args, reason) in [
        (&[&circle[..]][..], &[][..], "status 301"),
        (&[&circle[..]; 3], &["-L", "--max-redirs", "2"], "more than 2 redirects"),
        (&[&to_file[..]], &["-L"], "not followed"),
        (&[&answer("302 Found", "", "")[..]], &["-L"], "no place"),
    ] {
        let server = Scripted::start(answers);
        let said = get(dir.path(), &[&[&server.url("/f")[..]], args].concat());
        assert_eq!(said.code, Some(1), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(reason), "{args:?}: {}", said.stderr);
        assert_eq!(server.asked().len(), answers.len(), "{args:?}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

fn a_part_is_continued_unless_the_file_was_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: \"a\"\r\n\r\nabcd";
    let rest =
        answer("206 Partial Content", "content-range: bytes 4-9/10\r\netag: \"a\"\r\n", "efghij");
    let changed = answer("200 OK", "etag: \"b\"\r\n", "other");
    for (second, expected) in [(&rest, "abcdefghij"), (&changed, "other")] {
        let server = Scripted::start(&[cut, second]);
        let url = server.url("/f");
        let said = get(dir.path(), &["-C", &url]);
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(said.stderr.contains("4 bytes"), "{}", said.stderr);
        assert_eq!(names(dir.path()), ["f.part", "f.part.json"]);
        let said = get(dir.path(), &["--continue", &url]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), expected);
        assert_eq!(names(dir.path()), ["f"]);
        let asked = server.asked();
        assert!(!asked[0].contains("range"), "{asked:?}");
        assert!(asked[1].contains("range: bytes=4-\r\n"), "{asked:?}");
        assert!(asked[1].contains("if-range: \"a\"\r\n"), "{asked:?}");
        std::fs::remove_file(&file).expect("it is there");
    }
    // Without the switch, and without a validator, nothing stays.
    let weak = cut.replace("\"a\"", "W/\"a\"");
    for (answer, args) in [(cut, &[][..]), (&weak, &["-C"])] {
        let server = Scripted::start(&[answer]);
        let said = get(dir.path(), &[args, &[&server.url("/f")]].concat());
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
    // A part that nobody asked for is no file.
    let server = Scripted::start(&[&rest]);
    let said = get(dir.path(), &[&server.url("/f")]);
    assert!(said.stderr.contains("status 206"), "{}", said.stderr);
}

/// Over HTTP/3, from the server of this program.
fn a_part_is_continued_over_http_3() {
    let www = tempfile::tempdir().expect("a directory");
    let dir = tempfile::tempdir().expect("a directory");
    let path = www.path().join("f");
    std::fs::write(&path, "0123456789").expect("a file");
    let changed = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    file.set_modified(changed).expect("a time");
    let access = dir.path().join("access");
    let server = serve(www.path(), &["--access-log", access.to_str().expect("UTF-8")]);
    let url = server.url("/f");
    let here = dir.path().join("here");
    std::fs::create_dir(&here).expect("a directory");
    let validator = "Sun, 09 Sep 2001 01:46:40 GMT";
    let note = serde_json::json!({ "url": url, "validator": validator });
    for (part, expected, status) in [("abcd", "abcd456789", 206), ("0123456789", "0123456789", 416)]
    {
        std::fs::write(here.join("f.part"), part).expect("a file");
        std::fs::write(here.join("f.part.json"), note.to_string()).expect("a file");
        let said = get(&here, &["-C", "--insecure", &url]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert_eq!(std::fs::read_to_string(here.join("f")).expect("a file"), expected);
        assert_eq!(names(&here), ["f"]);
        let log = line_of(&access, &format!("\"status\":{status}"));
        assert!(log.contains("HTTP/3"), "{log}");
    }
}

/// A limit to the size of files stands for a disk without room: a user may set it.
fn a_part_that_has_no_room_says_so_and_is_continued() {
    let dir = tempfile::tempdir().expect("a directory");
    let body = "0123456789".repeat(500);
    let limited = |command: &str, argument: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 2; exec {command}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_fullpipe"), argument]);
        command.current_dir(dir.path());
        run(command)
    };
    // Blocks of a shell have 512 or 1024 bytes.
    limited("head -c 5000 /dev/zero > \"$1\"", "probe");
    let room = std::fs::metadata(dir.path().join("probe")).expect("a file").len() as usize;
    assert!(room < 5000, "a limit that counts");
    let range = format!("content-range: bytes {room}-4999/5000\r\n");
    let server = Scripted::start(&[
        &answer("200 OK", "etag: \"a\"\r\n", &body),
        &answer("206 Partial Content", &range, &body[room..]),
    ]);
    let url = server.url("/f");
    let said = limited("\"$0\" get -C \"$1\"", &url);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(1), 1), "{}", said.stderr);
    let reason = "cannot write to \"f\": File too large";
    let kept = format!("{room} bytes are in \"f.part\" for --continue");
    assert!(said.stderr.contains(reason) && said.stderr.contains(&kept), "{}", said.stderr);
    let said = get(dir.path(), &["-C", &url]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(dir.path().join("f")).expect("a file"), body);
}

/// Nothing of what was there is lost to an answer that contradicts itself.
fn an_answer_that_contradicts_itself_continues_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let long_tag = format!("\"{}\"", "x".repeat(70_000));
    let head = |tag: &str, range: &str, length: &str| {
        let range = format!("content-range: bytes {range}\r\n");
        format!(
            "HTTP/1.1 206 Partial Content\r\nconnection: close\r\netag: {tag}\r\n{range}{length}\r\n"
        )
    };
    for (tag, rest, reason) in [
        (
            "\"a\"",
            head("\"a\"", "5-18446744073709551615/*", "content-length: 5\r\n"),
            "no file has",
        ),
        (
            "\"a\"",
            head("\"a\"", "5-9/10", "content-length: 8\r\n"),
            "another length than its range",
        ),
        ("\"a\"", head("\"a\"", "5-6/7", ""), "longer than its range"),
        ("\"a\"", head("\"a\"", "5-99/100", ""), "10 bytes at its end, and the file 100"),
        (&*long_tag, head(&long_tag, "5-9/10", ""), ""),
    ] {
        let cut = format!("HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: {tag}\r\n\r\nabcde");
        let server = Scripted::start(&[&cut, &format!("{rest}fghij")]);
        let url = server.url("/f");
        let said = get(dir.path(), &["-C", &url]);
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        let said = get(dir.path(), &["-C", &url]);
        let file = dir.path().join("f");
        if reason.is_empty() {
            assert_eq!(said.code, Some(0), "{}", said.stderr);
            assert_eq!(std::fs::read_to_string(file).expect("a file"), "abcdefghij");
            assert!(server.asked()[1].contains(&format!("if-range: {tag}\r\n")), "the same tag");
            continue;
        }
        assert_eq!((said.code, said.stderr.lines().count()), (Some(1), 1), "{}", said.stderr);
        assert!(said.stderr.contains(reason), "{}", said.stderr);
        assert!(!file.exists(), "{}", said.stderr);
        let part = std::fs::read_to_string(dir.path().join("f.part")).expect("a part");
        // What came of a range that is too short for its file is a part as any other.
        let expected = if reason.contains("100") { "abcdefghij" } else { "abcde" };
        assert_eq!(part, expected, "{}", said.stderr);
        let kept = format!("{} bytes are in \"f.part\" for --continue", part.len());
        assert!(said.stderr.contains(&kept), "{}", said.stderr);
        std::fs::remove_file(dir.path().join("f.part")).expect("it is there");
    }
}

/// RFC 9112 section 6.1 and RFC 9110 section 15.3.5: what is no file as it is takes no file's place.
fn an_answer_that_is_no_file_as_it_is_replaces_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    std::fs::write(&file, "precious").expect("a file");
    let coded = |coding: &str| {
        let chunks = "3\r\nabc\r\n0\r\n\r\n";
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n{chunks}")
    };
    let old = coded("chunked").replace("HTTP/1.1", "HTTP/1.0");
    let coding = "another transfer-encoding";
    for (answer, reason) in [
        (coded("gzip"), coding),
        (coded("gzip, chunked"), coding),
        (coded("gzip\r\ntransfer-encoding: chunked"), coding),
        (coded("chunked, identity"), coding),
        (old, "transfer-encoding"),
        ("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned(), "no content"),
        (answer("205 Reset Content", "", ""), "no content"),
    ] {
        let server = Scripted::start(&[&answer]);
        let said = get(dir.path(), &[&server.url("/f")]);
        assert_eq!((said.code, said.stderr.lines().count()), (Some(1), 1), "{}", said.stderr);
        assert!(said.stderr.contains(reason), "{answer}: {}", said.stderr);
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious");
        assert_eq!(names(dir.path()), ["f"]);
    }
    let server = Scripted::start(&[&coded("Chunked")]);
    let said = get(dir.path(), &[&server.url("/f")]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "abc");
}

/// RFC 9112 section 9.3.1: a server may close a connection that it kept while a request is on its
/// way. One that ends before its first answer is no such connection.
fn a_request_on_a_kept_connection_that_ends_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for (first, code, connections) in [("abc", 0, 2), ("", 1, 2)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let counted = Arc::new(Mutex::new(0));
        let count = counted.clone();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut count = count.lock().expect("no panic");
                *count += 1;
                let mut lines = BufReader::with_capacity(1, stream.try_clone().expect("a socket"));
                let mut hear = || {
                    let mut line = String::new();
                    while lines.read_line(&mut line).is_ok_and(|length| length > 2) {}
                };
                hear();
                if first.is_empty() {
                    continue;
                }
                let length = first.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{first}");
                stream.write_all(answer.as_bytes()).expect("an answer");
                if *count == 1 {
                    // What is not read of the second request makes a reset of the end.
                    let mut byte = [0];
                    std::io::Read::read_exact(&mut stream, &mut byte).expect("a request");
                }
            }
        });
        let urls = ["f", "g"].map(|name| format!("tcp://{address}/{name}"));
        let said = get(dir.path(), &[&urls[0], &urls[1]]);
        assert_eq!(said.code, Some(code), "{}", said.stderr);
        assert_eq!(*counted.lock().expect("no panic"), connections, "{}", said.stderr);
        if code == 0 {
            assert_eq!(std::fs::read_to_string(dir.path().join("g")).expect("a file"), "abc");
        }
    }
}

fn a_server_that_comes_late_is_tried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    // A port on which nobody listens for now.
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.local_addr().expect("an address").to_string()
    };
    let url = format!("tcp://{address}/f");
    let said = get(dir.path(), &[&url]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(1), 1), "{}", said.stderr);
    let log = dir.path().join("log");
    let mut command = fullpipe(dir.path(), &["get", "--retry", "8", &url, "-o", "here"]);
    command.stderr(std::fs::File::create(&log).expect("a file"));
    let mut running = Running(command.spawn().expect("the command starts"));
    line_of(&log, "again in 1 s");
    let _server = Scripted::start_at(&address, &[&answer("200 OK", "", "late")]);
    assert_eq!(running.end().code(), Some(0));
    assert_eq!(std::fs::read_to_string(dir.path().join("here")).expect("a file"), "late");
}

fn the_size_of_a_chunk_that_never_ends_is_a_stall() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let url = format!("tcp://{}/f", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        // No answer comes before its request.
        let _request = stream.read(&mut [0; 4096]).expect("a request");
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head).expect("a head");
        while stream.write_all(&[b'0'; 65_536]).is_ok() {}
    });
    let mut command = fullpipe(dir.path(), &["get", &url, "--stall-timeout", "1s"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = Running(command.spawn().expect("the command starts"));
    let ended = until_some("it ends", || client.0.try_wait().expect("a child"));
    assert_eq!(ended.code(), Some(1));
    assert!(names(dir.path()).is_empty());
}

fn switches_that_fit_nothing_are_bad_input() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, reason) in [
        (&["-H", "no colon"][..], "colon"),
        (&["-H", "Range: bytes=1-"], "--continue"),
        (&["-C", "-o", "-"], "--continue is for files"),
        (&["-C", "-o", "/dev/null"], "--continue is for files"),
        (&["--max-redirs", "0", "-L"], "--max-redirs"),
    ] {
        let said = get(dir.path(), &[args, &["tcp://127.0.0.1:1/f"]].concat());
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(reason), "{args:?}: {}", said.stderr);
    }
}

fullpipe_testkit::tests! {
    [] a_redirect_is_followed_to_another_server_without_passwords,
        redirects_have_an_end_and_lead_to_no_file,
        a_part_is_continued_unless_the_file_was_changed,
        a_part_is_continued_over_http_3,
        a_part_that_has_no_room_says_so_and_is_continued,
        an_answer_that_contradicts_itself_continues_nothing,
        an_answer_that_is_no_file_as_it_is_replaces_none,
        a_request_on_a_kept_connection_that_ends_is_made_again,
        a_server_that_comes_late_is_tried_again,
        the_size_of_a_chunk_that_never_ends_is_a_stall,
        switches_that_fit_nothing_are_bad_input;
}
