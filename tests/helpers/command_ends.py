"""How a command ends."""

import matplotlib.pyplot as plt
import pytest

from popsim.cli import main


def ended(command: list[str], capfd) -> tuple[int, str]:
    """The exit code of a command, and what is wrong with how it ended; empty for nothing."""
    code = 0
    try:
        main(command)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:
        return -1, f"raised {error!r}"
    finally:
        plt.close("all")
    said = capfd.readouterr().err
    lines = said.splitlines()
    as_it_should = all(line.startswith("popsim: error: ") for line in lines) and len(lines) == bool(code)
    return code, "" if as_it_should else said


def complaint(arguments, capsys) -> str:
    """The line with which a command refuses what is wrong; it prints nothing else."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == "" and said.err.count("\n") == 1
    return said.err
