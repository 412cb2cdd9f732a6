"""Proofs that repeat themselves for many kinds of thing: a few always run, `pytest -m full` runs the rest."""

import pytest


def mostly_in_full(values, short, *, name_of=lambda value: None):
    """Parameters of a test, of which those that are not in `short` run with the marker `full`.

    `name_of` gives what a value is called; where it does, `short` holds names.
    """
    parameters = []
    for value in values:
        name = name_of(value)
        marks = () if (value if name is None else name) in short else pytest.mark.full
        parameters.append(pytest.param(value, id=name, marks=marks))
    return parameters


def every_nth(values, n, *, name_of=lambda value: None):
    """Parameters of a test, of which all but every `n`-th run with the marker `full`."""
    values = [*values]
    short = [value if name_of(value) is None else name_of(value) for value in values[::n]]
    return mostly_in_full(values, short, name_of=name_of)


def every_nth_row(rows, n):
    """The same for a test that takes several parameters at once, each row a tuple of them."""
    return [pytest.param(*row, marks=pytest.mark.full if i % n else ()) for i, row in enumerate(rows)]
