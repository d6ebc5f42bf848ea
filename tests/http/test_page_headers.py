"""The headers of all HTML pages, for all callers."""

from tests.http.asking import Client, Reply

DATABASES = ("sqlite",)
PAGES = (
    *("/", "/docs", "/docs?q=upgrade", "/docs/how-to/upgrade", "/openapi/v2", "/openapi/v3"),
    *("/problems", "/problems/not_found", "/problems/nonsense", "/offline"),
    *(
        "/portal",
        "/portal/license",
        "/portal/nothing",
        "/admin/sign-in",
        "/admin/welcome/x",
        "/admin/nothing",
    ),
)
POLICY = {"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"}


def read_page(program: Client, address: str) -> Reply:
    reply = program.get(address, headers={"Accept": "text/html,*/*;q=0.8"})
    if reply.status == 303:
        return read_page(program, reply.header("location") or "")
    return reply


def list_faults(reply: Reply) -> list[str]:
    policy = (reply.header("content-security-policy") or "").split("; ")
    faults = sorted(POLICY - set(policy))
    if any("unsafe" in one for one in policy):
        faults.append("unsafe")
    if reply.header("x-content-type-options") != "nosniff":
        faults.append("nosniff")
    if reply.header("referrer-policy") not in ("no-referrer", "same-origin"):
        faults.append("referrer-policy")
    if reply.header("content-type") != "text/html; charset=utf-8":
        faults.append(reply.header("content-type") or "no content-type")
    return faults


def test_every_page_is_confined_framed_by_nobody_and_sends_no_address_elsewhere(program: Client) -> None:
    found = {address: list_faults(read_page(program, address)) for address in PAGES}
    assert {address: faults for address, faults in found.items() if faults} == {}


def test_no_address_answers_to_trace(program: Client) -> None:
    addresses = "/ /docs /v3/me /edd /d/x/y /u/open/x/y /portal /admin/sign-in /healthz /offline".split()
    found = {address: program.ask("TRACE", address).status for address in addresses}
    assert {address: status for address, status in found.items() if status not in (401, 404, 405)} == {}
