"""Sweeps as users write them: axes and seeds on the command line, and YAML files."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from popsim._shared.checks import warn_caller
from popsim._shared.plain_values import plain_value
from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.run_config import parse_grid, parse_settings, parse_values, read_entries
from popsim.experiments.settings import parse_setting
from popsim.store.run_folder import import_option
from popsim.store.yaml_files import yaml_text
from popsim.sweeps.folder import named_modules
from popsim.sweeps.sweep import NOT_AXES, SHARED_SETTINGS, Sweep

__all__ = ["config_text", "parse_axes", "read_config", "read_seeds"]


def read_seeds(text: str) -> range:
    """Return the seeds that a user wrote: "0:20" leaves out 20; "7" is one, with a warning."""
    if not (match := re.fullmatch(r"([0-9]{1,10})(?::([0-9]{1,10}))?", text.strip())):
        raise ValueError(
            f"`seeds` must be whole numbers such as 0:20, which leaves out 20, got {text!r:.100}."
        )
    first = int(match[1])
    end = first + 1 if match[2] is None else int(match[2])
    if end <= first:
        raise ValueError(f"`seeds` must end after they begin, got {text!r}.")
    if match[2] is None and first > 1:
        warn_caller(
            f"`seeds` {first} is one network, that of seed {first}: for {first} networks, say 0:{first}."
        )
    return range(first, end)


def parse_axes(kind: type[AbstractExperiment], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the axes in texts such as "learning-rate=1e-3,3e-3" or "vision-noise=0.002 0.02,0.004 0.04".

    **Arguments:**

    - `kind`: the experiment, whose settings are the axes, named as the options of its command.
    - `texts`: one for each axis.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        words = [value.strip() for value in values.split(",")]
        if not all(words):
            raise ValueError(f"`grid` must be such as learning-rate=1e-3,3e-3, got {text!r:.100}.")
        name = name.strip().lstrip("-").replace("-", "_")
        if name in axes:
            raise ValueError(f"`grid` must have each axis once, got {name.replace('_', '-')} twice.")
        axes[name] = parse_values(kind, name, [None if word == "None" else word for word in words])
    return axes


KEYS = ("experiment", "settings", "grid", "seeds", "members_per_cell", "member_batch_size", "keep", "float16")
TYPES = {"seeds": str, "members_per_cell": int, "member_batch_size": int, "keep": str, "float16": bool}
"""The types of the entries of a file that are no settings."""


def config_text(sweep: Sweep) -> str:
    """Return a sweep as YAML, with the settings that are not the default; `read_config` gives it back."""
    settings = {
        field.name: getattr(sweep.experiment, field.name)
        for field in dataclasses.fields(sweep.experiment)
        if field.name not in {*NOT_AXES, *sweep.axes} - {*SHARED_SETTINGS}
        and (field.default is dataclasses.MISSING or _differs(field, sweep.experiment))
    }
    config: dict[str, Any] = {
        "experiment": sweep.experiment.name,
        "settings": settings,
        "grid": dict(sweep.axes),
        "seeds": f"{sweep.seeds.start}:{sweep.seeds.stop}",
        "members_per_cell": sweep.members_per_cell,
        "member_batch_size": sweep.member_batch_size,
        "keep": sweep.recording.trainables,
        "float16": sweep.recording.float16,
    }
    option = import_option(named_modules(sweep))
    return f"# popsim {option}sweep --config FILE --out FOLDER\n{yaml_text(config)}"


def _differs(field: dataclasses.Field[Any], experiment: AbstractExperiment) -> bool:
    return getattr(experiment, field.name) != plain_value(field.name, field.default)


def read_config(path: Path) -> Sweep:
    """Read a sweep from YAML, as `config_text` writes it; only `experiment` must be given.

    Values are taken as they are written, and parsed as on the command line: `1e-3` is a number, and neither
    `no` nor `20:40` is what some versions of YAML take it for.
    """
    content, kind = read_entries(path, KEYS)
    try:
        settings = parse_settings(kind, content.get("settings"))
        if misplaced := next((name for name in NOT_AXES if name in {*settings} - {*SHARED_SETTINGS}), None):
            raise ValueError(f"`settings` must not have {misplaced!r}: {NOT_AXES[misplaced]}.")
        axes = parse_grid(kind, content.get("grid"))
        if twice := sorted({*settings} & {*axes}):
            raise ValueError(
                f"`settings` must have none of the settings in `grid`, got {twice[0]!r} in both."
            )
        entries = {
            name: parse_setting(name, content[name], type_of_entry)
            for name, type_of_entry in TYPES.items()
            if content.get(name) is not None
        }
        experiment = kind(**settings)
        return Sweep(
            experiment,
            axes,
            read_seeds(entries.get("seeds", f"0:{experiment.n_members}")),
            entries.get("members_per_cell"),
            entries.get("member_batch_size"),
            Recording(entries.get("keep", "logged"), entries.get("float16", False)),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
