"""The four calls of v2, with the standard library: python3 v2.py URL LICENSE-KEY."""

import json
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen


def call(url: str, action: str, license_key: str, **parameters: str) -> Any:
    """The answer's data. Raises ValueError with the server's sentence for a refusal."""
    address = (
        f"{url}/wp-json/lmfwc/v2/licenses/{action}/{quote(license_key, safe='')}?{urlencode(parameters)}"
    )
    try:
        with urlopen(Request(address, headers={"Accept": "application/json"}), timeout=10) as answer:
            return json.load(answer)["data"]
    except HTTPError as refusal:
        raise ValueError(json.load(refusal)["message"]) from None


if __name__ == "__main__":
    url, license_key = sys.argv[1:]
    activated = call(url, "activate", license_key, label="My computer")
    token = activated["activationData"]["token"]
    print("activated:", activated["timesActivated"])
    print("validated:", call(url, "validate", license_key)["timesActivated"])
    print("deactivated:", call(url, "deactivate", license_key, token=token)["timesActivated"])
    print("reactivated:", call(url, "activate", license_key, token=token)["timesActivated"])
