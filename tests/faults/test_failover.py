"""A cluster loses its primary under load. ``make drill`` is the long form, with other faults and figures."""

import pytest

from drill import cluster, folders, instances
from drill.rounds import Drill


@pytest.mark.timeout(300)
def test_no_acknowledged_change_is_lost_or_done_twice_when_the_primary_is_killed() -> None:
    folders.clear_leftovers()
    with (
        folders.own_folder() as folder,
        cluster.running(folder, synchronous=True, with_network=False) as nodes,
        instances.running(folder, nodes.url) as servers,
    ):
        played = Drill(nodes, servers, writers=8, calm=0.5).play("kill")
    assert not played.findings
    # It was a fault, and the clients worked before and after it.
    assert played.troubles.total() > 0
    assert played.acknowledged > 100
    assert played.write_outage < 60
