"""An hq-interop server on aioquic: server.py DIR CERTIFICATE KEY

Prints its UDP port and serves the files in DIR until it is killed. With AIOQUIC_V2 in the environment it prefers
version 2 of QUIC. It prints the version of each connection on stderr.
"""

import asyncio
import os
import pathlib
import sys

from aioquic.asyncio.server import QuicServer
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted
from aioquic.quic.packet import QuicProtocolVersion


class Server(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            print(f"version {self._quic._version:#x}", file=sys.stderr, flush=True)
        super().quic_event_received(event)


async def answer(root, reader, writer):
    method, path = (await reader.readline()).decode("ascii").split()
    assert method == "GET", method
    writer.write((root / path.lstrip("/")).read_bytes())
    writer.write_eof()


async def main(root, certificate, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["hq-interop"])
    configuration.load_cert_chain(certificate, key)
    if "AIOQUIC_V2" in os.environ:
        versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
        configuration.supported_versions = versions
    loop = asyncio.get_running_loop()
    tasks = set()

    def on_stream(reader, writer):
        task = loop.create_task(answer(pathlib.Path(root), reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    transport, _ = await loop.create_datagram_endpoint(
        lambda: QuicServer(
            configuration=configuration, create_protocol=Server, stream_handler=on_stream
        ),
        local_addr=("127.0.0.1", 0),
    )
    print(transport.get_extra_info("sockname")[1], flush=True)
    await loop.create_future()


asyncio.run(main(*sys.argv[1:]))
