"""Clusters for faults that one plain broker cannot have: several brokers, credentials, certificates, rules."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.integration.further_broker import FurtherBroker
from tests.integration.kafka import SHORT_SESSIONS, KafkaCluster
from tests.integration.processes import free_port
from tests.integration.relay import Relay

PASSWORD = "store-pass"
USER = "mesh"

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SecuredCluster(KafkaCluster):
    """One broker with three listeners: plain for tests, whose anonymous principal may do everything, SASL/PLAIN for the
    user `mesh`, and TLS. StandardAuthorizer: `mesh` may use what `allow` allows."""

    def __init__(self, name: str, jars: Path, folder: Path) -> None:
        self.sasl_port, self.tls_port = free_port(), free_port()
        self.certificates = Certificates(folder.parent / f"{name}-certificates")
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL"
        outer = f"SASL_PLAINTEXT://127.0.0.1:{self.sasl_port},SSL://127.0.0.1:{self.tls_port}"
        super().__init__(
            name,
            jars,
            folder,
            {
                "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},{outer}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},{outer}",
                "listener.security.protocol.map": protocols,
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                **self.with_password("right"),
                **self.with_certificate("own"),
                **SHORT_SESSIONS,
            },
        )

    def with_password(self, password: str) -> Mapping[str, str]:
        """Properties for `configure`: the password of the user."""
        jaas = f'{_PLAIN_MODULE} user_{USER}="{password}";'
        return {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas}

    def with_certificate(self, name: str) -> Mapping[str, str]:
        """Properties for `configure`: the certificate that the broker shows."""
        return {
            "ssl.keystore.location": str(self.certificates.store(name)),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.endpoint.identification.algorithm": "",
            "listener.name.ssl.ssl.client.auth": "none",
        }

    def sasl(self, password: str) -> Mapping[str, object]:
        """Keys of a cluster in a mesh's configuration."""
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
        }
        return {"bootstrap_servers": f"127.0.0.1:{self.sasl_port}", "properties": properties}

    def tls(self, certificate: str) -> Mapping[str, object]:
        """Keys of a cluster in a mesh's configuration that trusts this certificate."""
        properties = {"security.protocol": "SSL", "ssl.ca.location": str(self.certificates.pem(certificate))}
        return {"bootstrap_servers": f"127.0.0.1:{self.tls_port}", "properties": properties}

    def allow(self, principal: str, group: str, topic: str) -> None:
        """Allows it to consume this topic with this group."""
        self._rules(principal, ResourceType.TOPIC, topic, AclOperation.READ)
        self._rules(principal, ResourceType.GROUP, group, AclOperation.READ)

    def allow_but_not_to_read(self, principal: str, group: str, topic: str) -> None:
        """Allows it to be a member of this group, and to see the topic."""
        self._rules(principal, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        self._rules(principal, ResourceType.GROUP, group, AclOperation.READ)

    def allow_topic(self, principal: str, topic: str) -> None:
        """Allows it to read this topic, with no group."""
        self._rules(principal, ResourceType.TOPIC, topic, AclOperation.READ)

    def allow_to_see_configurations(self, principal: str) -> None:
        self._rules(principal, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)

    def forbid_group(self, principal: str, group: str) -> None:
        """Takes back the rights on the group that `allow` gave."""
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        rule = AclBindingFilter(ResourceType.GROUP, group, literal, f"User:{principal}", "*", AclOperation.READ, allow)
        admin = self.admin()
        for deleted in admin.delete_acls([rule]).values():
            assert deleted.result(30)

    def _rules(self, principal: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
        admin = self.admin()
        for created in admin.create_acls([self._rule(principal, kind, name, operation)]).values():
            created.result(30)

    def _rule(self, principal: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        return AclBinding(kind, name, literal, f"User:{principal}", "*", operation, allow)


class Certificates:
    """Self-signed certificates by name, made when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def store(self, name: str) -> Path:
        """A PKCS12 key store."""
        path = self._folder / f"{name}.p12"
        if not path.exists():
            self._keytool(
                *("-genkeypair", "-alias", name, "-keyalg", "RSA", "-validity", "30", "-storetype", "PKCS12"),
                *("-dname", f"CN={name}", "-ext", "SAN=IP:127.0.0.1", "-ext", "BC=ca:true", "-keystore", str(path)),
            )
        return path

    def pem(self, name: str) -> Path:
        """The certificate alone."""
        path = self._folder / f"{name}.pem"
        store = self.store(name)
        if not path.exists():
            self._keytool("-exportcert", "-rfc", "-alias", name, "-keystore", str(store), "-file", str(path))
        return path

    def _keytool(self, *arguments: str) -> None:
        command = ["keytool", *arguments, "-storepass", PASSWORD]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


class ReplicatedCluster(KafkaCluster):
    """Two brokers; all topics have a replica on both. The first is the controller too, so the second one dies in tests.
    The first replicates from it through a relay."""

    _replicas = 2

    def __init__(self, name: str, jars: Path, folder: Path) -> None:
        self._relay = Relay()
        outer, inner = "PLAINTEXT://127.0.0.1:{port}", f"REPLICATION://127.0.0.1:{free_port()}"
        replicated = {
            "listeners": f"{outer},{inner},CONTROLLER://127.0.0.1:{{controller}}",
            "advertised.listeners": f"{outer},{inner}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
            "offsets.topic.replication.factor": "2",
            "transaction.state.log.replication.factor": "2",
            "default.replication.factor": "2",
            "min.insync.replicas": "1",
            # For `client.rack`; the rest of the machine has no racks.
            "broker.rack": "a",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            # A partition whose replica died must soon get its other leader.
            "replica.lag.time.max.ms": "3000",
            "leader.imbalance.check.interval.seconds": "1",
            "leader.imbalance.per.broker.percentage": "0",
            **SHORT_SESSIONS,
        }
        super().__init__(name, jars, folder, replicated)
        inner = f"127.0.0.1:{free_port()}"
        self.second = FurtherBroker(
            self,
            {"REPLICATION": inner},
            {"REPLICATION": self._relay.stand_in_for(inner)},
            {"broker.rack": "b"},
        )
        self.bootstrap_servers += f",{self.second.address}"
        self.second.wait_until_up()

    def kill(self) -> None:
        self.second.kill()
        super().kill()
        self._relay.close()

    def allow_unclean_elections_of_coordinators(self) -> None:
        """Else a group may have no coordinator when the second broker is gone, and the first is behind."""
        unclean = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
        offsets = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets", incremental_configs=[unclean])
        admin = self.admin()
        admin.incremental_alter_configs([offsets])[offsets].result(30)

    def hold_back_replicas_on_first(self) -> None:
        """Records of partitions that the second broker leads do not reach the first one, which soon is no replica in
        sync any more."""
        self._relay.slow(1.0)

    def let_replicas_go_on(self) -> None:
        self._relay.slow(None)
        self._relay.cut()

    def led_by_second(self, topic: str) -> int:
        """The number of partitions that the second broker leads, from a broker that has just started."""
        admin = self.admin()
        try:
            described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return 0
        return sum(partition.leader is not None and partition.leader.id == 2 for partition in described.partitions)
