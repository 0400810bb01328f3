//! The task behind a stack: when it ends, and who learns of it.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Stack, TcpListener, TcpStream};
use fullpipe_testkit::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::socket_pair::{
    A_WHILE, Fault, Pair, Seen, client, config, is_gone, pair, run, runtime, server, wires,
};

fn a_stack_that_nobody_has_ends() {
    let [(device, seen), _other] = wires();
    let runtime = runtime();
    let stack = runtime.block_on(async { Stack::start(device, 10) }).expect("a stack");
    let clone = stack.clone();
    until("the driver waits for something", || seen.reads() > 0);
    drop(stack);
    assert!(!is_gone(&seen), "a clone is the same stack");
    drop(clone);
    until("the driver has ended", || is_gone(&seen));
}

/// Streams keep it, and so does what they sent.
fn a_stack_that_has_worked_ends() {
    let runtime = runtime();
    let Pair { stacks, devices, listener, mut client, mut server } = run(&runtime, pair());
    let [client_stack, server_stack] = stacks;
    drop((client_stack, listener));
    run(&runtime, async {
        client.write_all(b"hello").await.expect("its stack is there");
        drop(client);
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.expect("its stack is there");
        assert_eq!(got, b"hello");
    });
    assert!(!is_gone(&devices[1]), "the server has its stream and its stack");
    drop(server);
    until("no connection is left", || server_stack.connections() == 0);
    drop(server_stack);
    until("the drivers have ended", || devices.iter().all(is_gone));
}

fn a_listener_keeps_a_stack() {
    let [(device, seen), _other] = wires();
    let runtime = runtime();
    let listener = runtime.block_on(async {
        let stack = Stack::start(device, 10).expect("a stack");
        TcpListener::bind(&stack, server(80), 4, &config()).expect("a listener")
    });
    until("the driver waits for something", || seen.reads() > 0);
    assert!(!is_gone(&seen));
    drop(listener);
    until("the driver has ended", || is_gone(&seen));
}

/// The connection's timers run on: it gives up, and the driver ends.
fn a_device_without_room_does_not_stop_the_clock() {
    let [(device, seen), _other] = wires();
    seen.set(Fault::Full);
    let runtime = runtime();
    run(&runtime, async {
        let stack = Stack::start(device, 10).expect("a stack");
        let user_timeout = fullpipe_cc::Duration::from_millis(50);
        let config = Config { user_timeout, ..config() };
        let connect = TcpStream::connect(&stack, client(0), server(80), &config);
        assert_eq!(connect.await.expect_err("nothing leaves").kind(), io::ErrorKind::TimedOut);
    });
    until("the driver has ended", || is_gone(&seen));
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Begins to wait in `future`; the number of times that it is woken from then on.
fn begin_to_wait<F: Future>(future: std::pin::Pin<&mut F>) -> Arc<Woken> {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(matches!(future.poll(&mut Context::from_waker(&waker)), Poll::Pending));
    woken
}

/// The error that everybody has who waits for a stack, or asks it for something, once `end` was
/// done to it.
fn error_after(end: impl FnOnce(Runtime, &Seen)) -> io::ErrorKind {
    let [driver, own] = [runtime(), runtime()];
    let Pair { stacks, devices, mut client, server: _server, listener: _listener } =
        run(&driver, pair());
    let listener = TcpListener::bind(&stacks[0], self::client(9), 4, &config());
    let listener = listener.expect("a listener");
    let kinds = {
        let (mut accept, mut one) = (pin!(listener.accept()), pin!(client.readable()));
        let mut two = pin!(client.readable());
        let woken = begin_to_wait(accept.as_mut());
        let readers = [begin_to_wait(one.as_mut()), begin_to_wait(two.as_mut())];
        end(driver, &devices[0]);
        let config = config();
        let connect = TcpStream::connect(&stacks[0], self::client(0), server(81), &config);
        let connect = run(&own, connect).expect_err("there is no driver");
        let all = readers.iter().chain([&woken]);
        all.for_each(|woken| until("a task is woken", || woken.0.load(Relaxed) == 1));
        [
            connect.kind(),
            run(&own, accept).expect_err("there is no driver").kind(),
            run(&own, one).expect_err("there is no driver").kind(),
            run(&own, two).expect_err("there is no driver").kind(),
        ]
    };
    let after = [
        run(&own, client.read(&mut [0; 9])).expect_err("there is no driver").kind(),
        run(&own, client.write(b"x")).expect_err("there is no driver").kind(),
        run(&own, client.shutdown()).expect_err("there is no driver").kind(),
        TcpListener::bind(&stacks[0], self::client(10), 4, &config())
            .expect_err("there is no driver")
            .kind(),
    ];
    assert!(kinds.iter().chain(&after).all(|kind| *kind == kinds[0]), "{kinds:?} {after:?}");
    until("the driver has ended", || is_gone(&devices[0]));
    kinds[0]
}

fn a_panic_of_the_device_is_an_error_for_all() {
    let kind = error_after(|driver, seen| {
        seen.set(Fault::Panics);
        // It drives on.
        std::mem::forget(driver);
    });
    assert_eq!(kind, io::ErrorKind::ConnectionAborted);
}

fn the_end_of_the_runtime_is_an_error_for_all() {
    let kind = error_after(|driver, _| driver.shutdown_background());
    assert_eq!(kind, io::ErrorKind::ConnectionAborted);
}

/// 0 bytes: it is not read again.
fn the_end_of_the_device_is_an_error_for_all() {
    let kind = error_after(|driver, seen| {
        seen.set(Fault::Ended);
        std::mem::forget(driver);
    });
    assert_eq!(kind, io::ErrorKind::ConnectionAborted);
}

fn an_error_of_the_device_is_one_for_all() {
    let kind = error_after(|driver, seen| {
        seen.set(Fault::Broken);
        std::mem::forget(driver);
    });
    assert_eq!(kind, io::ErrorKind::HostUnreachable);
}

fn tasks_that_wait_for_one_stream_are_all_woken() {
    let runtime = runtime();
    run(&runtime, async {
        let Pair { client, mut server, .. } = pair().await;
        let client = Arc::new(client);
        let wait = |client: Arc<TcpStream>| tokio::spawn(async move { client.readable().await });
        let waiting = [wait(Arc::clone(&client)), wait(Arc::clone(&client))];
        let (mut one, mut two) = (pin!(client.readable()), pin!(client.readable()));
        begin_to_wait(one.as_mut());
        begin_to_wait(two.as_mut());
        server.write_all(b"x").await.expect("it goes on");
        for task in waiting {
            task.await.expect("no panic").expect("it goes on");
        }
        one.await.expect("it goes on");
        two.await.expect("it goes on");
    });
}

/// The same for those that wait for room to write, and the end of one wait leaves the others.
fn tasks_that_wait_for_room_are_all_woken() {
    let runtime = runtime();
    run(&runtime, async {
        let Pair { client, mut server, .. } = pair().await;
        let chunk = vec![0; 1 << 20];
        let mut written = 0;
        while timeout(A_WHILE, client.writable()).await.is_ok() {
            while let Ok(count) = client.try_write(&chunk) {
                written += count;
            }
        }
        let (mut one, mut two) = (pin!(client.writable()), pin!(client.writable()));
        let woken = [begin_to_wait(one.as_mut()), begin_to_wait(two.as_mut())];
        {
            let mut third = pin!(client.writable());
            begin_to_wait(third.as_mut());
        }
        let mut got = vec![0; written];
        server.read_exact(&mut got).await.expect("it goes on");
        for woken in woken {
            until("a task is woken", || woken.0.load(Relaxed) == 1);
        }
        one.await.expect("it goes on");
        two.await.expect("it goes on");
    });
}

/// One connection, one task; and the traffic of connections that are accepted is no news.
fn a_connection_wakes_one_accept() {
    let runtime = runtime();
    run(&runtime, async {
        let Pair { stacks, listener, mut client, mut server, .. } = pair().await;
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(listener.accept())).collect();
        let woken: Vec<_> =
            waiting.iter_mut().map(|accept| begin_to_wait(accept.as_mut())).collect();
        let all = || woken.iter().map(|woken| woken.0.load(Relaxed)).sum::<u64>();
        client.write_all(&vec![0; 2_000_000]).await.expect("it goes on");
        server.read_exact(&mut vec![0; 2_000_000]).await.expect("it goes on");
        assert_eq!(all(), 0, "nobody connected");
        let (mut streams, config) = (Vec::new(), config());
        for connections in 1..=3 {
            let connect =
                TcpStream::connect(&stacks[0], self::client(0), self::server(80), &config);
            streams.push(connect.await.expect("it connects"));
            until("an accept is woken", || all() >= connections);
            assert_eq!(all(), connections);
        }
        // One that was woken and gives up hands the connection on to the next.
        let of = woken.iter().position(|woken| woken.0.load(Relaxed) == 1).expect("one was woken");
        drop(waiting.swap_remove(of));
        assert_eq!(all(), 4);
    });
}

fullpipe_testkit::tests! {
    [] a_stack_that_nobody_has_ends, a_stack_that_has_worked_ends, a_listener_keeps_a_stack,
        a_device_without_room_does_not_stop_the_clock, a_panic_of_the_device_is_an_error_for_all,
        the_end_of_the_runtime_is_an_error_for_all, the_end_of_the_device_is_an_error_for_all,
        an_error_of_the_device_is_one_for_all, tasks_that_wait_for_one_stream_are_all_woken,
        tasks_that_wait_for_room_are_all_woken, a_connection_wakes_one_accept;
}
