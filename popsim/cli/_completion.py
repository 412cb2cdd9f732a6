"""The script with which a shell completes the words of `popsim`."""

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from typing import Annotated, Any, Union

import tyro

SHELLS = ("bash", "zsh")  # of which tyro writes scripts without another package


def completion_script(shell: str, commands: Mapping[str, type]) -> str:
    """Return the script of a shell, which knows the commands, the experiments and their options.

    **Arguments:**

    - `shell`: "bash" or "zsh".
    - `commands`: the commands by name.
    """
    if shell not in SHELLS:
        raise ValueError(f"--completion must be followed by {', '.join(SHELLS)}, got {shell!r}.")
    from popsim.cli._sweep import VERBS, sweep_command
    from popsim.cli._train import train_command
    from popsim.experiments import EXPERIMENTS

    nested = {
        "train": {name: train_command(kind) for name, kind in EXPERIMENTS.items()},
        "sweep": {name: sweep_command(kind) for name, kind in EXPERIMENTS.items()} | VERBS,
    }
    kinds = {name: _choice(name, nested[name]) if name in nested else kind for name, kind in commands.items()}
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        tyro.cli(
            _union(kinds),
            prog="popsim",
            args=["--tyro-print-completion", shell],
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
    return script.getvalue()


def _choice(name: str, kinds: Mapping[str, type]) -> type:
    """Return a command that is followed by the name of another."""
    return dataclasses.make_dataclass(name.capitalize(), [("named", _union(kinds))])


def _union(kinds: Mapping[str, type]) -> Any:
    return Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items())]  # noqa: UP007
