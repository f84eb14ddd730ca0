"""The calls of the event loop to the connection of a client, each with a guard.

uvloop takes an OSError out of such a call for one of the network: it closes the connection, and reports nothing. A
guard reports each exception, and closes only the client that it concerns.
"""

from __future__ import annotations

import asyncio

from mesh.listener.client_transport import ClientTransport


class GuardedConnection(asyncio.BaseProtocol):
    """The connection of one client. A subclass adds the calls that bring bytes. They have a guard inside them, since
    one around them would cost a further call:

        except BaseException as problem:
            self.client.failed(problem)

    `get_buffer` has a guard that raises, since it has no buffer to return:

        except BaseException as problem:
            raise no_buffer(self.client.failed, problem) from problem
    """

    client: ClientTransport

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Called with the transport of the client."""
        self.client.open(transport)

    def pace_answers(self) -> None:
        """Called when the client has stopped accepting data, and when it accepts data again."""

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            self.made(transport)
        except BaseException as problem:  # noqa: BLE001 - see the class
            self.client.failed(problem)
            transport.abort()  # type: ignore[attr-defined]  # the client may not have it yet

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.end()  # with a guard of its own

    def pause_writing(self) -> None:
        try:
            self.client.pause_writing()
            self.pace_answers()
        except BaseException as problem:  # noqa: BLE001 - see the class
            self.client.failed(problem)

    def resume_writing(self) -> None:
        try:
            self.client.resume_writing()
            self.pace_answers()
        except BaseException as problem:  # noqa: BLE001 - see the class
            self.client.failed(problem)
