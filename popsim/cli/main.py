"""The entry point of the command line."""

import contextlib
import io
import itertools
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from popsim.cli.compare import Compare
from popsim.cli.export import Export
from popsim.cli.info import Info
from popsim.cli.list import List
from popsim.cli.resume import Resume
from popsim.cli.show import Show
from popsim.cli.show_task import ShowTask
from popsim.cli.train import Train, train_command
from popsim.experiments import EXPERIMENTS
from popsim.store import SaveError
from popsim.store.run_folder import check_path

Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Info, tyro.conf.subcommand("info")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[ShowTask, tyro.conf.subcommand("show-task")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[List, tyro.conf.subcommand("list")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    Bad values, and runs that are damaged, end it with one line on standard error and exit code 2; what
    cannot be written with exit code 1; a signal that stops a training with 75, see `popsim.cli.signals`.

    **Arguments:**

    - `arguments`: by default those of the process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        _parse(arguments).run()
    except (ValueError, ImportError) as error:
        if not _is_ours(error):
            raise
        print(f"popsim: error: {error}", file=sys.stderr)
        sys.exit(2)
    except SaveError as error:
        print(f"popsim: error: {error}", file=sys.stderr)
        sys.exit(1)


def _is_ours(error: Exception) -> bool:
    """Whether popsim itself raised an error, about what it was given or found; all else is a fault."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith("popsim.")


def _parse(arguments: Sequence[str]) -> Any:
    command: Any
    for argument in arguments:  # a `Path` no longer tells "" from "."
        name, _, value = argument.rpartition("=")
        check_path(name or "argument", value)
    match list(arguments):
        case ["train", name, *settings] if name in EXPERIMENTS:
            command, prog = train_command(EXPERIMENTS[name]), f"popsim train {name}"
        case settings:
            command, prog = Command, "popsim"
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(command, prog=prog, args=settings, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit as end:
        if end.code:
            raise ValueError(f"{_in_one_line(complaint.getvalue())} See {prog} --help.") from None
        raise


def _in_one_line(box: str) -> str:
    """What tyro says in a box: the text above its first rule."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]
    said = itertools.takewhile(lambda line: not line.startswith("──"), lines)
    return " ".join(said)
