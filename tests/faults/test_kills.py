"""Keywright itself is killed under load, on PostgreSQL; the database stays."""

import random
import time

from tests.faults.installations import Database, rounds
from tests.faults.judge import assert_right
from tests.faults.load import Programs, assert_answers_in_shape, loaded
from tests.http.asking import Client
from tests.server import RunningServer

KILLS = 20
#: When it is killed, in seconds after calls succeed again.
SOONEST, LATEST = 0.05, 1.5
#: How long until it is ready again.
READY = 10.0


@rounds(50)
def test_nothing_acknowledged_is_missing_when_the_server_is_killed(
    keywright: RunningServer, store: Database, round_number: int
) -> None:
    moments = [SOONEST + (LATEST - SOONEST) * number / (KILLS - 1) for number in range(KILLS)]
    readiness = []
    with loaded(keywright, store.keys, Programs(6, 6)) as load:
        for moment in random.sample(moments, KILLS):
            # This is no wait for something: when it happens must have nothing to do with what goes on.
            time.sleep(moment)
            keywright.kill()
            killed_at = time.monotonic()
            keywright.start()
            with Client(keywright) as program:
                assert program.get("/readyz").status == 200
            readiness.append(time.monotonic() - killed_at)
        load.wait_for_successes()
        journal = load.finish()
    done = sum(call.is_acknowledged for call in journal)
    cut_off = sum(not one.status for call in journal for one in call.answers)
    print(f"round {round_number}: {KILLS} kills, ready again after {max(readiness):.1f} s at most")
    print(f"{done} of {len(journal)} calls acknowledged, {cut_off} answers cut off or not let in")
    assert max(readiness) < READY
    assert done > 10 * KILLS
    assert_answers_in_shape(journal)
    assert_right(journal, store)
