//! HTTP/3 in bulk: clients of other people's stacks fetch 1 GB, and 10,000 small files, from
//! `fullpipe serve`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fullpipe_testkit::{program, skip};

use crate::common::{Serve, names, run, serve, sha256, write_file};

fullpipe_testkit::tests! {
    long []
        quic_go_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte,
        aioquic_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte,
        ngtcp2_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte;
}

const GIGABYTE: usize = 1_000_000_000;
const FILES: usize = 10_000;
/// Over one connection: the URLs of all would not fit into a variable of the environment.
const FILES_OF_A_CONNECTION: usize = 2500;
/// A small file has this many bytes at most.
const SMALL_BYTES: usize = 3000;

/// The command of a stack that is an end of an interop case; why there is none.
fn client(name: &str) -> Result<Command, String> {
    let peers = std::env::var_os("FULLPIPE_PEERS").map_or_else(
        || {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            cache.unwrap_or_else(|| home.join(".cache")).join("fullpipe/peers")
        },
        PathBuf::from,
    );
    let installed = |program: &str, words: &[&str]| {
        let program = peers.join(name).join(program);
        if !program.is_file() {
            return Err(format!("write fullpipe peers install {name}"));
        }
        let mut command = Command::new(program);
        command.current_dir(peers.join(name)).args(words);
        Ok(command)
    };
    match name {
        "quic-go" => installed("interop", &[]),
        "aioquic" => installed("venv/bin/python", &["python_interop.py", "aioquic"]),
        _ => {
            program("gtlsclient").ok_or("apt-get install ngtcp2-client")?;
            let own = Path::new(env!("CARGO_MANIFEST_DIR"));
            Ok(Command::new(own.join("../judge/src/peers/programs/ngtcp2_interop.sh")))
        }
    }
}

fn fetch(client: &Command, server: &Serve, files: &[String], downloads: &Path) {
    let mut command = Command::new(client.get_program());
    command.args(client.get_args());
    if let Some(dir) = client.get_current_dir() {
        command.current_dir(dir);
    }
    let url = |name: &String| format!("https://{}/{name}", server.address);
    let urls: Vec<String> = files.iter().map(url).collect();
    command.env("ROLE", "client").env("TESTCASE", "http3").env("REQUESTS", urls.join(" "));
    command.env("DOWNLOADS", downloads).env_remove("QLOGDIR").env_remove("SSLKEYLOGFILE");
    let said = run(command);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

fn quic_go_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte() {
    all_come("quic-go");
}

fn aioquic_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte() {
    all_come("aioquic");
}

fn ngtcp2_gets_a_gigabyte_and_ten_thousand_files_byte_for_byte() {
    all_come("ngtcp2");
}

fn all_come(name: &str) {
    if std::env::var_os("BULK_HTTP3").is_none() {
        skip("it takes five minutes and 2 GB of disk: BULK_HTTP3=1 runs it");
    }
    let client = client(name).unwrap_or_else(|why| skip(format!("no {name}: {why}")));
    let dir = tempfile::tempdir().expect("a directory");
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    for www in [&large, &small] {
        std::fs::create_dir(www).expect("a directory");
    }
    write_file(&large.join("1GB"), GIGABYTE);
    write_file(&dir.path().join("bytes"), FILES + SMALL_BYTES);
    let bytes = std::fs::read(dir.path().join("bytes")).expect("a file");
    for i in 0..FILES {
        let content = &bytes[i..][..i * 7 % SMALL_BYTES];
        std::fs::write(small.join(format!("{i:04}")), content).expect("a file");
    }
    for www in [&large, &small] {
        let server = serve(www, &[]);
        let downloads = dir.path().join("downloads");
        std::fs::create_dir(&downloads).expect("a directory");
        let files = names(www);
        let begun = Instant::now();
        for some in files.chunks(FILES_OF_A_CONNECTION) {
            fetch(&client, &server, some, &downloads);
        }
        let elapsed_s = begun.elapsed().as_secs_f64();
        assert_eq!(names(&downloads), files, "{name}");
        for file in &files {
            let (got, given) = (downloads.join(file), www.join(file));
            assert_eq!(sha256(&got), sha256(&given), "{name} {file}");
        }
        std::fs::remove_dir_all(&downloads).expect("it is there");
        eprintln!("{name}: {} files in {elapsed_s:.1} s", files.len());
    }
}
