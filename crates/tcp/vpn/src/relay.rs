//! The data of two connections that are one.

use fullpipe_tcp::tokio::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net as kernel;

/// A connection that can end with a reset.
pub(crate) trait Reset: AsyncRead + AsyncWrite + Unpin {
    /// Its drop resets it.
    fn reset_on_drop(&self);
}

impl Reset for TcpStream {
    fn reset_on_drop(&self) {
        self.set_zero_linger();
    }
}

impl Reset for kernel::TcpStream {
    fn reset_on_drop(&self) {
        // One that is gone cannot be reset.
        let _ = self.set_zero_linger();
    }
}

/// Passes on what each of two connections gives, until both directions have ended. If one of the
/// connections is broken the other one is reset: with an ordinary end, data that was cut off would
/// look whole.
pub(crate) async fn relay(mut near: impl Reset, mut far: impl Reset) {
    if copy_bidirectional(&mut near, &mut far).await.is_err() {
        near.reset_on_drop();
        far.reset_on_drop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair() -> (kernel::TcpStream, kernel::TcpStream) {
        let listener = kernel::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let connect = kernel::TcpStream::connect(listener.local_addr().expect("its address"));
        let (connected, accepted) = tokio::join!(connect, listener.accept());
        (connected.expect("a listener"), accepted.expect("a connection").0)
    }

    /// What one end does after it has sent a part, and what the other one sees after that part.
    async fn after_a_part(end: impl FnOnce(kernel::TcpStream)) -> std::io::Result<usize> {
        let ((mut client, near), (far, mut server)) = (pair().await, pair().await);
        tokio::spawn(relay(near, far));
        client.write_all(b"part").await.expect("it is open");
        let mut part = [0; 4];
        server.read_exact(&mut part).await.expect("it is passed on");
        end(client);
        server.read(&mut part).await
    }

    #[tokio::test]
    async fn a_reset_is_passed_on_as_one() {
        let seen = after_a_part(|client| client.reset_on_drop()).await;
        assert_eq!(seen.expect_err("data may be missing").kind(), ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn an_end_is_passed_on_as_one() {
        assert_eq!(after_a_part(drop).await.expect("an ordinary end"), 0);
    }
}
