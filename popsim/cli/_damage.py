"""What the command `info` says of damage."""

from collections.abc import Mapping
from pathlib import Path

from popsim.store import CorruptDataError


def print_damage(damage: Mapping[str, str], *, verified: bool) -> None:
    """Print what is damaged; where nothing is, say so if all files were read."""
    if verified and not damage:
        print("\nall files are as they were written")
    for name, problem in damage.items():
        print(f"DAMAGED: {name}: {problem}")


def refuse_damaged(path: Path, damage: Mapping[str, str]) -> None:
    """Raise `CorruptDataError` if anything in a folder is damaged."""
    if damage:
        raise CorruptDataError(f"damaged in {path}: {', '.join(damage)}")
