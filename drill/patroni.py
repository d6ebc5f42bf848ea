"""What Patroni and etcd are told.

The timings are the fastest that Patroni allows a leader lease to be (``ttl`` 20 s), and keep its rule
``loop_wait + 2 × retry_timeout <= ttl``: a primary that cannot reach etcd has given up, 1 + 2 × 5 s
later at the latest, before the lease that the others wait for ends.
"""

import json
from typing import Any

from drill import programs
from drill.places import Place
from tools.postgres import binaries

SUPERUSER = "postgres"
_TIMINGS = {"ttl": 20, "loop_wait": 1, "retry_timeout": 5}
_PARAMETERS = {
    "max_connections": 100,
    "shared_buffers": "64MB",
    # A node that was away finds what it missed, and need not be copied anew.
    "wal_keep_size": "256MB",
    # How soon a standby that was cut off, or its primary, notices and tries again.
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_retrieve_retry_interval": "1s",
}
_TRUSTED = ["local all all trust", "host all all all trust", "host replication all all trust"]


def configuration(place: Place, others: list[Place], folder: str, *, synchronous: bool) -> str:
    """The configuration file of Patroni in this place; JSON is YAML, too."""
    return json.dumps(
        {
            "scope": "keywright-drill",
            "name": place.name,
            "restapi": {
                "listen": f"{place.listen}:{place.ports.patroni}",
                "connect_address": f"{place.inside}:{place.ports.patroni}",
            },
            "etcd3": {"hosts": [f"{one.inside}:{one.ports.etcd}" for one in (place, *others)]},
            "bootstrap": {
                "dcs": _whole_cluster(synchronous=synchronous),
                "initdb": ["data-checksums", {"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": _postgresql(place, folder),
        },
        indent=1,
    )


def _whole_cluster(*, synchronous: bool) -> dict[str, Any]:
    return {
        **_TIMINGS,
        "synchronous_mode": synchronous,
        "synchronous_mode_strict": synchronous,
        "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": _PARAMETERS},
    }


def _postgresql(place: Place, folder: str) -> dict[str, Any]:
    return {
        "listen": f"{place.listen}:{place.ports.postgres}",
        "connect_address": f"{place.inside}:{place.ports.postgres}",
        "data_dir": f"{folder}/data",
        "bin_dir": str(binaries()),
        "pgpass": f"{folder}/pgpass",
        "use_unix_socket": True,
        "parameters": {"unix_socket_directories": folder},
        "authentication": {"superuser": {"username": SUPERUSER}, "replication": {"username": "replicator"}},
        "pg_hba": _TRUSTED,
        "basebackup": [{"checkpoint": "fast"}],
        # Copied anew when it cannot be rewound: the next fault waits for three whole nodes.
        "remove_data_directory_on_rewind_failure": True,
        "remove_data_directory_on_diverged_timelines": True,
    }


def etcd_command(place: Place, others: list[Place], folder: str) -> list[str]:
    """The command line of the etcd member in this place."""
    clients, peers = (f"http://{place.inside}:{port}" for port in place.ports[2:])
    members = [f"{one.name}=http://{one.inside}:{one.ports.etcd_peers}" for one in (place, *others)]
    options = {
        "name": place.name,
        "data-dir": f"{folder}/etcd",
        "listen-client-urls": f"http://{place.listen}:{place.ports.etcd}",
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": ",".join(sorted(members)),
        # Calm enough for a busy machine that runs all three.
        "heartbeat-interval": "200",
        "election-timeout": "2000",
        "log-level": "warn",
    }
    # All three share one disk, which has PostgreSQL to serve; no fault here takes power away.
    return [programs.etcd(), *(f"--{name}={value}" for name, value in options.items()), "--unsafe-no-fsync"]
