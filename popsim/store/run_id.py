"""The identity of a run: random digits that each of its parts carries, so that no parts of two are mixed."""

import re
import uuid
from pathlib import Path
from typing import Any, TypeGuard

from popsim.store.errors import MismatchError

RUN_ID = "run_id"
_FORM = re.compile("[0-9a-f]{32}")


def new_run_id() -> str:
    """The identity of a new run: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_run_id(found: Any) -> TypeGuard[str]:
    """Whether this is the identity of a run."""
    return isinstance(found, str) and _FORM.fullmatch(found) is not None


def check_run_id(found: Any, expected: str | None, place: Path | str) -> None:
    """Refuse a part of another run.

    **Arguments:**

    - `found`: the identity that the part carries.
    - `expected`: that of the run; None takes any.
    - `place`: the part, for the message.

    **Raises:** `MismatchError` naming the part.
    """
    if expected is not None and found != expected:
        said = f"of the run {found}" if is_run_id(found) else "without an identity"
        raise MismatchError(f"{place} must be a part of the run {expected}, got one {said}.")
