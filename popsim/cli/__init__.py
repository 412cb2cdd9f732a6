"""The command line: `popsim train`, `popsim show`, `popsim export`, `popsim list`."""

from collections.abc import Sequence

from popsim.cli._signals import ended_by_signals

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    Errors print one line on standard error. The exit code is 2 for invalid values, those of JAX's variables
    included, and for damaged or unreadable files; 1 if something cannot be written, if memory or file handles
    run out, or if the device fails; and 75 if a signal stops it, see `popsim.cli._signals` for trainings. If
    the output is closed early, as in `popsim list | head -1`, the command ends silently. A closed standard
    error changes no exit code.

    **Arguments:**

    - `arguments`: by default those of the process.
    """
    with ended_by_signals():
        from popsim.cli._main import run_command  # takes a second, in which signals arrive

        run_command(arguments)
