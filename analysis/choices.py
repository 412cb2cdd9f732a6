"""Arguments that name one of a few ways."""

from collections.abc import Sequence


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise `ValueError` unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")
