"""License files: a signed answer as text that survives mail and editors."""

_BEGIN, _END = "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"
_WIDTH = 64
#: The largest file, in bytes.
MAX_FILE = 64 * 1024


def write_license_file(token: bytes) -> bytes:
    """The token between its two lines, in lines of 64 characters that end with LF."""
    text = token.decode()
    lines = (text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH))
    return "\n".join([_BEGIN, *lines, _END, ""]).encode()


def read_license_file(content: bytes) -> bytes:
    """The token in a license file; text outside the two lines is ignored.

    Raises ``ValueError`` with a reason.
    """
    if len(content) > MAX_FILE:
        raise ValueError("is larger than 64 KiB")
    _, begin, rest = content.partition(_BEGIN.encode())
    inside, end, _ = rest.partition(_END.encode())
    if not begin or not end:
        raise ValueError(f"has no text between “{_BEGIN}” and “{_END}”")
    return b"".join(inside.split())
