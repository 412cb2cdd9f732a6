"""Sweeps as users write them: axes and seeds on the command line, and YAML files."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from popsim._checks import warn_caller
from popsim._plain_values import plain_value
from popsim._text_checks import suggestion
from popsim.experiments import AbstractExperiment, Recording
from popsim.experiments.registry import advice_on_body
from popsim.experiments.run_config import read_entries
from popsim.experiments.settings import setting_types
from popsim.experiments.typed_values import TRUTHS, parsed_setting
from popsim.store.bounded_yaml import quote_texts, yaml_text
from popsim.store.plain_folder import import_option
from popsim.sweeps.limits import MOST_VALUES
from popsim.sweeps.sweep import NOT_AXES, SHARED_SETTINGS, Sweep
from popsim.sweeps.user_modules import named_modules

__all__ = ["config_text", "parse_axes", "parse_seeds", "parse_values", "read_config", "read_seeds"]


def parse_seeds(text: str) -> range:
    """Return the seeds in a text: "0:20" leaves out 20, "7" is one."""
    if not (match := re.fullmatch(r"([0-9]{1,10})(?::([0-9]{1,10}))?", text.strip())):
        raise ValueError(
            f"`seeds` must be whole numbers such as 0:20, which leaves out 20, got {text!r:.100}."
        )
    first = int(match[1])
    end = first + 1 if match[2] is None else int(match[2])
    if end <= first:
        raise ValueError(f"`seeds` must end after they begin, got {text!r}.")
    return range(first, end)


def read_seeds(text: str) -> range:
    """Return the seeds that a user wrote, as `parse_seeds`; warn of a number that may be meant as a count."""
    seeds = parse_seeds(text)
    if ":" not in text and seeds.start > 1:
        n = seeds.start
        warn_caller(f"`seeds` {n} is one network, that of seed {n}: for {n} networks, say 0:{n}.")
    return seeds


def parse_axes(kind: type[AbstractExperiment], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the axes in texts such as "learning-rate=1e-3,3e-3" or "vision-noise=0.002 0.02,0.004 0.04".

    **Arguments:**

    - `kind`: the experiment, whose settings are the axes, named as the options of its command.
    - `texts`: one for each axis.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ValueError(f"`grid` must be such as learning-rate=1e-3,3e-3, got {text!r:.100}.")
        name = name.strip().lstrip("-").replace("-", "_")
        if name in axes:
            raise ValueError(f"`grid` must have each axis once, got {name.replace('_', '-')} twice.")
        axes[name] = parse_values(kind, name, [value.strip() for value in values.split(",")])
    return axes


def parse_values(
    kind: type[AbstractExperiment], name: str, values: Sequence[Any], where: str = "grid"
) -> tuple[Any, ...]:
    """Return values of a setting, each a text as on the command line, or already a value.

    **Arguments:**

    - `kind`: the experiment.
    - `name`: the setting.
    - `values`: the values.
    - `where`: where they were given, for messages.
    """
    settings = [field.name for field in dataclasses.fields(kind) if field.name not in NOT_AXES]
    if name not in (*settings, *SHARED_SETTINGS):
        options = [setting.replace("_", "-") for setting in settings]
        option = name.replace("_", "-")
        reason = f": {NOT_AXES[name]}" if name in NOT_AXES else ""
        raise ValueError(
            f"`{where}` must be of settings of {kind.name}, got {option!r:.100}{reason}."
            f"{advice_on_body(kind, name) or suggestion(option[:100], options)}"
        )
    if len(values) > MOST_VALUES:
        raise ValueError(f"`{where}` must have at most {MOST_VALUES} values of {name!r}, got {len(values)}.")
    allowed = setting_types(kind).get(name, ())
    return tuple(parsed_setting(name, value, allowed, f"`{where}`") for value in values)


KEYS = ("experiment", "settings", "grid", "seeds", "members_per_cell", "member_batch_size", "keep", "float16")


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
        "settings": quote_texts(settings),
        "grid": quote_texts(dict(sweep.axes)),
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
    config, kind = read_entries(path, KEYS)
    settings, grid = (_mapping(config, entry, path) for entry in ("settings", "grid"))
    if twice := sorted(set(settings) & set(grid)):
        raise ValueError(
            f"`settings` in {path} must have none of the settings in `grid`, got {twice[0]!r} in both."
        )
    keywords = {key: parse_values(kind, key, [value], "settings")[0] for key, value in settings.items()}
    experiment = kind(**keywords)
    axes = {
        key: parse_values(kind, key, values if isinstance(values, list) else [values])
        for key, values in grid.items()
    }
    seeds = config.get("seeds", f"0:{experiment.n_members}")
    if not isinstance(float16 := config.get("float16") or "false", str) or float16 not in TRUTHS:
        raise ValueError(f"`float16` in {path} must be true or false, got {float16!r:.100}.")
    return Sweep(
        experiment,
        axes,
        read_seeds(str(seeds)),
        _count(config, "members_per_cell", path),
        _count(config, "member_batch_size", path),
        Recording(str(config.get("keep", "logged")), TRUTHS[float16]),
    )


def _count(config: Mapping[str, Any], entry: str, path: Path) -> int | None:
    if (value := config.get(entry)) is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,18}", value):
        raise ValueError(f"`{entry}` in {path} must be a whole number, got {value!r:.100}.")
    return int(value)


def _mapping(config: Mapping[str, Any], entry: str, path: Path) -> dict[str, Any]:
    values = config.get(entry) or {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"`{entry}` in {path} must be values by name, got {values!r:.100}.")
    named = {name.replace("-", "_"): value for name, value in values.items()}
    if len(named) < len(values):
        raise ValueError(f"`{entry}` in {path} must have each setting once, got {', '.join(values):.200}.")
    return named
