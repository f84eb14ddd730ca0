"""A configuration with every kind of target, and another value for every key of it.

`ROWS` has a row for each key of each section of docs/configuration.md. A section that a row leaves out is not changed
as a whole: its own keys are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.integration.processes import free_ports
from tests.integration.security.certificates import Authority, Pair

Tree = dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """A value that a running process refuses."""

    value: Any


@dataclass(frozen=True)
class Where:
    """A change for one virtual cluster, route or interceptor of the list: `index`."""

    index: int
    value: Any


@dataclass(frozen=True)
class Changed:
    """A change of the whole file that is more than another value."""

    make: Callable[[Tree], object]


GONE: Final = object()
"""The key is removed."""
SECTION: Final = object()
"""The keys of the section behind it have rows of their own."""

POOL, RELAY, RULES, ONE, UNION, UNION_RULES, UNION_ONE, CLIENTS, _, SECURE_RELAY, SECURE_UNION, REQUESTS = range(12)
CALLERS: Final = ["User:ANONYMOUS", "User:carol"]
"""The clients of virtual clusters with rules, which may do everything, while rules for other users change."""


def whole(part: Mapping[str, Any], key: str, value: Any) -> Tree:
    return {**deepcopy(dict(part)), key: value}


PEERS: Final = {"urls": ["http://127.0.0.1:1"]}
JOURNAL: Final = {"cluster": "eu", "topic": "mesh.journal"}
OTLP: Final = {"endpoint": "http://127.0.0.1:1", "spans": {"one_in": 5}, "metrics": {"interval": "1h"}}


def _key_set() -> str:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    return json.dumps({"keys": [{**ECAlgorithm.to_jwk(public, as_dict=True), "kid": "one"}]})


def configuration(folder: Path, pair: Pair, authority: Authority, eu: str, us: str) -> Tree:
    """Returns the configuration. It needs the type `pass-through` (tests/router/pass_through.py). pair: certificate and
    key of the mesh, which the authority has issued. eu, us: bootstrap servers."""
    users, keys, token = folder / "users.yaml", folder / "keys.json", folder / "token"
    rules = folder / "rules.yaml"
    users.write_text("users: [{name: carol, password: sesame}]")
    rules.write_text("rules: []")
    keys.write_text(_key_set())
    token.write_text("token")
    ports = iter(free_ports(70))
    tls = {
        "certificate_file": str(pair.certificate),
        "key_file": str(pair.key),
        "minimum_version": "TLSv1.2",
        "client_authentication": "requested",
        "client_ca_file": str(authority.certificate),
    }
    sasl = {
        "mechanisms": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        "users": [{"name": "alice", "password": "sesame"}],
        "users_file": str(users),
        "oauthbearer": {"jwks_file": str(keys), "issuer": "here", "audiences": ["mesh"]},
    }
    rule = {"principals": ["User:alice", *CALLERS], "operations": ["all"], "topics": ["*"], "groups": ["*"]}
    authorization = {"rules": [rule], "rules_file": str(rules), "super_users": ["User:root", *CALLERS]}
    pool: Tree = {
        "topics": [
            {"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]},
            {"prefix": "apac.", "cluster": "us"},
        ],
        "groups": ["*"],
        "upstream_group_prefix": "p.",
        "acknowledge": [{"group": "seen-*", "mode": "receipt"}],
        "fairness": {"weights": [{"client_id": "big-*", "weight": 2}]},
        "limits": [{"client_id": "canary-*", "of": "group", "records": 1000, "bytes": "10MiB", "in_flight": 5000}],
        "dead_letters": {"topic": "{topic}.dead"},
        "redelivery_backoff": {"initial": "1s"},
        "budgets": {},
        "session_timeout": {},
        "share": {},
    }

    def listened(name: str, nodes: Any = None, **keys: Any) -> Tree:
        made: Tree = {"name": name, "listen": f"127.0.0.1:{next(ports)}"}
        if nodes is not None:
            made["nodes"] = {"ports": next(ports) if len(nodes) == 1 else free_pair(), "ids": nodes}
        if "coordinator" in keys:
            keys["coordinator"] = f"127.0.0.1:{next(ports)}"
        return {**made, "limits": {}, **keys}

    secure = {"tls": tls, "sasl": sasl, "authorization": authorization}
    listener = {"name": "inside", "listen": f"127.0.0.1:{next(ports)}", "nodes": {"ports": next(ports), "ids": [1]}}
    to_relay, to_union = {"relay": {"cluster": "eu"}}, {"router": {"name": "regions"}}
    by_route = {"eu": [1], "us": [1]}
    virtual_clusters = [
        listened("pool", coordinator="", interceptors=["cards"], advertise={}, target={"pool": pool}),
        listened("relay", [1], listeners=[listener], interceptors=["spare"], target=to_relay, advertise={}),
        listened("rules", [1], authorization=authorization, target=to_relay),
        listened("one", coordinator="", nodes=None, target=to_relay),
        listened("union", by_route, topology_descriptions={"plugin": "memory"}, target=to_union),
        listened("union-rules", by_route, moves={"hold": "5s"}, authorization=authorization, target=to_union),
        listened("union-one", target={"router": {"name": "alone"}}),
        listened("clients", {"all/eu": [1], "all/us": [1]}, coordinator="", target={"router": {"name": "who"}}),
        listened("secure-pool", coordinator="", **secure, target={"pool": {**pool, "upstream_group_prefix": "s."}}),
        listened("secure-relay", [1], **secure, target=to_relay),
        listened("secure-union", by_route, **secure, target=to_union),
        listened("requests", {"eu": [1]}, target={"router": {"name": "each"}}),
    ]
    for index in (ONE, UNION_ONE):
        virtual_clusters[index]["nodes"] = "one"
    cloud = {"properties": {"security.protocol": "sasl_ssl"}, "bootstrap_servers": "127.0.0.1:1"}
    oidc = {"url": "https://127.0.0.1:1/token", "client_id": "mesh", "client_secret": "sesame"}
    masked = {"type": "mask", "topics": ["*"], "on": ["fetch"], "isolation": "inline", "config": {"paths": ["card"]}}
    made = {
        "process_id": "mesh-1",
        "admin": {
            "listen": f"127.0.0.1:{next(ports)}",
            "tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)},
            "token": "first-token-of-operators",
            "look": {"topics": ["*"]},
        },
        "log": {},
        "store": {"cluster": "eu", "topic": "mesh.store", "create": True},
        "drain_grace": "100ms",
        "clusters": [
            {"name": "eu", "bootstrap_servers": eu, "properties": {"client.id": "mesh"}},
            {"name": "us", "bootstrap_servers": us},
            {"name": "by-oidc", **cloud, "login": {"oidc": oidc}},
            {"name": "by-file", **cloud, "login": {"file": {"path": str(token)}}},
        ],
        "routers": [
            {
                "name": "who",
                "type": "clients",
                "config": {"rules": [{"client_ids": ["batch-*"], "route": "shared"}], "default": "all"},
                "routes": [
                    {"name": "all", "id": 0, "target": {"router": "regions"}},
                    {"name": "shared", "id": 1, "target": {"pool": {**pool, "upstream_group_prefix": "c."}}},
                ],
            },
            {
                "name": "regions",
                "type": "topics",
                "config": {
                    "topics": [{"prefix": "us.", "route": "us"}, {"prefix": "", "route": "eu"}],
                    "default": "eu",
                },
                "routes": [
                    {"name": "eu", "id": 0, "target": {"cluster": "eu"}},
                    {"name": "us", "id": 1, "target": {"cluster": "us"}},
                ],
            },
            {
                "name": "alone",
                "type": "topics",
                "config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"},
                "routes": [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}],
            },
            {
                "name": "each",
                "type": "pass-through",
                "config": {"route": "eu"},
                "routes": [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}],
            },
        ],
        "interceptors": [{"name": "cards", **masked}, {"name": "spare", **masked}],
        "interceptor_workers": {},
        "virtual_clusters": virtual_clusters,
    }
    copied: Tree = json.loads(json.dumps(made))  # no two places share a part
    return copied


def free_pair() -> str:
    """Two free ports in a row, as text."""
    first, last = free_ports(2)
    return f"{first}-{last}"


def free_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


def _rename_cluster(tree: Tree) -> None:
    tree["clusters"][3]["name"] = "renamed"


def _intercept_a_route(tree: Tree) -> None:
    tree["routers"][2]["routes"][0]["interceptors"] = ["spare"]
    tree["virtual_clusters"][SECURE_UNION] |= {"nodes": {"ports": free_ports(1)[0], "ids": {"eu": [1]}}}
    tree["virtual_clusters"][SECURE_UNION]["target"] = {"router": {"name": "alone"}}
    tree["virtual_clusters"][UNION_ONE]["target"] = {"router": {"name": "regions"}}


def _lead_to_another_router(tree: Tree) -> None:
    tree["routers"][0]["routes"][0]["target"] = {"router": "alone"}
    tree["virtual_clusters"][CLIENTS]["nodes"] = {"ports": free_ports(1)[0], "ids": {"all/eu": [1]}}


def _rename_router(tree: Tree) -> None:
    tree["routers"][1]["name"] = "areas"
    tree["routers"][0]["routes"][0]["target"] = {"router": "areas"}
    for each in tree["virtual_clusters"]:
        if each["target"].get("router", {}).get("name") == "regions":
            each["target"] = {"router": {"name": "areas"}}


def _rename_interceptor(tree: Tree) -> None:
    tree["interceptors"][0]["name"] = "other"
    tree["virtual_clusters"][POOL]["interceptors"] = ["other"]


def _other_target(tree: Tree) -> None:
    tree["virtual_clusters"][RELAY]["target"] = {"router": {"name": "regions"}}
    del tree["virtual_clusters"][RELAY]["listeners"]
    tree["virtual_clusters"][RELAY]["nodes"] = {"ports": free_pair(), "ids": {"eu": [1], "us": [1]}}


def _keys_from_a_secret(oauthbearer: Tree) -> None:
    del oauthbearer["jwks_file"]
    oauthbearer["shared_secret"] = "s" * 40


def at(index: int, change: Callable[[Tree], object]) -> Changed:
    """A change of one virtual cluster."""
    return Changed(lambda tree: change(tree["virtual_clusters"][index]))


def put(section: str, key: str, value: Any, *others: str) -> Changed:
    """A change of one key that replaces others, wherever the section is."""

    def change(tree: Tree) -> None:
        for place in places(tree, section):
            for other in others:
                place.pop(other, None)
            place[key] = value

    return Changed(change)


def _with_peers(keys: Mapping[str, Any]) -> Changed:
    def change(tree: Tree) -> None:
        del tree["virtual_clusters"][UNION_RULES]["moves"]
        tree["peers"] = {**PEERS, **keys}

    return Changed(change)


def _several_workers(tree: Tree) -> None:
    tree |= {"workers": 2, "routers": [], "virtual_clusters": [tree["virtual_clusters"][ONE]]}


def _another_type(tree: Tree) -> None:
    tree["routers"][0] |= {"type": "topics", "config": {"topics": [{"prefix": "", "route": "all"}], "default": "all"}}
    del tree["routers"][0]["routes"][1], tree["virtual_clusters"][CLIENTS]["coordinator"]


_ITERATIONS: Final = "iterations=8192"
_SCRAM: Final = (
    "salt=jsLuuM19XtkqCVyk3Icu/g==,stored_key=LFbtC7ulayo6qrceebs3fNvbakWCd7B6omlBgyvof2U=,"
    f"server_key=HQA14pkFWsv7+iCI7Vjz/+FBYOpN5wCE9kYGsuywJGY=,{_ITERATIONS}"
)
_SCRAM_512: Final = (
    "salt=krSMim4brVjMf+G+7gt66Q==,stored_key=XEAw4FDig97WpATw7vrs2EeKm+Ix1pQWQwNcIotaWGTcNG1dT2uOM36xqvINTMZpRsjP//jEceDb"
    "Dyp4PqY+qA==,server_key=0dYwCDEYTEHzH/xEYepjLKxU4gdGEghPTthbT+KK1mqzlq4jotMKcgZw+Y5VMYtDp5478GS1/8ZCaEal8bKHKQ==,"
    f"{_ITERATIONS}"
)
OIDC: Final = "clusters[].login.oidc"


def _by_key(keys: Mapping[str, Any]) -> Changed:
    """A login with a private key in place of a secret."""

    def change(tree: Tree) -> None:
        for place in places(tree, OIDC):
            del place["client_secret"]
            place |= {"private_key_file": "key", **keys}

    return Changed(change)


POOLS: Final = "virtual_clusters[].target.pool"
SASL: Final = "virtual_clusters[].sasl"
ROWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {
        "workers": Refused(Changed(_several_workers)),
        "process_id": Refused("mesh-2"),
        "peers": Refused(_with_peers({})),
        "journal": Refused(JOURNAL),
        "otlp": Refused(OTLP),
        "store": SECTION,
        "admin": SECTION,
        "log": SECTION,
        "budget": "400MiB",
        "metadata_refresh": "7s",
        "drain_grace": "200ms",
        "drain_timeout": "14s",
        "clusters": Changed(
            lambda tree: tree["clusters"].append({"name": "added", "bootstrap_servers": "127.0.0.1:1"})
        ),
        "routers": SECTION,
        "interceptors": SECTION,
        "interceptor_workers": SECTION,
        "virtual_clusters": Changed(lambda tree: tree["virtual_clusters"].pop(UNION)),
    },
    "admin": {
        "listen": Refused("127.0.0.1:9"),
        "tls": Refused(GONE),
        "token": "second-token-of-operators",
        "open_probes": False,
        "hosts": ["mesh.example"],
        "look": GONE,
    },
    "admin.tls": {
        "certificate_file": "pair",
        "key_file": "pair",
        "key_password": "unused",
        "minimum_version": "TLSv1.3",
    },
    "admin.look": {
        "topics": ["a*"],
        "hide": ["values"],
        "hide_headers": ["h"],
        "mask_paths": ["card"],
        "most": "32KiB",
    },
    "peers": {
        "urls": Refused(_with_peers({"urls": ["http://127.0.0.1:2"]})),
        "token": Refused(_with_peers({"token": "token-of-the-others"})),
        "certificates": Refused(_with_peers({"certificates": "peers.crt"})),
        "interval": Refused(_with_peers({"interval": "3s"})),
    },
    "log": {"level": "warning", "format": "json"},
    "journal": {
        key: Refused(whole(JOURNAL, key, value))
        for key, value in {"cluster": "us", "topic": "other", "create": True, "interval": "2s", "limit": 5_000}.items()
    },
    "otlp": {
        key: Refused(whole(OTLP, key, value))
        for key, value in {
            "endpoint": "http://127.0.0.1:2",
            "headers": {"a": "b"},
            "ca_file": "authority",
            "timeout": "7s",
            "spans": {"one_in": 7},
            "metrics": {"interval": "2h"},
        }.items()
    },
    "otlp.spans": {key: Refused(whole(OTLP, "spans", {key: 7_000})) for key in ("one_in", "links_one_in", "limit")},
    "otlp.metrics": {"interval": Refused(whole(OTLP, "metrics", {"interval": "3h"}))},
    "store": {"cluster": Refused("us"), "topic": Refused("other"), "create": Refused(False)},
    "clusters[]": {
        "name": Changed(_rename_cluster),
        "bootstrap_servers": Where(0, "localhost"),
        "engine": Where(0, "librdkafka"),
        "properties": Where(0, {"client.id": "other"}),
        "login": Where(2, {"file": {"path": "token"}}),
        "producer_id_tag": Where(0, 7),
    },
    "clusters[].login": {
        "oidc": SECTION,
        "file": SECTION,
        "aws_msk_iam": put("clusters[].login", "aws_msk_iam", {"region": "eu-west-1"}, "oidc", "file"),
        "extensions": {"logicalCluster": "lkc-1"},
    },
    "clusters[].login.oidc": {
        "url": "https://127.0.0.1:2/token",
        "client_id": "other",
        "client_secret": "other",
        "authentication": "client_secret_post",
        "private_key_file": _by_key({}),
        "private_key_password": _by_key({"private_key_password": "unused"}),
        "kid": _by_key({"kid": "login-1"}),
        "certificate_file": _by_key({"certificate_file": "certificate"}),
        "assertion_audience": _by_key({"assertion_audience": "there"}),
        "assertion_file": put(OIDC, "assertion_file", "token", "client_secret"),
        "scope": "kafka",
        "parameters": {"a": "b"},
        "ca_file": "authority",
    },
    "clusters[].login.aws_msk_iam": {
        key: put("clusters[].login", "aws_msk_iam", {"region": "eu-west-1", **keys}, "oidc", "file")
        for key, keys in {
            "region": {},
            "profile": {"profile": "mesh"},
            "role_arn": {"role_arn": "arn:aws:iam::123456789012:role/mesh"},
        }.items()
    },
    "clusters[].login.file": {"path": "keys"},
    "routers[]": {
        "name": Changed(_rename_router),
        "type": Changed(_another_type),
        "config": Where(
            1, {"topics": [{"prefix": "us-", "route": "us"}, {"prefix": "", "route": "eu"}], "default": "eu"}
        ),
        "routes": SECTION,
    },
    "routers[].routes[]": {
        "name": Changed(
            lambda tree: (
                tree["routers"][0]["routes"][1].update(name="pooled"),
                tree["routers"][0]["config"]["rules"][0].update(route="pooled"),
            )
        ),
        "id": Changed(lambda tree: tree["routers"][1]["routes"][1].update(id=3)),
        "target": SECTION,
        "interceptors": Changed(lambda tree: _intercept_a_route(tree)),
    },
    "routers[].routes[].target": {
        "cluster": Changed(lambda tree: tree["routers"][1]["routes"][1].update(target={"cluster": "by-file"})),
        "router": Changed(_lead_to_another_router),
        "pool": Changed(lambda tree: tree["routers"][0]["routes"][1]["target"]["pool"].update(max_pools=3)),
    },
    "interceptors[]": {
        "name": Changed(_rename_interceptor),
        "type": Changed(lambda tree: tree["interceptors"][1].update(type="drop_headers", config={"names": ["h"]})),
        "topics": Where(0, ["a*"]),
        "on": Where(1, ["produce"]),
        "principals": Where(1, ["User:a*"]),
        "config": Where(0, {"paths": ["card.number"]}),
        "timeout": Where(0, "6s"),
        "retries": Where(0, 2),
        "on_failure": Where(1, "pass"),
        "isolation": Where(0, "process"),
    },
    "interceptor_workers": {"count": 1, "memory": "200MiB", "tasks": 500},
    "virtual_clusters[]": {
        "name": at(UNION, lambda each: each.update(name="renamed")),
        "listen": Changed(
            lambda tree: [each.update(listen=free_address(), advertise={}) for each in tree["virtual_clusters"]]
        ),
        "coordinator": Changed(
            lambda tree: [
                each.update(coordinator=free_address()) for each in tree["virtual_clusters"] if "coordinator" in each
            ]
        ),
        "nodes": at(RELAY, lambda each: (each.update(nodes="one"), each.pop("listeners"))),
        "advertise": SECTION,
        "limits": SECTION,
        "tls": at(SECURE_RELAY, lambda each: each.pop("tls")),
        "sasl": at(SECURE_RELAY, lambda each: each.pop("sasl")),
        "authorization": at(RULES, lambda each: each.pop("authorization")),
        "listeners": at(RELAY, lambda each: each.pop("listeners")),
        "interceptors": at(RELAY, lambda each: each.update(interceptors=["cards"])),
        "interceptor_sequences": at(RELAY, lambda each: each.update(interceptor_sequences="32MiB")),
        "topology_descriptions": at(UNION, lambda each: each.pop("topology_descriptions")),
        "moves": at(UNION_RULES, lambda each: each.pop("moves")),
        "target": Changed(_other_target),
    },
    "virtual_clusters[].nodes": {
        "ports": at(UNION, lambda each: each["nodes"].update(ports=free_pair())),
        "ids": at(UNION, lambda each: each["nodes"].update(ids={"eu": [2], "us": [1]})),
        "hosts": at(
            SECURE_RELAY,
            lambda each: (each.update(nodes={"hosts": "broker-{node}.mesh.example"}), each.update(advertise={})),
        ),
    },
    "virtual_clusters[].advertise": {
        "listen": "mesh.example:9092",
        "coordinator": at(POOL, lambda each: each["advertise"].update(coordinator="mesh.example:9093")),
    },
    "virtual_clusters[].limits": {
        "connections": 700,
        "connections_per_address": 600,
        "request": "3MiB",
        "idle_timeout": "9m",
        "frame_timeout": "20s",
        "write_timeout": "2m",
        "unread": "32MiB",
        "send_buffer": "128KiB",
        "request_rate": 900,
        "request_rate_per_address": 1_900,
    },
    "virtual_clusters[].tls": {
        "certificate_file": "pair",
        "key_file": "pair",
        "key_password": "unused",
        "minimum_version": "TLSv1.3",
        "client_authentication": "required",
        "client_ca_file": "pair",
        "principal_mapping_rules": ["RULE:^CN=(.*?),.*$/$1/L", "DEFAULT"],
    },
    SASL: {
        "mechanisms": ["PLAIN", "OAUTHBEARER"],
        "users": SECTION,
        "users_file": GONE,
        "salt_secret": "s" * 32,
        "oauthbearer": Changed(
            lambda tree: [(each.pop("oauthbearer"), each.update(mechanisms=["PLAIN"])) for each in places(tree, SASL)]
        ),
        "longest_session": "50m",
    },
    f"{SASL}.users[]": {
        "name": "bob",
        "password": "sesame-2",
        "scram_sha_256": put(f"{SASL}.users[]", "scram_sha_256", _SCRAM, "password"),
        "scram_sha_512": put(f"{SASL}.users[]", "scram_sha_512", _SCRAM_512, "password"),
    },
    f"{SASL}.oauthbearer": {
        "jwks_url": put(f"{SASL}.oauthbearer", "jwks_url", "http://127.0.0.1:1/keys", "jwks_file"),
        "jwks_file": "other keys",
        "shared_secret": Changed(lambda tree: [*map(_keys_from_a_secret, places(tree, f"{SASL}.oauthbearer"))]),
        "issuer": "there",
        "audiences": ["other"],
        "principal_claim": "name",
        "clock_skew": "20s",
        "refresh": "4m",
    },
    "virtual_clusters[].authorization": {
        "rules": SECTION,
        "rules_file": GONE,
        "super_users": ["User:other"],
        "allow_everyone_if_no_rule": True,
    },
    "virtual_clusters[].authorization.rules[]": {
        "principals": ["User:bob"],
        "permission": "deny",
        "operations": ["read"],
        "topics": ["a"],
        "groups": ["g"],
        "transactional_ids": ["t"],
        "cluster": True,
        "pattern_type": "prefixed",
        "hosts": ["10.0.0.1"],
    },
    "virtual_clusters[].listeners[]": {
        "name": "outside",
        "listen": at(RELAY, lambda each: each["listeners"][0].update(listen=free_address())),
        "nodes": at(RELAY, lambda each: each["listeners"][0]["nodes"].update(ports=free_ports(1)[0])),
        "advertise": "mesh.example:9099",
        "tls": {"certificate_file": "certificate", "key_file": "key"},
    },
    "virtual_clusters[].topology_descriptions": {
        "plugin": "store",
        "options": at(
            UNION,
            lambda each: each.update(
                topology_descriptions={"plugin": "http", "options": {"url": "http://127.0.0.1:1/topologies"}}
            ),
        ),
    },
    "virtual_clusters[].moves": {"hold": "4s"},
    "virtual_clusters[].target": {"pool": SECTION, "relay": SECTION, "router": SECTION},
    POOLS: {
        "topics": SECTION,
        "groups": ["a*"],
        "max_pools": 5,
        "group_less": "other",
        "upstream_group_prefix": at(POOL, lambda each: each["target"]["pool"].update(upstream_group_prefix="q.")),
        "start": "latest",
        "acknowledge": [],
        "isolation": "read_uncommitted",
        "fairness": GONE,
        "limits": [],
        "budgets": SECTION,
        "join_delay": "100ms",
        "fast_expiry": "4s",
        "lock_timeout": "4m",
        "hold_timeout": "20m",
        "commit_timeout": "4s",
        "dead_letters": GONE,
        "redelivery_backoff": GONE,
        "metadata_limit": 3_000,
        "session_timeout": SECTION,
        "max_members": 9_000,
        "share": SECTION,
    },
    f"{POOLS}.topics[] by name": {
        "name": "sales",
        "priority": 1,
        "from": [{"cluster": "eu", "topic": "orders"}, {"cluster": "us", "topic": "orders"}],
    },
    f"{POOLS}.topics[].from[]": {"cluster": "us", "topic": "sales"},
    f"{POOLS}.topics[] by prefix": {"prefix": "emea.", "cluster": "eu", "priority": 1},
    f"{POOLS}.acknowledge[]": {"group": "got-*", "mode": "commit"},
    f"{POOLS}.fairness": {
        "policy": put(f"{POOLS}.fairness", "policy", "round_robin", "weights"),
        "initial_window": 400,
        "maximum_window": 40_000_000,
        "weights": [],
    },
    f"{POOLS}.fairness.weights[]": {"client_id": "huge-*", "principal": "User:a", "weight": 3, "priority": 1},
    f"{POOLS}.limits[]": {
        "group": "a*",
        "client_id": "c-*",
        "principal": "User:a",
        "of": "member",
        "records": 900,
        "bytes": "9MiB",
        "in_flight": 4_000,
        "share": "5%",
    },
    f"{POOLS}.budgets": {"partition": "3MiB", "pool": "60MiB", "replay": "7MiB"},
    f"{POOLS}.dead_letters": {"topic": "{topic}.dlq", "create": True, "limit": 6},
    f"{POOLS}.redelivery_backoff": {"initial": "2s", "multiplier": 3.0, "maximum": "2m"},
    f"{POOLS}.session_timeout": {"minimum": "5s", "maximum": "20m"},
    f"{POOLS}.share": {
        "auto_offset_reset": "earliest",
        "record_lock_duration": "20s",
        "min_record_lock_duration": "10s",
        "max_record_lock_duration": "50s",
        "delivery_count_limit": 6,
        "partition_max_record_locks": 1_900,
        "renew_acknowledge": False,
        "mixed": False,
        "max_share_sessions": 1_900,
    },
    "virtual_clusters[].target.relay": {
        "cluster": "us",
        "authentication": at(RELAY, lambda each: each["target"]["relay"].update(authentication="upstream")),
        "refuse": ["CREATE_TOPICS"],
    },
    "virtual_clusters[].target.router": {
        "name": at(
            UNION,
            lambda each: each.update(
                nodes={"ports": free_ports(1)[0], "ids": {"eu": [1]}}, target={"router": {"name": "alone"}}
            ),
        ),
        "request_timeout": "20s",
    },
}


def places(tree: Tree, section: str) -> Iterator[Tree]:
    """Yields every place of a section that the configuration has."""
    path, _, kind = section.partition(" by ")
    found: list[Any] = [tree]
    for part in filter(None, path.split(".")):
        inner = [each[part.removesuffix("[]")] for each in found if part.removesuffix("[]") in each]
        found = [one for each in inner for one in each] if part.endswith("[]") else inner
    yield from (each for each in found if isinstance(each, dict) and (not kind or kind in each))


class ChangingConfiguration:
    """The configuration, and its changes. folder: gets the files that it names. base: as it is before each change.
    authority: of the certificates."""

    def __init__(self, folder: Path, eu: str, us: str) -> None:
        self.authority = authority = Authority(folder / "authority")
        pair, other = authority.issue("mesh"), authority.issue("other")
        self.base = configuration(folder, pair, authority, eu, us)
        keys = folder / "other-keys.json"
        keys.write_text((folder / "keys.json").read_text())
        self._files = {
            "authority": authority.certificate,
            "certificate": pair.certificate,
            "key": pair.key,
            "token": folder / "token",
            "keys": folder / "keys.json",
            "other keys": keys,
            "other certificate": other.certificate,
            "other key": other.key,
        }

    def changed(self, section: str, key: str, row: Any) -> Tree:
        """Returns the configuration after the change of a row."""
        tree = deepcopy(self.base)
        change = row.value if isinstance(row, Refused) else row
        if isinstance(change, Changed):
            change.make(tree)
            made: Tree = self._with_files(tree)
            return made
        found = list(places(tree, section)) if not isinstance(row, Where) else [[*places(tree, section)][row.index]]
        if (isinstance(row, Refused) and not found) or section.split(".")[0] in ("journal", "otlp"):
            tree[section.split(".")[0]] = self._with_files(row.value)
            return tree
        assert found, f"the configuration has no {section}"
        value = row.value if isinstance(row, Refused | Where) else row
        for place in found:
            if value is GONE:
                place.pop(key, None)
            elif value == "pair":  # a certificate goes with its key
                place |= self._pair() if key != "client_ca_file" else {key: str(self._files["other certificate"])}
            else:
                place[key] = self._with_files(value)
        return tree

    def _pair(self) -> Tree:
        return {f"{each}_file": str(self._files[f"other {each}"]) for each in ("certificate", "key")}

    def _with_files(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._with_files(each) for key, each in value.items()}
        if isinstance(value, list):
            return [*map(self._with_files, value)]
        return str(self._files[value]) if isinstance(value, str) and value in self._files else deepcopy(value)
