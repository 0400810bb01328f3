"""An hq-interop client on aioquic: client.py PORT CERTIFICATE DIR PATH...

Fetches each PATH from localhost, all over one connection, into DIR, and prints for each the file
that it wrote, or the code of the server's reset. AIOQUIC_V2 in the environment has it offer version 2 of QUIC, or
begin with it if its value is "first". It prints the version on stderr.
"""

import asyncio
import os
import pathlib
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamReset
from aioquic.quic.packet import QuicProtocolVersion


class Client(QuicConnectionProtocol):
    """Tells of a stream's reset, which a StreamReader waits through."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.resets = {}

    def reset_of(self, stream):
        return self.resets.setdefault(stream, asyncio.get_running_loop().create_future())

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.reset_of(event.stream_id).set_result(event.error_code)
        super().quic_event_received(event)


async def fetch(client, path):
    """The body and None, or None and the code of the reset."""
    reader, writer = await client.create_stream()
    writer.write(f"GET {path}\r\n".encode("ascii"))
    writer.write_eof()
    body = asyncio.ensure_future(reader.read())
    reset = client.reset_of(writer.get_extra_info("stream_id"))
    await asyncio.wait({body, reset}, return_when=asyncio.FIRST_COMPLETED)
    if reset.done():
        body.cancel()
        return None, reset.result()
    return body.result(), None


async def main(port, certificate, directory, *paths):
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["hq-interop"], server_name="localhost"
    )
    configuration.load_verify_locations(cafile=certificate)
    if "AIOQUIC_V2" in os.environ:
        versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
        configuration.supported_versions = versions
        first = os.environ["AIOQUIC_V2"] == "first"
        configuration.original_version = versions[0] if first else versions[1]
    async with connect(
        "127.0.0.1", int(port), configuration=configuration, create_protocol=Client
    ) as client:
        print(f"version {client._quic._version:#x}", file=sys.stderr)
        answers = await asyncio.gather(*(fetch(client, path) for path in paths))
    for path, (body, code) in zip(paths, answers):
        if code is not None:
            print(path, "reset", code)
            continue
        name = path.rsplit("/", 1)[1]
        (pathlib.Path(directory) / name).write_bytes(body)
        print(path, "wrote", name)


asyncio.run(main(*sys.argv[1:]))
