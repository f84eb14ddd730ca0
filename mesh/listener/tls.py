"""TLS on a listener: contexts from files, and the handshake of each accepted connection.

The mesh begins each handshake itself; the listening socket has no TLS. So each handshake uses the context of that
moment, and a handshake that fails is counted and logged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import anyio
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates

from mesh.config.listeners import FIRST, ListenerName
from mesh.config.security.model import ListenerTls, TlsConfig
from mesh.files import read_file
from mesh.listener.limits import network_of
from mesh.listener.listener import Listener
from mesh.tasks import OwnedTask, TaskName, Tasks
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger

log = get_logger(__name__)

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for a TLS handshake."""
MOST_HANDSHAKES: Final = 500
"""The most handshakes at a time on one listener. Above it, further connections are closed at once. One address gets no
more handshakes than it leaves to others, so unfinished handshakes do not lock out other addresses."""
BACKLOG: Final = 1024
"""The most connections that wait to be accepted."""
OUT_OF_FILES_DELAY: Final = 0.2
"""Seconds until the next accept, when the process is out of file descriptors."""


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Makes the TLS context of a configuration. Raises OSError (ssl.SSLError is one) or ValueError if the files cannot
    be used; the message names the file and the reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _WithoutDecodedCertificate
    context.sni_callback = _remember_name
    context.minimum_version = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[
        config.minimum_version
    ]
    for path in (config.certificate_file, config.key_file):
        read_file(path)  # raises an OSError with the file's name; OpenSSL's error has none
    try:
        # Without a callback OpenSSL would ask for the password at a terminal.
        context.load_cert_chain(config.certificate_file, config.key_file, lambda: config.key_password or "")
    except ssl.SSLError as error:
        files = f"{config.certificate_file} and {config.key_file}"
        mismatch = f"{files} are no certificate and its private key ({_reason(error)})"
        raise ValueError(mismatch if error.reason else _unreadable(config) or mismatch) from None
    if isinstance(config, ListenerTls) and config.client_ca_file is not None:
        read_file(config.client_ca_file)
        try:
            context.load_verify_locations(config.client_ca_file)
        except ssl.SSLError as error:
            raise ValueError(f"{config.client_ca_file} holds no certificate ({_reason(error)})") from None
        modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
        context.verify_mode = modes[config.client_authentication]
    return context


def _unreadable(config: TlsConfig) -> str:
    """Returns which of the two files OpenSSL could not decode, and why: OpenSSL itself does not tell. "" if neither is
    found to be wrong."""
    try:
        load_pem_x509_certificates(read_file(config.certificate_file))
    except ValueError:
        return f"{config.certificate_file} holds no certificate in PEM"
    password = config.key_password
    try:
        load_pem_private_key(read_file(config.key_file), password.encode() if password else None)
    except TypeError:
        return "" if password else f"{config.key_file} is encrypted, and key_password is not set"
    except ValueError:
        return f"{config.key_file} holds no private key in PEM" + (" that key_password opens" if password else "")
    except UnsupportedAlgorithm as problem:
        return f"{config.key_file}: {problem}"
    return ""


class _WithoutDecodedCertificate(ssl.SSLObject):
    """An end of a TLS connection that gives certificates in DER only. Event loops decode the certificate of each peer,
    although no code uses the result. Python fails at texts that are not encoded as they should be."""

    def getpeercert(self, binary_form: bool = False) -> Any:
        return super().getpeercert(True) if binary_form else None


def _remember_name(connection: Any, name: str | None, context: ssl.SSLContext) -> None:
    connection.requested_name = name


def requested_name(transport: asyncio.BaseTransport) -> str | None:
    """Returns the host that a client named in its handshake (SNI); None without TLS, and if it named none."""
    return getattr(transport.get_extra_info("ssl_object"), "requested_name", None)


class TlsListener:
    """Accepts connections at an address, makes them TLS connections, and gives them to a target.

    sockets: bound to the address; the listener closes them. accept: makes the protocol of a
    connection. name: the name of the listener with this TLS.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        listener: Listener,
        accept: Callable[[], asyncio.BaseProtocol],
        tasks: Tasks,
        name: ListenerName = FIRST,
    ) -> None:
        self._listener = listener
        self._name = name
        self._accept_one = accept
        self._tasks = tasks
        self._shaking: Counter[str] = Counter()
        self._rate = LogRate()
        self._sockets = sockets
        self._accepting: list[anyio.CancelScope] = []

    async def start_serving(self) -> None:
        for listening in self._sockets:
            listening.setblocking(False)
            listening.listen(BACKLOG)
            scope = anyio.CancelScope()
            self._accepting.append(scope)
            self._tasks.start(self._task(TaskName.ACCEPTING), partial(self._accept, listening, scope))

    def close(self) -> None:
        """Stops accepting connections."""
        for scope in self._accepting:
            scope.cancel()

    async def _accept(self, listening: socket.socket, scope: anyio.CancelScope) -> None:
        with listening, scope:
            await self._tasks.keep_running(self._task(TaskName.ACCEPTING), partial(self._accept_all, listening))

    def _task(self, name: TaskName) -> OwnedTask:
        return OwnedTask(name, self._listener.name)

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                log.error("accepting connections failed", virtual_cluster=self._listener.name, reason=str(error))
                await anyio.sleep(OUT_OF_FILES_DELAY)
                continue
            network = network_of(str(peer[0]))
            if self._shaking[network] >= MOST_HANDSHAKES - self._shaking.total():
                accepted.close()
                self._failed(str(peer[0]), "busy", f"{self._shaking.total()} handshakes at the same time")
            elif not self._listener.admission.begin_handshake():
                accepted.close()
                self._failed(str(peer[0]), "busy", "no descriptor left")
            else:
                self._shaking[network] += 1
                handshake = partial(self._shake, accepted, str(peer[0]))
                self._tasks.start(self._task(TaskName.HANDSHAKE), handshake)

    async def _shake(self, accepted: socket.socket, client_host: str) -> None:
        try:
            tls = self._listener.security.tls_of(self._name)
            if tls is None:  # TLS was removed in the meantime
                accepted.close()
                return
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._accept_one,
                accepted,
                ssl=tls.context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            )
        except ssl.SSLError as error:
            self._failed(client_host, "handshake", _reason(error))
        except ValueError as error:
            self._failed(client_host, "handshake", str(error))
        except TimeoutError:
            self._failed(client_host, "timeout", f"not finished within {HANDSHAKE_TIMEOUT:g} s")
        except OSError as error:
            late = "is taking longer" in str(error)  # asyncio and uvloop word it differently
            self._failed(client_host, "timeout" if late else "closed", str(error) or "the client closed the connection")
        finally:
            self._listener.admission.end_handshake()
            network = network_of(client_host)
            self._shaking[network] -= 1
            if not self._shaking[network]:
                del self._shaking[network]

    def _failed(self, client_host: str, reason: str, detail: str) -> None:
        self._listener.metrics.tls_failure(self._listener.name, reason)
        left_out = self._rate.admit(asyncio.get_running_loop().time())
        if left_out is not None:
            log.warning(
                "TLS handshake failed",
                virtual_cluster=self._listener.name,
                client_host=client_host,
                reason=reason,
                detail=detail,
                left_out=left_out,
            )


def _reason(error: ssl.SSLError) -> str:
    # Returns OpenSSL's own word, such as TLSV1_ALERT_UNKNOWN_CA, without its file names and line numbers.
    return str(error.reason or error.strerror or type(error).__name__).lower().replace("_", " ")
