"""Unmodified clients that authenticate: each reads the first records of a topic, in a thread or process.

A `Login` has librdkafka's properties; the properties of other clients are derived from them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka import KafkaConsumer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.security.certificates import Pair

TIMEOUT = 40.0
SECRET = "a secret that the issuer of tokens and the mesh share"


def token(name: str = "alice", seconds: float = 300.0, secret: str = SECRET) -> str:
    """An HS256 token that is valid for so long."""
    now = time.time()
    return jwt.encode({"sub": name, "iat": now, "exp": now + seconds}, secret, "HS256")


@dataclass(frozen=True, slots=True)
class Login:
    """A login. mechanism: None for no SASL. ca: the authority of the listener's certificate; None for no TLS. token:
    for OAUTHBEARER, a function that is called whenever one is needed."""

    mechanism: str | None = None
    ca: Path | None = None
    name: str = "alice"
    password: str = ""
    certificate: Pair | None = None
    token: Callable[[], str] = field(default=token)

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.ca else "PLAINTEXT")

    def librdkafka(self) -> dict[str, Any]:
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if self.ca is not None:
            found["ssl.ca.location"] = str(self.ca)
        if self.certificate is not None:
            found["ssl.certificate.location"] = str(self.certificate.certificate)
            found["ssl.key.location"] = str(self.certificate.key)
        if self.mechanism is not None:
            found["sasl.mechanism"] = self.mechanism
            if self.mechanism != "OAUTHBEARER":
                found |= {"sasl.username": self.name, "sasl.password": self.password}
        return found

    def with_callback(self) -> dict[str, Any]:
        """librdkafka's properties, and the source of tokens."""
        found = self.librdkafka()
        if self.mechanism == "OAUTHBEARER":
            found["oauth_cb"] = self._librdkafka_token
        return found

    def _librdkafka_token(self, _config: str) -> tuple[str, float]:
        text = self.token()
        return text, float(jwt.decode(text, options={"verify_signature": False})["exp"])


def confluent(servers: str, topic: str, group: str, count: int, login: Login) -> list[str]:
    properties = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**CLIENT_PROPERTIES, **properties, **login.with_callback()})
    try:
        consumer.subscribe([topic])
        return _read(lambda: [text_of(each) for each in consumer.consume(100, timeout=0.2)], count)
    finally:
        consumer.close()


def first_error(servers: str, login: Login, timeout: float = 20.0) -> KafkaError:
    """librdkafka's report of a failed login."""
    found: list[KafkaError] = []
    properties = {"bootstrap.servers": servers, "group.id": "refused", "error_cb": found.append}
    consumer = Consumer({**CLIENT_PROPERTIES, **properties, **login.with_callback()})
    try:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            consumer.poll(0.1)
            kinds = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
            if real := [each for each in found if each.code() not in kinds]:
                return real[0]
    finally:
        consumer.close()
    raise AssertionError(f"no error within {timeout} s: {found}")


def kafka_python(servers: str, topic: str, group: str, count: int, login: Login) -> list[str]:
    options: dict[str, Any] = {"security_protocol": login.protocol}
    if login.ca is not None:
        options |= {"ssl_cafile": str(login.ca), "ssl_check_hostname": False}
    if login.certificate is not None:
        options |= {"ssl_certfile": str(login.certificate.certificate), "ssl_keyfile": str(login.certificate.key)}
    if login.mechanism is not None:
        options["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = _KafkaPythonToken(login)
        else:
            options |= {"sasl_plain_username": login.name, "sasl_plain_password": login.password}
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", **options)
    try:
        return _read(lambda: [each.value.decode() for batch in consumer.poll(200).values() for each in batch], count)
    finally:
        consumer.close()


class _KafkaPythonToken(KafkaPythonTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    def token(self) -> str:
        return self._login.token()


def aiokafka(servers: str, topic: str, group: str, count: int, login: Login) -> list[str]:
    async def run() -> list[str]:
        options: dict[str, Any] = {"security_protocol": login.protocol}
        if login.ca is not None:
            context = create_ssl_context(cafile=str(login.ca))
            if login.certificate is not None:
                context.load_cert_chain(login.certificate.certificate, login.certificate.key)
            options["ssl_context"] = context
        if login.mechanism is not None:
            options["sasl_mechanism"] = login.mechanism
            if login.mechanism == "OAUTHBEARER":
                options["sasl_oauth_token_provider"] = _AiokafkaToken(login)
            else:
                options |= {"sasl_plain_username": login.name, "sasl_plain_password": login.password}
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", **options
        )
        await consumer.start()
        try:
            values: list[str] = []
            deadline = time.monotonic() + TIMEOUT
            while len(values) < count and time.monotonic() < deadline:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    values += [each.value.decode() for each in batch]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(run())


def fail_with_aiokafka(servers: str, login: Login) -> None:
    """Raises AssertionError if aiokafka can log in. librdkafka would not send a token that it knows to have expired."""
    with pytest.raises(KafkaConnectionError):
        aiokafka(servers, "none", "none", 1, login)


class _AiokafkaToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.token()


def kcat(servers: str, topic: str, group: str, count: int, login: Login) -> list[str]:
    # Its librdkafka (2.0) does not find an IP address in a certificate.
    properties = {**login.librdkafka(), "ssl.endpoint.identification.algorithm": "none"}
    settings = [part for name, value in properties.items() for part in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", servers, *settings, "-X", "auto.offset.reset=earliest", "-c", str(count), "-q"]
    return _lines([*command, "-G", group, topic])


def java_console(kafka: KafkaCluster, folder: Path) -> Callable[[str, str, str, int, Login], list[str]]:
    """Kafka's own kafka-console-consumer. folder: for its properties."""

    def read(servers: str, topic: str, group: str, count: int, login: Login) -> list[str]:
        file = folder / f"{group}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in _java(login, folder).items()))
        tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        arguments = ("--bootstrap-server", servers, "--topic", topic, "--group", group, "--from-beginning")
        limits = ("--max-messages", str(count), "--timeout-ms", str(int(TIMEOUT * 1000)))
        option = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + (folder / "token").as_uri()
        command = kafka.java(tool, *arguments, *limits, "--command-config", str(file))
        return _lines(command, {"JAVA_TOOL_OPTIONS": option})

    return read


def _java(login: Login, folder: Path) -> Mapping[str, str]:
    found = {"security.protocol": login.protocol}
    if login.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.ca)}
    if login.certificate is not None:
        both = folder / "client.pem"
        both.write_text(login.certificate.key.read_text() + login.certificate.certificate.read_text())
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    if login.mechanism is None:
        return found
    found["sasl.mechanism"] = login.mechanism
    modules = "org.apache.kafka.common.security"
    if login.mechanism == "OAUTHBEARER":
        (folder / "token").write_text(login.token())
        found |= {
            "sasl.oauthbearer.token.endpoint.url": (folder / "token").as_uri(),
            "sasl.login.callback.handler.class": f"{modules}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{modules}.oauthbearer.OAuthBearerLoginModule required;",
        }
    else:
        module = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
        who = f'username="{login.name}" password="{login.password}"'
        found["sasl.jaas.config"] = f"{modules}.{module}LoginModule required {who};"
    return found


def _read(poll: Callable[[], list[str]], count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + TIMEOUT
    while len(values) < count and time.monotonic() < deadline:
        values += poll()
    return values


def text_of(message: Any) -> str:
    if message.error() is not None:
        raise KafkaException(message.error())
    value: bytes = message.value()
    return value.decode()


def _lines(command: list[str], environment: Mapping[str, str] | None = None) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * TIMEOUT, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.split()
