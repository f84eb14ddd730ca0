"""The configuration: a YAML file in, immutable and validated models out, or every mistake in it at once."""

from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Advertise, Cluster, Config, LogConfig, VirtualClusterConfig
from mesh.config.pool import (
    AcknowledgeRule,
    Budgets,
    Fairness,
    Isolation,
    NamedTopic,
    PoolConfig,
    PrefixRuleConfig,
    SessionTimeout,
    SourceConfig,
    Start,
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
