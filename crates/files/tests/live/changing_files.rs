//! Files that change while they are served: what a request gets is the file as it was opened, or an
//! error.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{fetch, start_and_connect, write_file};
use fullpipe_files::{ClientError, Content};
use fullpipe_testkit::{PATIENCE, inconclusive};

const SECRET: &[u8] = b"not for everybody";

/// Does something over and over until it is dropped.
struct Again(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Again {
    fn start(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            thread.join().expect("the thread ends well");
        }
    }
}

/// Puts a new `what` at `place` as one step, by renaming.
fn put(place: &Path, make: impl FnOnce(&Path)) {
    let beside = place.with_extension("new");
    make(&beside);
    std::fs::rename(&beside, place).expect("renamed");
}

#[tokio::main]
async fn a_file_that_is_cut_off_while_it_is_sent_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    write_file(&path, 20_000_000);
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    let mut response = client.get("/f").await.expect("an answer");
    let mut bytes = response.chunk().await.expect("data").expect("no end").len();
    // The stream's window holds the server back until the rest is read.
    std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("a file")
        .set_len(5_000_000)
        .expect("cut off");
    let error = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes += chunk.len(),
            Ok(None) => panic!("{bytes} bytes of 20000000 were given as the whole file"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Reset { code: 500 }), "{error}");
}

#[tokio::main]
async fn what_is_added_to_a_file_while_it_is_sent_is_not_sent() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    let data = write_file(&path, 20_000_000);
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    let mut response = client.get("/f").await.expect("an answer");
    let mut body = response.chunk().await.expect("data").expect("no end").to_vec();
    let mut file = std::fs::File::options().append(true).open(&path).expect("a file");
    std::io::Write::write_all(&mut file, &[7; 3_000_000]).expect("written");
    while let Some(chunk) = response.chunk().await.expect("data") {
        body.extend_from_slice(&chunk);
    }
    assert_eq!(body.len(), data.len());
    assert!(body == data, "the bytes that the file had");
}

#[tokio::main]
async fn a_link_that_is_swapped_in_while_a_request_is_answered_gives_nothing_from_outside() {
    let base = tempfile::tempdir().expect("a directory");
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    for dir in [&root, &outside] {
        std::fs::create_dir(dir).expect("a directory");
    }
    std::fs::create_dir(root.join("real")).expect("a directory");
    std::fs::write(root.join("real/f"), "for everybody").expect("a file");
    std::fs::write(outside.join("f"), SECRET).expect("a file");
    let swap = |root: PathBuf| {
        move || {
            put(&root.join("file"), |new| std::fs::write(new, "for everybody").expect("a file"));
            put(&root.join("dir"), |new| symlink("real", new).expect("a link"));
            // Sleeps: as long as the other half of the round takes.
            std::thread::sleep(Duration::from_micros(50));
            put(&root.join("file"), |new| symlink("../outside/f", new).expect("a link"));
            put(&root.join("dir"), |new| symlink("../outside", new).expect("a link"));
        }
    };
    let _swapping = Again::start(swap(root.clone()));
    let (_server, client) = start_and_connect(Content::Dir(root)).await;
    let (mut given, mut refused, mut secrets) = (0, 0, 0);
    for _ in 0..6000 {
        for path in ["/file", "/dir/f"] {
            match fetch(&client, path).await {
                Ok(body) if body == SECRET => secrets += 1,
                Ok(body) if body == b"for everybody" => given += 1,
                Err(ClientError::Reset { code: 403 | 404 }) => refused += 1,
                other => panic!("{path}: {other:?}"),
            }
        }
    }
    assert_eq!(secrets, 0, "secrets among {given} files and {refused} refusals");
    if given <= 100 || refused <= 100 {
        inconclusive(format!("{given} files, {refused} refusals: there was no race"));
    }
}

#[tokio::main]
async fn a_fifo_that_is_swapped_in_holds_no_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let (place, source) = (path.clone(), fifo.clone());
    let swapping = Again::start(move || {
        put(&place, |beside| std::fs::write(beside, "a file").expect("a file"));
        put(&place, |beside| std::fs::hard_link(&source, beside).expect("a link"));
    });
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    let client = Arc::new(client);
    let mut waiting = 0;
    for _ in 0..6000 {
        let answer = tokio::time::timeout(PATIENCE, fetch(&client, "/f")).await;
        match answer {
            Err(_) => waiting += 1,
            Ok(Ok(body)) => assert_eq!(body, b"a file"),
            Ok(Err(ClientError::Reset { code: 403 | 404 })) => {}
            Ok(other) => panic!("{other:?}"),
        }
        if waiting > 0 {
            break;
        }
    }
    drop(swapping);
    // Whoever waits for a writer of the FIFO would wait after the test.
    if waiting > 0 {
        let writer = std::fs::File::options().read(true).write(true).open(&fifo);
        // Sleeps: until whoever waits has opened it.
        std::thread::sleep(Duration::from_millis(100));
        drop(writer);
    }
    assert_eq!(waiting, 0, "an open waits for a writer");
}

fullpipe_testkit::tests! {
    [] a_file_that_is_cut_off_while_it_is_sent_is_an_error;
    [] what_is_added_to_a_file_while_it_is_sent_is_not_sent;
    long [] a_link_that_is_swapped_in_while_a_request_is_answered_gives_nothing_from_outside;
    long [] a_fifo_that_is_swapped_in_holds_no_thread;
}
