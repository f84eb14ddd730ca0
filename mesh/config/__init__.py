"""The configuration: reads a YAML file into immutable, validated models, or reports every mistake in it at once."""

from mesh.config.load import load
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Advertise, Cluster, Config, LogConfig, VirtualClusterConfig
from mesh.config.pool import (
    AcknowledgeRule,
    Budgets,
    Fairness,
    IsolationLevel,
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
    "IsolationLevel",
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
