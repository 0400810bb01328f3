//! Streams and listeners, as users of tokio's own expect them.

use std::io;

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::TcpStream;
use tokio::io::AsyncWriteExt;

use crate::socket_pair::{A_WHILE, Pair, client, config, pair, pair_with, run, runtime, server};

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

fullpipe_testkit::tests! {
    [] errors_have_the_kinds_of_std, a_connect_that_nobody_answers_times_out,
        an_empty_write_needs_no_room, a_stream_that_is_closed_for_writing_is_writable;
}
