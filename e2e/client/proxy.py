"""HTTP CONNECT and SOCKS5 proxy on 127.0.0.1, both on one port.

    proxy.py FILE

Writes its port to FILE, and for each tunnel a line to stdout: `http` or `socks5`, host, port. SIGUSR1 resets the connections of
all tunnels.
"""

import asyncio
import os
import signal
import socket
import sys

tunnels = set()


async def connect(reader, writer, first):
    """Read `CONNECT host:port HTTP/1.1` and ignore the headers. Return kind, host, port and the response."""
    method, target, _ = (first + await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
    if method != b"CONNECT":
        raise ValueError(method)
    host, port = target.decode().rsplit(":", 1)
    return "http", host, int(port), b"HTTP/1.1 200 OK\r\n\r\n"


async def socks(reader, writer, first):
    """Read a SOCKS5 request (RFC 1928) without authentication. Return kind, host, port and the response."""
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    if 0 not in methods:
        raise ValueError(methods)
    writer.write(b"\x05\x00")
    _, command, _, kind = await reader.readexactly(4)
    if command != 1:
        raise ValueError(command)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    elif kind == 1:
        host = socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
    else:
        raise ValueError(kind)
    port = int.from_bytes(await reader.readexactly(2), "big")
    return "socks5", host, port, b"\x05\x00\x00\x01" + bytes(6)


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def serve(reader, writer):
    first = await reader.read(1)
    if not first:
        writer.close()
        return
    kind, host, port, response = await (socks if first == b"\x05" else connect)(reader, writer, first)
    server_reader, server_writer = await asyncio.open_connection(host, port)
    print(kind, host, port, flush=True)
    writer.write(response)
    both = {writer, server_writer}
    tunnels.update(both)
    await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
    tunnels.difference_update(both)
    for end in both:
        end.close()


def reset_tunnels():
    for end in tunnels:
        end.transport.abort()


async def main(file):
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, reset_tunnels)
    with open(file + ".new", "w") as out:
        print(server.sockets[0].getsockname()[1], file=out)
    os.rename(file + ".new", file)
    await server.serve_forever()


try:
    asyncio.run(main(sys.argv[1]))
except KeyboardInterrupt:
    pass
