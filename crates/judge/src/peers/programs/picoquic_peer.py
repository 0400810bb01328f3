"""A sender over picoquic, by aiopquic: the server answers each stream with data without an end, the client reads it.

picoquic_peer.py server ADDRESS PORT ALGORITHM CERTIFICATE KEY
picoquic_peer.py client ADDRESS PORT
"""
import asyncio
import ssl
import sys

from aiopquic.asyncio import connect, serve
from aiopquic.asyncio.protocol import QuicConnectionProtocol
from aiopquic.quic.configuration import QuicConfiguration
from aiopquic.quic.events import ConnectionTerminated, StreamDataReceived

PROTOCOLS = ["peer"]


class Sender(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and not hasattr(self, "feeding"):
            self.feeding = asyncio.ensure_future(self.feed(event.stream_id))
        if isinstance(event, ConnectionTerminated) and hasattr(self, "feeding"):
            self.feeding.cancel()

    async def feed(self, stream_id):
        block = bytes(256 << 10)
        while True:
            await self._quic.send_stream_data_drained(stream_id, block, False)


class Receiver(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            sys.exit(f"the connection ended: {event.error_code}")


async def server(address, port, algorithm, certificate, key):
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=PROTOCOLS,
        certificate_file=certificate,
        private_key_file=key,
        congestion_control_algorithm=algorithm,
    )
    await serve(address, port, configuration=configuration, create_protocol=Sender)
    await asyncio.Event().wait()


async def client(address, port):
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=PROTOCOLS, verify_mode=ssl.CERT_NONE, server_name="localhost"
    )
    async with connect(
        address, port, configuration=configuration, create_protocol=Receiver
    ) as protocol:
        protocol._quic.send_stream_data(protocol._quic.get_next_available_stream_id(), b"?", False)
        await asyncio.Event().wait()


if sys.argv[1] == "server":
    asyncio.run(server(sys.argv[2], int(sys.argv[3]), *sys.argv[4:7]))
else:
    asyncio.run(client(sys.argv[2], int(sys.argv[3])))
