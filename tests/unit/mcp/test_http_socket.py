"""The listening socket of the HTTP servers."""

from __future__ import annotations

import asyncio
import socket

from smp_memory.integrations.mcp.http import listening_socket


def test_accepted_connections_send_small_answers_at_once() -> None:
    """Every answer waited 40 ms for a delayed acknowledgement, because asyncio did not see that the socket is TCP."""

    async def option() -> int:
        listener = listening_socket("127.0.0.1", 0)
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        server = await asyncio.start_server(accepted, sock=listener)
        async with server:
            _, writer = await asyncio.open_connection(*listener.getsockname())
            value = await found
            writer.close()
            await writer.wait_closed()
        return value

    assert asyncio.run(option()) != 0
