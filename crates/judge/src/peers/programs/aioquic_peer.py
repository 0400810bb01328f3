"""A sender over aioquic: the server answers each stream with data without an end, the client reads it.

aioquic_peer.py server ADDRESS PORT ALGORITHM CERTIFICATE KEY
aioquic_peer.py client ADDRESS PORT
"""
import asyncio
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived

PROTOCOLS = ["peer"]
# Flow control is not to be what limits the sender.
WINDOW = 64 << 20
# Written and not yet sent.
AHEAD = 1 << 20


class Sender(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and not hasattr(self, "feeding"):
            self.feeding = asyncio.ensure_future(self.feed(event.stream_id))
        if isinstance(event, ConnectionTerminated) and hasattr(self, "feeding"):
            self.feeding.cancel()

    async def feed(self, stream_id):
        block = bytes(256 << 10)
        while True:
            sender = self._quic._streams[stream_id].sender
            while sender._buffer_stop - sender.highest_offset < AHEAD:
                self._quic.send_stream_data(stream_id, block)
                self.transmit()
            await asyncio.sleep(0.005)


class Receiver(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            sys.exit(f"the connection ended: {event.reason_phrase or event.error_code}")


async def server(address, port, algorithm, certificate, key):
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=PROTOCOLS, congestion_control_algorithm=algorithm
    )
    configuration.load_cert_chain(certificate, key)
    await serve(address, port, configuration=configuration, create_protocol=Sender)
    await asyncio.Event().wait()


async def client(address, port):
    configuration = QuicConfiguration(
        alpn_protocols=PROTOCOLS, verify_mode=ssl.CERT_NONE, max_data=WINDOW, max_stream_data=WINDOW
    )
    async with connect(
        address, port, configuration=configuration, create_protocol=Receiver
    ) as protocol:
        stream_id = protocol._quic.get_next_available_stream_id()
        protocol._quic.send_stream_data(stream_id, b"?")
        protocol.transmit()
        await asyncio.Event().wait()


if sys.argv[1] == "server":
    asyncio.run(server(sys.argv[2], int(sys.argv[3]), *sys.argv[4:7]))
else:
    asyncio.run(client(sys.argv[2], int(sys.argv[3])))
