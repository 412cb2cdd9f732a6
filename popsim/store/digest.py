"""A short text that tells whether two JSON values are the same."""

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever its layout in a file."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
