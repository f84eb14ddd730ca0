"""The configuration: a YAML file in, immutable and validated models out, or every mistake in it at once."""

from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import (
    AcknowledgeRule,
    Advertise,
    Budgets,
    Cluster,
    Config,
    Fairness,
    Isolation,
    LogConfig,
    NamedTopic,
    PoolConfig,
    PrefixRuleConfig,
    SessionTimeout,
    SourceConfig,
    Start,
    VirtualClusterConfig,
)
from mesh.config.values import Address

__all__ = [
    "AcknowledgeRule",
    "Address",
    "Advertise",
    "Budgets",
    "Cluster",
    "Config",
    "ConfigurationError",
    "Fairness",
    "Isolation",
    "LogConfig",
    "Mistake",
    "NamedTopic",
    "PoolConfig",
    "PrefixRuleConfig",
    "SessionTimeout",
    "SourceConfig",
    "Start",
    "VirtualClusterConfig",
    "load",
]
