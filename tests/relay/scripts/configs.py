"""Configuration of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from typing import Any

from tests.relay.sides import ASKED, OTHER, Side

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_UNKNOWN = "nobody-knows-it"
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def _describe_configs(side: Side, version: int) -> None:
    def ask(resource_type: int, name: str, keys: Any = None, at: int = ASKED, **given: bool) -> None:
        resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
        side.ask("describe_configs", version, at, resources=[resource], **given)

    for keys in (None, [], ["retention.ms", "no.such.key"]):
        ask(_TOPIC, side.shared.topic, keys)
    for has_more in (False, True):
        ask(_TOPIC, side.shared.topic, include_synonyms=has_more, include_documentation=not has_more)
        ask(_BROKER, str(ASKED), include_synonyms=has_more, include_documentation=not has_more)
    ask(_BROKER, "")
    ask(_BROKER, str(OTHER))
    ask(_BROKER, str(ASKED), at=OTHER)
    ask(_BROKER, "no number")
    ask(_LOGGER, str(ASKED))
    ask(_GROUP, side.name("a-group"))
    ask(_METRICS, side.name("metrics"))
    ask(_TOPIC, _UNKNOWN)
    ask(7, "no type")


def _alter_configs(side: Side, version: int) -> None:
    def ask(resource_type: int, name: str, validate_only: bool = False, **configs: str | None) -> None:
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        resource = {"resource_type": resource_type, "resource_name": name, "configs": entries}
        side.ask("alter_configs", version, resources=[resource], validate_only=validate_only)

    ask(_TOPIC, side.topic, retention_ms="86400000", validate_only=True)
    ask(_TOPIC, side.topic, retention_ms="86400000")
    ask(_TOPIC, side.topic, retention_ms="no number")
    ask(_TOPIC, side.topic, no_such_key="1")
    ask(_TOPIC, side.topic)
    ask(_TOPIC, _UNKNOWN, retention_ms="1")
    ask(_BROKER, str(OTHER), validate_only=True, log_cleaner_threads="2")
    ask(_BROKER, "77", validate_only=True, log_cleaner_threads="2")
    ask(7, "no type", retention_ms="1")


def _incremental_alter_configs(side: Side, version: int) -> None:
    def ask(resource_type: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> None:
        entries = [{"name": key, "config_operation": what, "value": value} for key, what, value in changes]
        resource = {"resource_type": resource_type, "resource_name": name, "configs": entries}
        side.ask("incremental_alter_configs", version, resources=[resource], validate_only=validate_only)

    ask(_TOPIC, side.topic, ("retention.ms", _SET, "86400000"), validate_only=True)
    ask(_TOPIC, side.topic, ("retention.ms", _SET, "86400000"), ("cleanup.policy", _APPEND, "compact"))
    ask(_TOPIC, side.topic, ("cleanup.policy", _SUBTRACT, "compact"), ("retention.ms", _DELETE, None))
    ask(_TOPIC, side.topic, ("retention.ms", _APPEND, "1"))
    ask(_TOPIC, side.topic, ("retention.ms", 7, "1"))
    ask(_TOPIC, _UNKNOWN, ("retention.ms", _SET, "1"))
    ask(_BROKER, str(OTHER), ("log.cleaner.threads", _SET, "2"), validate_only=True)
    ask(_LOGGER, str(ASKED), ("kafka.no.such.logger", _SET, "INFO"))
    ask(_LOGGER, str(ASKED), ("kafka.no.such.logger", _SET, "no level"))
    ask(_GROUP, side.name("a-group"), ("consumer.session.timeout.ms", _SET, "45000"))
    ask(_METRICS, side.name("metrics"), ("interval.ms", _SET, "100000"), validate_only=True)
    ask(_TOPIC, side.topic)


def _list_config_resources(side: Side, version: int) -> None:
    for types in ([], [_BROKER], [_LOGGER], [_METRICS], [_GROUP], [_TOPIC], [7]):
        side.ask("list_config_resources", version, resource_types=types)


SCRIPTS = {
    "describe_configs": _describe_configs,
    "alter_configs": _alter_configs,
    "incremental_alter_configs": _incremental_alter_configs,
    "list_config_resources": _list_config_resources,
}
