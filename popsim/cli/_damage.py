"""What the command `info` says of damage."""

from collections.abc import Mapping
from pathlib import Path

from popsim.store import CorruptDataError


def print_damage(damage: Mapping[str, str], *, unchecked: str | None) -> None:
    """Print what is damaged or, where nothing is, that what was read is not; and what was not checked.

    **Arguments:**

    - `damage`: the problems by name.
    - `unchecked`: what was not checked; None where files were not read for this.
    """
    if unchecked is not None and not damage:
        print("\nwhat was checked is as it was written")
    for name, problem in damage.items():
        print(f"DAMAGED: {name}: {problem}")
    if unchecked is not None:
        print(f"not checked: {unchecked}")


def refuse_damaged(path: Path, damage: Mapping[str, str]) -> None:
    """Raise `CorruptDataError` if anything in a folder is damaged."""
    if damage:
        raise CorruptDataError(f"damaged in {path}: {', '.join(damage)}")
