"""Wrong arguments as rows of a table: the name of the argument, and the call that is refused."""

import pytest


def wrong_arguments(**contracts):
    """The parameters `argument` and `call` of a test, of the rows of each contract."""
    rows = [
        pytest.param(argument, call, id=f"{contract}-{argument}-{number}")
        for contract, calls in contracts.items()
        for number, (argument, call) in enumerate(calls)
    ]
    return pytest.mark.parametrize(("argument", "call"), rows)


def assert_named_in_one_line(argument, call):
    """What is refused is named in one line, as users run it."""
    with pytest.raises(ValueError) as refused:
        call()
    said = str(refused.value)
    assert f"`{argument}" in said and "\n" not in said and "Traced" not in said
