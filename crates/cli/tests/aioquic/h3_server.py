"""An HTTP/3 server on aioquic: h3_server.py DIR CERTIFICATE KEY

Prints its UDP port and serves the files in DIR until it is killed.
"""

import asyncio
import pathlib
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Server(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        for http_event in self.http.handle_event(event):
            if isinstance(http_event, HeadersReceived):
                self.answer(http_event.stream_id, dict(http_event.headers))
        self.transmit()

    def answer(self, stream, headers):
        file = ROOT / headers[b":path"].decode().lstrip("/")
        if not file.is_file():
            self.http.send_headers(stream, [(b":status", b"404")], end_stream=True)
            return
        body = file.read_bytes()
        length = str(len(body)).encode()
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", length)])
        self.http.send_data(stream, body, end_stream=True)


async def main(certificate, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Server)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().create_future()


ROOT = pathlib.Path(sys.argv[1])
asyncio.run(main(*sys.argv[2:]))
