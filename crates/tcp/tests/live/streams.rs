//! Streams and listeners, as users of tokio's own expect them.

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use fullpipe_tcp::tokio::{Stack, TcpListener, TcpStream};
use fullpipe_tcp::{Config, State};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::socket_pair::{
    A_WHILE, Pair, client, config, pair, pair_with, run, runtime, server, wires,
};

/// As std has them.
fn errors_have_the_kinds_of_std() {
    run(&runtime(), async {
        let Pair { stacks, mut client, server, listener, .. } = pair().await;
        client.shutdown().await.expect("it goes on");
        for data in [&b"x"[..], b""] {
            let error = client.write(data).await.expect_err("it is closed for writing");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            let error = client.try_write(data).expect_err("it is closed for writing");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        drop((listener, server));
        let config = config();
        let refused = TcpStream::connect(&stacks[0], self::client(0), self::server(80), &config);
        assert_eq!(refused.await.expect_err("nobody").kind(), io::ErrorKind::ConnectionRefused);
    });
}

/// Nobody answers: a connect is over after the configuration's user timeout.
fn a_connect_that_nobody_answers_times_out() {
    run(&runtime(), async {
        let Pair { stacks, devices, .. } = pair().await;
        devices[1].set(crate::socket_pair::Fault::Full);
        let user_timeout = fullpipe_cc::Duration::from_millis(50);
        let config = Config { user_timeout, ..config() };
        let connect = TcpStream::connect(&stacks[0], client(0), server(80), &config);
        assert_eq!(connect.await.expect_err("nobody").kind(), io::ErrorKind::TimedOut);
    });
}

/// A shorter limit than the configuration's.
fn a_connect_that_is_dropped_leaves_nothing() {
    let [(device, _seen), _other] = wires();
    run(&runtime(), async {
        let stack = Stack::start(device, 1).expect("a stack");
        let config = Config::default();
        let connect = || TcpStream::connect(&stack, client(0), server(80), &config);
        assert!(tokio::time::timeout(A_WHILE, connect()).await.is_err());
        while stack.connections() > 0 {
            tokio::task::yield_now().await;
        }
        let (one, two) =
            tokio::join!(async { tokio::time::timeout(A_WHILE, connect()).await }, async {
                connect().await
            });
        assert!(one.is_err());
        let error = two.expect_err("the stack may have one connection");
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    });
}

fn an_empty_write_needs_no_room() {
    run(&runtime(), async {
        let config = Config { send_buffer: 10_000, ..config() };
        let Pair { mut client, server: _server, .. } = pair_with(&config).await;
        let chunk = vec![0; 1 << 20];
        while tokio::time::timeout(A_WHILE, client.write(&chunk)).await.is_ok() {}
        assert_eq!(client.write(b"").await.expect("it is nothing"), 0);
        assert_eq!(client.try_write(b"").expect("it is nothing"), 0);
    });
}

/// A write says at once that it is not possible, so there is nothing to wait for.
fn a_stream_that_is_closed_for_writing_is_writable() {
    run(&runtime(), async {
        let Pair { mut client, server: _server, .. } = pair().await;
        client.shutdown().await.expect("it goes on");
        client.writable().await.expect("it goes on");
    });
}

/// The longest that a cork holds a segment.
const CORK: Duration = Duration::from_millis(200);

/// More than the buffers hold goes each way at the same time.
const EACH_WAY: usize = 20_000_000;

async fn echo(mut server: TcpStream) {
    let (mut read, mut write) = server.split();
    tokio::io::copy(&mut read, &mut write).await.expect("it goes on");
    write.shutdown().await.expect("it goes on");
}

fn owned_halves_work_in_two_tasks() {
    run(&runtime(), async {
        let Pair { client, server, .. } = pair().await;
        let echo = tokio::spawn(echo(server));
        let (mut read, mut write) = client.into_split();
        assert_eq!(read.peer_addr().expect("its ends"), self::server(80));
        let sender = tokio::spawn(async move {
            write.write_all(&vec![7; EACH_WAY]).await.expect("it goes on");
            // Dropping it tells the end.
        });
        let mut got = Vec::new();
        read.read_to_end(&mut got).await.expect("it goes on");
        assert!(got.len() == EACH_WAY && got.iter().all(|byte| *byte == 7));
        sender.await.expect("no panic");
        echo.await.expect("no panic");
    });
}

fn borrowed_halves_work_in_one_task() {
    run(&runtime(), async {
        let Pair { mut client, server, .. } = pair().await;
        let echo = tokio::spawn(echo(server));
        let (mut read, mut write) = client.split();
        let data = vec![7; EACH_WAY];
        let send = async {
            write.write_all(&data).await.expect("it goes on");
            write.shutdown().await.expect("it goes on");
        };
        let mut got = Vec::new();
        let ((), read) = tokio::join!(send, read.read_to_end(&mut got));
        assert_eq!(read.expect("it goes on"), EACH_WAY);
        echo.await.expect("no panic");
    });
}

fn halves_of_one_stream_become_it_again() {
    run(&runtime(), async {
        let Pair { client, mut server, .. } = pair().await;
        let other = pair().await;
        let ((read, write), (other_read, other_write)) =
            (client.into_split(), other.client.into_split());
        let error = read.reunite(other_write).expect_err("they are of two streams");
        let mut client = write.reunite(error.0).expect("they are of one stream");
        other_read.reunite(error.1).expect("they are of one stream");
        // It is not closed for writing meanwhile.
        client.write_all(b"hello").await.expect("it goes on");
        server.read_exact(&mut [0; 5]).await.expect("it goes on");
        // Nor by a half that is forgotten.
        let (read, write) = client.into_split();
        write.forget();
        read.try_write(b"hello").expect("it goes on");
        server.read_exact(&mut [0; 5]).await.expect("it goes on");
        drop(read);
        assert_eq!(server.read(&mut [0; 5]).await.expect("the end"), 0);
    });
}

fn a_peek_leaves_the_data() {
    run(&runtime(), async {
        let Pair { client: mut stream, mut server, .. } = pair().await;
        let (mut one, mut two) = ([0; 9], [0; 3]);
        let write = async {
            server.write_all(b"hello").await.expect("it goes on");
            server.shutdown().await.expect("it goes on");
        };
        let (one_count, two_count, ()) =
            tokio::join!(stream.peek(&mut one), stream.peek(&mut two), write);
        assert_eq!(&one[..one_count.expect("data")], b"hello");
        assert_eq!(&two[..two_count.expect("data")], b"hel");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.expect("it goes on");
        assert_eq!(got, b"hello");
        assert_eq!(stream.peek(&mut one).await.expect("the end"), 0);
    });
}

/// All parts that there is room for, in order and in one segment.
fn a_write_takes_several_parts() {
    run(&runtime(), async {
        let config = Config { send_buffer: 1000, ..config() };
        let Pair { mut client, mut server, .. } = pair_with(&config).await;
        assert!(client.is_write_vectored());
        let long = [3; 2000];
        let parts = [&b"one"[..], b"", b"two", &long, b"no room"].map(IoSlice::new);
        assert_eq!(client.write_vectored(&parts).await.expect("room for some"), 1000);
        let mut got = [0; 1000];
        server.read_exact(&mut got).await.expect("it goes on");
        assert!(got.starts_with(b"onetwo") && got[6..].iter().all(|byte| *byte == 3));
        assert_eq!(client.info().expect("it is there").data_segs_out, 1);
        assert_eq!(client.write_vectored(&parts[1..2]).await.expect("nothing"), 0);
        client.shutdown().await.expect("it goes on");
        let error = client.write_vectored(&parts).await.expect_err("closed for writing");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

/// The peer has to learn that its data was lost (RFC 2525 section 2.17).
fn a_stream_that_is_dropped_with_unread_data_resets() {
    run(&runtime(), async {
        let Pair { mut client, server, .. } = pair().await;
        client.write_all(b"hello").await.expect("it goes on");
        server.readable().await.expect("it goes on");
        drop(server);
        let error = client.read(&mut [0; 9]).await.expect_err("the data was lost");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

fn a_stream_without_linger_resets() {
    run(&runtime(), async {
        let Pair { stacks, mut client, mut server, .. } = pair_with(&Config::default()).await;
        server.write_all(b"hello").await.expect("it goes on");
        client.read_exact(&mut [0; 5]).await.expect("it goes on");
        server.set_zero_linger();
        drop(server);
        let error = client.read(&mut [0; 9]).await.expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        // Without TIME-WAIT, which would take a minute.
        let is_gone = || stacks.iter().all(|stack| stack.connections() == 0);
        drop(client);
        while !is_gone() {
            tokio::task::yield_now().await;
        }
    });
}

/// Data that was written has its time to arrive, and no more.
fn a_stream_with_a_linger_resets_after_it() {
    run(&runtime(), async {
        // The peer reads nothing, so its window closes.
        let Pair { client, server, .. } = pair().await;
        let data = vec![1; 8 << 20];
        let mut written = 0;
        while written < data.len() && tokio::time::timeout(A_WHILE, client.writable()).await.is_ok()
        {
            written += client.try_write(&data[written..]).unwrap_or(0);
        }
        client.set_linger(Some(A_WHILE));
        drop(client);
        assert_eq!(server.broken().await.kind(), io::ErrorKind::ConnectionReset);
        // What arrives in time is not disturbed.
        let Pair { client, mut server, .. } = pair().await;
        client.try_write(b"all").expect("there is room");
        client.set_linger(Some(fullpipe_testkit::PATIENCE));
        drop(client);
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.expect("it ends well");
        assert_eq!(got, b"all");
    });
}

fn a_task_can_wait_until_everything_has_arrived() {
    run(&runtime(), async {
        let config = Config { unsent: 0, ..config() };
        let Pair { client, mut server, .. } = pair_with(&config).await;
        client.delivered().await.expect("nothing was written");
        for _ in 0..3 {
            // At least a byte may wait unsent.
            client.writable().await.expect("it goes on");
            assert_eq!(client.try_write(b"xyz").expect("there is room"), 1);
            client.delivered().await.expect("it goes on");
            let info = client.info().expect("it is there");
            assert_eq!(info.bytes_acked, info.bytes_sent);
        }
        client.shutdown_write().expect("it goes on");
        client.delivered().await.expect("it goes on");
        assert_eq!(client.info().expect("it is there").state, State::FinWait2);
        server.set_zero_linger();
        assert_eq!(server.read(&mut [0; 9]).await.expect("it goes on"), 3);
        drop(server);
        let error = client.broken().await;
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    });
}

/// The settings of a stream reach the connection; their effect is tested in virtual time. All waits
/// are for an event, and the times are the least.
fn a_stream_has_the_settings_of_a_socket() {
    run(&runtime(), async {
        let Pair { stacks, devices, client, mut server, .. } = pair().await;
        client.set_cork(true);
        let since = Instant::now();
        client.try_write(b"held").expect("there is room");
        server.read_exact(&mut [0; 4]).await.expect("it goes on");
        assert!(since.elapsed() >= CORK, "{:?}", since.elapsed());
        client.set_cork(false);
        assert!(client.info().expect("it is there").data_segs_out >= 1);

        let [mine, theirs] = [0, 1].map(|i| stacks[i].counters());
        assert_eq!((mine.active_opens, theirs.passive_opens), (1, 1));
        assert!(mine.segments_out >= 3 && theirs.segments_in >= 3);
        // Of the two ends' memory only one is bounded.
        stacks[0].set_memory_limit(1 << 20);
        let data = vec![7; 8 << 20];
        let written = client.try_write(&data).expect("there is room");
        assert!(written < 1 << 20, "{written} bytes");

        // Nothing arrives any more.
        devices[0].set(crate::socket_pair::Fault::Full);
        client.set_user_timeout(Duration::from_millis(1));
        assert_eq!(client.broken().await.kind(), io::ErrorKind::TimedOut);
    });
}

/// A second is the least idle time, so this is one of the long tests.
fn a_stream_asks_whether_its_peer_is_there() {
    run(&runtime(), async {
        let Pair { devices, client, server: _server, .. } = pair().await;
        devices[1].set(crate::socket_pair::Fault::Full);
        let idle = Duration::from_secs(1);
        client.set_keep_alive(Some(idle), Some(idle), 1);
        assert_eq!(client.broken().await.kind(), io::ErrorKind::TimedOut);
    });
}

/// TCP Fast Open: the second connection brings its data with the SYN.
fn a_stream_opens_with_data() {
    run(&runtime(), async {
        let config = Config { fast_open: true, ..config() };
        let Pair { stacks, listener, client: _first, server: _first_server, .. } =
            pair_with(&config).await;
        let (from, to) = (client(0), server(80));
        let connect = TcpStream::connect_with(&stacks[0], from, to, &config, b"question");
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("it connects");
            stream.read_exact(&mut [0; 8]).await.expect("it goes on");
            stream.write_all(b"answer").await.expect("it goes on");
            stream
        };
        let (connected, served) = tokio::join!(connect, serve);
        let (mut stream, written) = connected.expect("it connects");
        stream.read_exact(&mut [0; 6]).await.expect("it goes on");
        assert_eq!(written, 8);
        assert!(stream.info().expect("it is there").syn_data);
        assert!(served.info().expect("it is there").syn_data);
        assert_eq!(stacks[1].counters().fast_opens, 1);

        // Without it nothing leaves before the handshake is over, nor is anything kept for it.
        let off = self::config();
        let connect = TcpStream::connect_with(&stacks[0], from, to, &off, b"question");
        assert_eq!(connect.await.expect("it connects").1, 0);
    });
}

/// As tokio's own: the last task that polls, and one connection.
fn a_listener_can_be_polled() {
    run(&runtime(), async {
        let Pair { stacks, .. } = pair().await;
        let config = config();
        let port = |listener: &TcpListener| listener.local_addr().port();
        let bind = || TcpListener::bind(&stacks[1], server(0), 4, &config).expect("a free port");
        let (listener, another) = (bind(), bind());
        assert!(port(&listener) >= 49_152 && port(&listener) != port(&another));
        let accept = std::future::poll_fn(|context| listener.poll_accept(context));
        let to = server(port(&listener));
        let connect = async {
            tokio::task::yield_now().await;
            TcpStream::connect(&stacks[0], client(0), to, &config).await
        };
        let (accepted, connected) = tokio::join!(accept, connect);
        let ((_, peer), connected) = (accepted.expect("one"), connected.expect("it listens"));
        assert_eq!(peer, connected.local_addr().expect("its ends"));
    });
}

/// Without buffers and keys.
fn all_types_have_a_short_debug() {
    run(&runtime(), async {
        let Pair { stacks, listener, client, server: _server, .. } = pair().await;
        assert_eq!(format!("{:?}", stacks[0]), "Stack { connections: 1, failed: None, .. }");
        assert_eq!(format!("{listener:?}"), "TcpListener { local: 10.0.0.2:80, .. }");
        assert_eq!(listener.local_addr(), self::server(80));
        let local = client.local_addr().expect("its ends");
        let stream =
            format!("TcpStream {{ local: {local}, remote: 10.0.0.2:80, state: Established, .. }}");
        assert_eq!(format!("{client:?}"), stream);
        let (read, write) = client.into_split();
        assert_eq!(format!("{read:?}"), format!("OwnedReadHalf({stream})"));
        assert!(format!("{write:?}").starts_with("OwnedWriteHalf"));
    });
}

fullpipe_testkit::tests! {
    [] errors_have_the_kinds_of_std, a_connect_that_nobody_answers_times_out,
        a_connect_that_is_dropped_leaves_nothing, an_empty_write_needs_no_room,
        a_stream_that_is_closed_for_writing_is_writable,
        owned_halves_work_in_two_tasks, borrowed_halves_work_in_one_task,
        halves_of_one_stream_become_it_again, a_peek_leaves_the_data, a_write_takes_several_parts,
        a_stream_that_is_dropped_with_unread_data_resets, a_stream_without_linger_resets,
        a_stream_with_a_linger_resets_after_it, a_task_can_wait_until_everything_has_arrived,
        a_stream_has_the_settings_of_a_socket, a_stream_opens_with_data, a_listener_can_be_polled,
        all_types_have_a_short_debug;
    long [] a_stream_asks_whether_its_peer_is_there;
}
