//! HTTP/1.1 over TCP: the kernel's, or ours behind a TUN device.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{self as own, Stack};
use http_body_util::Empty;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Args;
use super::connect::{FetchError, NotConnected};
use super::target::Target;
use crate::failure::Failure;
use crate::tun::algorithm;

/// The longest time for the end of a connection to arrive before it is reset.
const GOODBYE: Duration = Duration::from_secs(1);
/// Bytes after which a connection lets others run: of digits, a few milliseconds.
const TURN: usize = 256 << 10;
/// Connections at one time of our TCP.
const CONNECTIONS: usize = 1024;

/// A way to servers over TCP.
#[derive(Clone)]
pub(super) struct Dialer {
    own: Option<Own>,
    timeout: Duration,
}

#[derive(Clone)]
struct Own {
    stack: Stack,
    from: IpAddr,
    config: Config,
}

impl Dialer {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let own = match (&args.tun, args.from) {
            (Some(tun), Some(from)) => {
                let algorithm = algorithm(args.cc)?;
                let (stack, mtu) = tun.start(CONNECTIONS)?;
                Some(Own { stack, from, config: Config { algorithm, mtu, ..Config::default() } })
            }
            _ => None,
        };
        Ok(Self { own, timeout: args.connect_timeout.into() })
    }

    /// Connects to the first of the server's addresses that answers.
    async fn connect(&self, target: &Target) -> Result<SendRequest<Empty<Bytes>>, NotConnected> {
        let place = (target.host.as_str(), target.port);
        let connected = async {
            let Some(own) = &self.own else {
                return begin(TcpStream::connect(place).await?).await;
            };
            let is_of_family = |to: &SocketAddr| to.is_ipv4() == own.from.is_ipv4();
            let mut last = io::Error::other("the name has no address of the family of --from");
            for to in lookup_host(place).await?.filter(is_of_family) {
                let from = SocketAddr::new(own.from, 0);
                match own::TcpStream::connect(&own.stack, from, to, &own.config).await {
                    Ok(stream) => return begin(stream).await,
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match timeout(self.timeout, connected).await {
            Ok(connected) => connected.map_err(|error| {
                let passing = [ErrorKind::ConnectionRefused, ErrorKind::TimedOut];
                let may_pass = passing.contains(&error.kind());
                let reason = format!("cannot connect to {}: {error}", target.authority());
                NotConnected { failure: Failure::run(reason), may_pass }
            }),
            Err(_) => {
                let (server, time) = (target.authority(), self.timeout);
                let failure = Failure::run(format!("{server} did not answer for {time:?}"));
                Err(NotConnected { failure, may_pass: true })
            }
        }
    }

    /// The connections have been dropped: their ends go out.
    pub(super) async fn shutdown(&self) {
        if let Some(own) = &self.own {
            own.stack.shutdown(GOODBYE).await;
        }
    }
}

async fn begin<S>(stream: S) -> io::Result<SendRequest<Empty<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Paced { stream, read: 0 });
    let (requests, connection) = handshake(stream).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the end of a connection");
        }
    });
    Ok(requests)
}

/// A stream that lets others run after so many bytes. A server can send what is never a piece of a
/// body, as the digits of a chunk's size without end: hyper reads on while something comes, and
/// neither timers nor signals would be looked at.
struct Paced<S> {
    stream: S,
    /// Bytes since the others ran.
    read: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read >= TURN {
            this.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let outcome = Pin::new(&mut this.stream).poll_read(cx, into);
        match outcome {
            Poll::Pending => this.read = 0,
            Poll::Ready(_) => this.read += into.filled().len() - before,
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A server that is asked for one file after the other.
pub(super) struct Client {
    dialer: Dialer,
    target: Target,
    kept: Mutex<Kept>,
}

/// A connection that is kept from one file to the next.
struct Kept {
    requests: SendRequest<Empty<Bytes>>,
    has_answered: bool,
}

impl Client {
    pub(super) async fn connect(dialer: &Dialer, target: &Target) -> Result<Self, NotConnected> {
        let requests = dialer.connect(target).await?;
        let kept = Mutex::new(Kept { requests, has_answered: false });
        Ok(Self { dialer: dialer.clone(), target: target.clone(), kept })
    }

    async fn again(&self) -> Result<Kept, FetchError> {
        let connected = self.dialer.connect(&self.target).await;
        let requests = connected.map_err(|error| FetchError::Tcp(error.failure.to_string()))?;
        Ok(Kept { requests, has_answered: false })
    }

    /// The answer to a GET with these fields, once its header is there.
    pub(super) async fn ask(
        &self,
        path: &str,
        fields: &HeaderMap,
    ) -> Result<Response<Incoming>, FetchError> {
        let request = || -> Result<_, FetchError> {
            let request = Request::get(path).header(header::HOST, self.target.authority());
            let request = request.body(Empty::new());
            let mut request = request.map_err(|error| FetchError::Tcp(error.to_string()))?;
            request.headers_mut().extend(fields.clone());
            Ok(request)
        };
        let mut kept = self.kept.lock().await;
        if kept.requests.ready().await.is_err() {
            // A server may close a connection after any answer (RFC 9112 section 9.3).
            *kept = self.again().await?;
        }
        let mut answer = kept.requests.send_request(request()?).await;
        if kept.has_answered && answer.as_ref().is_err_and(|error| !error.is_parse()) {
            // Or while the next request is on its way (RFC 9112 section 9.3.1).
            *kept = self.again().await?;
            answer = kept.requests.send_request(request()?).await;
        }
        let answer = answer.map_err(lost)?;
        kept.has_answered = true;
        match is_framed(&answer) {
            true => Ok(answer),
            false => Err(FetchError::Tcp(
                "the answer has another transfer-encoding than chunked".to_owned(),
            )),
        }
    }
}

/// False for a body in a transfer coding that nobody takes off: hyper takes off chunked alone, and
/// nobody asked for another one (RFC 9112 sections 6.1 and 7.4).
fn is_framed<B>(answer: &Response<B>) -> bool {
    let mut codings = answer.headers().get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(one), None) => one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The next bytes of a body, never empty; `None` after the last.
pub(super) fn poll_chunk(
    response: &mut Response<Incoming>,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, FetchError>> {
    while let Some(frame) = ready!(Pin::new(response.body_mut()).poll_frame(cx)) {
        match frame.map_err(lost)?.into_data() {
            Ok(data) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
            _nothing_or_trailers => {}
        }
    }
    Poll::Ready(Ok(None))
}

fn lost(error: hyper::Error) -> FetchError {
    use std::error::Error;
    // The reason is behind it: "connection reset", "end of file before message length reached".
    FetchError::Tcp(error.source().map_or_else(|| error.to_string(), ToString::to_string))
}
