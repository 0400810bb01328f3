"""An HTTP/3 client on aioquic: h3_client.py PORT CERTIFICATE DIR [METHOD[:RANGE]=]PATH...

Sends all requests over one connection at the same time. Prints a line for each: the path, the status, and the headers that
tell of a length or a range. The body goes into DIR under the path's last part.
"""

import asyncio
import pathlib
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

SHOWN = (b":status", b"content-length", b"content-range", b"allow")
AT_ONCE = 90


class Http(H3Connection):
    """Knows that the answer to HEAD has a length and no body, which aioquic takes for an error."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heads = set()

    def _check_content_length(self, stream):
        if stream.stream_id not in self.heads:
            super()._check_content_length(stream)


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = Http(self._quic)
        self.answers = {}

    async def request(self, method, path, byte_range):
        stream = self._quic.get_next_available_stream_id()
        headers = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", path.encode()),
        ]
        if byte_range:
            headers.append((b"range", byte_range.encode()))
        done = asyncio.get_running_loop().create_future()
        self.answers[stream] = ([], [], done)
        if method == "HEAD":
            self.http.heads.add(stream)
        self.http.send_headers(stream, headers, end_stream=True)
        self.transmit()
        return await done

    def quic_event_received(self, event):
        for http_event in self.http.handle_event(event):
            headers, body, done = self.answers[http_event.stream_id]
            if isinstance(http_event, HeadersReceived):
                headers.extend(http_event.headers)
            elif isinstance(http_event, DataReceived):
                body.append(http_event.data)
            if http_event.stream_ended:
                done.set_result((headers, b"".join(body)))


async def main(port, certificate, directory, *requests):
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=H3_ALPN, server_name="localhost"
    )
    configuration.load_verify_locations(cafile=certificate)
    async with connect(
        "127.0.0.1", int(port), configuration=configuration, create_protocol=Client
    ) as client:
        room = asyncio.Semaphore(AT_ONCE)

        async def fetch(request):
            method, _, path = request.rpartition("=") if request[0] != "/" else ("", "", request)
            method, _, byte_range = method.partition(":")
            async with room:
                headers, body = await client.request(method or "GET", path, byte_range)
            if body:
                (pathlib.Path(directory) / path.rsplit("/", 1)[1]).write_bytes(body)
            return path, [value.decode() for name, value in headers if name in SHOWN]

        for path, shown in await asyncio.gather(*(fetch(request) for request in requests)):
            print(path, *shown)


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 100))
