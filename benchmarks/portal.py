"""Measure the latency of the portal of a large installation, over HTTP."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter

import httpx

from benchmarks.browsed import BUSY_INDEX, RESELLER
from benchmarks.installations import key_of
from benchmarks.servers import Server
from keywright.core.command import Context, Origin
from keywright.db import Storage
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.portal.model import MakePortalLink
from keywright.registry import open_executor

_FORM_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
#: Customers with licenses; the first owns one license in twenty.
_CUSTOMERS = (RESELLER, *range(1, 21))


def make_links(storage: Storage) -> None:
    """Create portal links with which the customers can sign in."""
    context = Context(datetime.now(UTC).replace(microsecond=0), Origin("cli:benchmark", "", ""))
    reseller = CreateCustomer(context=context, fields=NewCustomer(id=RESELLER, name="Reseller"))
    links = [MakePortalLink(context=context, customer_id=one, token=f"benchmark-{one}") for one in _CUSTOMERS]
    open_executor(storage).execute([reseller, *links])


def time_pages(server: Server, times: int, *, middle_id: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the name of each page and its times in milliseconds, except the first. ``middle_id`` is the ID of
    a license in the middle of all.
    """
    with _visitor(server) as stranger, _visitor(server) as with_key, _visitor(server) as reseller:
        _post(reseller, f"/link/benchmark-{RESELLER}")
        yield "portal: sign-in", _time(lambda _: _get(stranger, ""), times)
        for name, index in (("a license", 1), ("the license in most places", BUSY_INDEX)):
            _post(with_key, "/license", key=key_of(index))
            yield f"portal: {name} with its key", _time(lambda _: _get(with_key, "/license"), times)
            _post(with_key, "/license/forget")
        yield "portal: the most licenses", _time(lambda _: _get(reseller, ""), times)
        middle = f"?after={middle_id}"
        yield "portal: the most licenses, in the middle", _time(lambda _: _get(reseller, middle), times)
        yield "portal: account", _time(lambda _: _get(reseller, "/account"), times)
    customers = []
    for number in _CUSTOMERS[1:]:
        customers.append(httpx.Client(base_url=server.url, timeout=60))
        _post(customers[-1], f"/link/benchmark-{number}")
    yield "portal: a customer's licenses", _time(lambda n: _get(customers[n % len(customers)], ""), times)
    for one in customers:
        one.close()


@contextmanager
def _visitor(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        yield http


def _get(http: httpx.Client, path: str) -> None:
    answer = http.get(f"/portal{path}")
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"{path} was answered {answer.status_code}")


def _post(http: httpx.Client, path: str, **fields: str) -> None:
    found = _FORM_TOKEN.search(http.get("/portal/lost-keys").text)
    token = "" if found is None else found[1]
    answer = http.post(f"/portal{path}", data=fields | {"csrf_token": token})
    if answer.status_code != httpx.codes.SEE_OTHER:
        raise RuntimeError(f"{path} was answered {answer.status_code}")


def _time(visit: Callable[[int], None], times: int) -> list[float]:
    took = []
    for number in range(times + 1):
        began = perf_counter()
        visit(number)
        took.append((perf_counter() - began) * 1000)
    return took[1:]
