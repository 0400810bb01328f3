"""An endpoint of the QUIC interop runner over aioquic, or over picoquic by aiopquic: python_interop.py aioquic|aiopquic

The environment says what it does, as that of the runner's containers does: ROLE, TESTCASE, REQUESTS, WWW, DOWNLOADS, CERTS,
LISTEN, SSLKEYLOGFILE and QLOGDIR. A case that the stack lacks ends with 127.
"""

import asyncio
import importlib
import os
import pathlib
import ssl
import sys
import tempfile
import urllib.parse

STACK = sys.argv[1]
PICOQUIC = STACK == "aiopquic"
ROLE = os.environ["ROLE"]
CASE = os.environ["TESTCASE"]
V1, V2, CHACHA20 = 1, 0x6B3343CF, 0x1303
WINDOW, BLOCK = 16 << 20, 64 << 10
AT_ONCE = 500  # streams of a client

CASES = """handshake transfer longrtt multiplexing multiconnect retry resumption zerortt http3 blackhole keyupdate ecn chacha20
    amplificationlimit ipv6 v2 rebind-port rebind-addr connectionmigration handshakeloss transferloss handshakecorruption
    transfercorruption goodput crosstraffic"""
# aioquic marks no packet; aiopquic has HTTP/3 for WebTransport alone. Their servers have no
# preferred address.
LACKS = {("aioquic", "ecn"), ("aiopquic", "http3")}
no_address = CASE == "connectionmigration" and ROLE == "server"
if CASE not in CASES.split() or (STACK, CASE) in LACKS or no_address:
    print(f"{STACK} has no case '{CASE}' as {ROLE}", file=sys.stderr)
    sys.exit(127)

sockets = importlib.import_module(f"{STACK}.asyncio")
events = importlib.import_module(f"{STACK}.quic.events")
Protocol = importlib.import_module(f"{STACK}.asyncio.protocol").QuicConnectionProtocol
Configuration = importlib.import_module(f"{STACK}.quic.configuration").QuicConfiguration
if CASE == "http3":
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived


def configured(**more):
    """The settings of both ends of a connection."""
    alpn = ["h3" if CASE == "http3" else "hq-interop"]
    configuration = Configuration(
        alpn_protocols=alpn, congestion_control_algorithm="cubic", max_data=WINDOW, max_stream_data=WINDOW, **more
    )
    keys, qlogs = os.environ.get("SSLKEYLOGFILE"), os.environ.get("QLOGDIR")
    pathlib.Path(qlogs or ".").mkdir(parents=True, exist_ok=True)
    if PICOQUIC:
        # It reads SSLKEYLOGFILE itself.
        configuration.qlog_dir = qlogs
        if CASE == "chacha20":
            configuration.cipher_suite = CHACHA20
        if CASE == "keyupdate":
            configuration.key_update_interval = 100
        if CASE == "v2":
            configuration.supported_versions = [V2, V1]
        return configuration
    if keys:
        configuration.secrets_log_file = open(keys, "a", buffering=1)
    if qlogs:
        configuration.quic_logger = importlib.import_module("aioquic.quic.logger").QuicFileLogger(qlogs)
    if CASE == "chacha20":
        configuration.cipher_suites = [importlib.import_module("aioquic.tls").CipherSuite(CHACHA20)]
    if CASE == "v2":
        configuration.supported_versions = [V2, V1]
        configuration.original_version = V1
    return configuration


class End(Protocol):
    """Hands the bytes of a stream on, with the headers of HTTP/3 before them where there are some."""

    def __init__(self, quic, **more):
        super().__init__(quic, **more)
        self.http = H3Connection(quic) if CASE == "http3" else None

    def send(self):
        if not PICOQUIC:
            self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, events.ConnectionTerminated):
            self.ended(f"the connection ended with {event.error_code} {event.reason_phrase}")
        elif isinstance(event, events.StreamReset):
            self.broken(event.stream_id, f"reset with {event.error_code}")
        elif self.http is None and isinstance(event, events.StreamDataReceived):
            self.came(event.stream_id, None, event.data, event.end_stream)
        elif self.http is not None:
            for part in self.http.handle_event(event):
                if isinstance(part, HeadersReceived):
                    self.came(part.stream_id, dict(part.headers), b"", part.stream_ended)
                elif isinstance(part, DataReceived):
                    self.came(part.stream_id, None, part.data, part.stream_ended)

    def ended(self, why):
        """Of the connection."""

    def broken(self, stream, why):
        """Of a stream."""


class Server(End):
    def __init__(self, quic, **more):
        super().__init__(quic, **more)
        self.requests, self.answers = {}, set()

    def came(self, stream, headers, data, end):
        if self.http is not None:
            return self.answer_http(stream, headers[b":path"].decode()) if headers else None
        request = self.requests.setdefault(stream, bytearray())
        request += data
        if end:
            words = self.requests.pop(stream).decode("latin-1").split()
            path = words[1] if len(words) == 2 and words[0] == "GET" else ""
            task = asyncio.ensure_future(self.answer(stream, path))
            self.answers.add(task)
            task.add_done_callback(self.answers.discard)

    def file(self, path):
        root = pathlib.Path(os.environ.get("WWW", "/www")).resolve()
        file = (root / path.lstrip("/")).resolve()
        return file.read_bytes() if file.is_relative_to(root) and file.is_file() else None

    def answer_http(self, stream, path):
        body = self.file(path)
        status = b"404" if body is None else b"200"
        self.http.send_headers(stream, [(b":status", status)], end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.send()

    async def answer(self, stream, path):
        body = self.file(path)
        if body is None:
            self._quic.reset_stream(stream, 404)
        elif PICOQUIC:
            for at in range(0, max(len(body), 1), BLOCK):
                end = at + BLOCK >= len(body)
                await self._quic.send_stream_data_drained(stream, body[at : at + BLOCK], end)
        else:
            self._quic.send_stream_data(stream, body, True)
        self.send()


class Client(End):
    def __init__(self, quic, **more):
        super().__init__(quic, **more)
        self.open, self.files, self.room = {}, {}, asyncio.Semaphore(AT_ONCE)
        self.key_updates = 0 if CASE == "keyupdate" and not PICOQUIC else 1

    async def fetch(self, url):
        path = urllib.parse.urlsplit(url).path
        async with self.room:
            stream = self._quic.get_next_available_stream_id()
            done = asyncio.get_running_loop().create_future()
            self.open[stream] = (path, done)
            if self.http is None:
                self._quic.send_stream_data(stream, f"GET {path}\r\n".encode(), True)
            else:
                host = urllib.parse.urlsplit(url).netloc.encode()
                named = {b":method": b"GET", b":scheme": b"https", b":authority": host, b":path": path.encode()}
                self.http.send_headers(stream, list(named.items()), end_stream=True)
            self.send()
            await done

    def came(self, stream, headers, data, end):
        if stream not in self.open:
            return
        path, done = self.open[stream]
        if headers and headers[b":status"] != b"200":
            return self.broken(stream, f"status {headers[b':status'].decode()}")
        if stream not in self.files:
            self.files[stream] = open(os.environ.get("DOWNLOADS", "/downloads") + "/" + path.rsplit("/", 1)[1], "wb")
        self.files[stream].write(data)
        if not self.key_updates:
            self.key_updates = 1
            self.request_key_update()
        if end:
            self.files.pop(stream).close()
            del self.open[stream]
            done.set_result(None)

    def broken(self, stream, why):
        if stream in self.open:
            self.open.pop(stream)[1].set_exception(ConnectionError(why))

    def ended(self, why):
        for stream in list(self.open):
            self.broken(stream, why)


async def connection(urls, configuration, came=None, early=False):
    """Fetches all over one connection, and waits for a session ticket if there is a place for it."""
    name = urllib.parse.urlsplit(urls[0])
    more = {"session_ticket_handler": came.set_result} if came else {}
    async with sockets.connect(
        name.hostname,
        name.port or 443,
        configuration=configuration,
        create_protocol=Client,
        wait_connected=not early,
        **more,
    ) as client:
        await asyncio.gather(*(client.fetch(url) for url in urls))
        if came:
            await asyncio.wait_for(came, 10)


async def client():
    urls = os.environ["REQUESTS"].split()
    configuration = configured(is_client=True, verify_mode=ssl.CERT_NONE)
    if CASE in ("multiconnect", "handshakeloss", "handshakecorruption"):
        for url in urls:
            await connection([url], configuration)
    elif CASE in ("resumption", "zerortt"):
        came = None
        if PICOQUIC:
            configuration.session_ticket_file = os.path.join(tempfile.mkdtemp(), "tickets")
        else:
            came = asyncio.get_running_loop().create_future()
        await connection(urls[:1], configuration, came)
        if came:
            configuration.session_ticket = came.result()
        await connection(urls[1:], configuration, early=CASE == "zerortt")
    else:
        await connection(urls, configuration)


async def server():
    configuration = configured(is_client=False)
    certs = pathlib.Path(os.environ.get("CERTS", "/certs"))
    configuration.load_cert_chain(str(certs / "cert.pem"), str(certs / "priv.key"))
    address, _, port = os.environ.get("LISTEN", "[::]:443").rpartition(":")
    more = {}
    if not PICOQUIC:
        tickets = {}
        more["session_ticket_handler"] = lambda ticket: tickets.update({ticket.ticket: ticket})
        more["session_ticket_fetcher"] = lambda label: tickets.pop(label, None)
    await sockets.serve(
        address.strip("[]"), int(port), configuration=configuration, create_protocol=Server, retry=CASE == "retry", **more
    )
    print("listens on port", port, flush=True)
    await asyncio.Event().wait()


asyncio.run({"server": server, "client": client}[ROLE]())
