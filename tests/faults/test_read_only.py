"""A server that takes no changes: it has become a standby, or was told so."""

import time

from tests.faults.installations import Database
from tests.faults.judge import assert_right
from tests.faults.load import RESTED, assert_answers_in_shape, longest_wait, run_load
from tests.faults.watch import watch_server
from tests.http.asking import Client
from tests.server import RunningServer

#: How long a call may wait to be told so, in seconds: for the batch that runs when it comes, and for its own,
#: each of which is broken off after seven. Alone on a machine, it is five.
LONGEST_WAIT = 30.0
#: How soon changes are made afterwards.
RECOVERY = 5.0


def test_a_server_that_takes_no_changes_is_unavailable_for_them_alone(
    keywright: RunningServer, store: Database
) -> None:
    with run_load(keywright, store.keys, rest=RESTED) as load, watch_server(keywright) as watch:
        began = time.monotonic()
        store.sql(f"ALTER DATABASE {store.name} SET default_transaction_read_only = on")
        store.hang_up()
        load.wait_for_refusal(began)
        with Client(keywright) as program:
            assert program.validate(store.keys[0]).status == 200
        load.wait_for_refusal(time.monotonic())
        now = time.monotonic()
        load.wait_for_refusal(now)
        assert load.successes_since(now) == 0
        store.sql(f"ALTER DATABASE {store.name} SET default_transaction_read_only = off")
        recovery = load.wait_for_successes(1)
        journal = load.finish()
    print(f"longest wait {longest_wait(journal):.1f} s, recovered after {recovery:.1f} s")
    assert recovery < RECOVERY
    assert longest_wait(journal) < LONGEST_WAIT
    assert set(watch.statuses("/healthz")) == set(watch.statuses("/readyz")) == {200}
    assert_answers_in_shape(journal)
    assert_right(journal, store)
