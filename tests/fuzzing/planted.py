"""A parser with a fault that chance alone does not find: one input in a million million."""


def planted(data: bytes) -> None:
    """Fail for what begins with a certain word."""
    depth = 0
    for expected, byte in zip(b"fault", data, strict=False):
        if byte != expected:
            break
        depth += 1
    if depth == 1:
        return
    if depth == 2:
        return
    if depth == 3:
        return
    if depth == 4:
        return
    assert depth != 5, "found"
