"""An hq-interop server on aioquic: server.py DIR CERTIFICATE KEY

Prints its UDP port and serves the files in DIR until it is killed.
"""

import asyncio
import pathlib
import sys

from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration


async def answer(root, reader, writer):
    method, path = (await reader.readline()).decode("ascii").split()
    assert method == "GET", method
    writer.write((root / path.lstrip("/")).read_bytes())
    writer.write_eof()


async def main(root, certificate, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["hq-interop"])
    configuration.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    tasks = set()

    def on_stream(reader, writer):
        task = loop.create_task(answer(pathlib.Path(root), reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    transport, _ = await loop.create_datagram_endpoint(
        lambda: QuicServer(configuration=configuration, stream_handler=on_stream),
        local_addr=("127.0.0.1", 0),
    )
    print(transport.get_extra_info("sockname")[1], flush=True)
    await loop.create_future()


asyncio.run(main(*sys.argv[1:]))
