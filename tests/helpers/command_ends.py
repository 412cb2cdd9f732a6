"""How a command ends."""

import matplotlib.pyplot as plt

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
