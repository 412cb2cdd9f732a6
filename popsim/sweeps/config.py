"""Sweeps as people write them: axes and seeds as typed, and files of YAML."""

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

from popsim._text_checks import perhaps
from popsim.experiments import EXPERIMENTS, AbstractExperiment, Recording
from popsim.store.run_folder import import_option
from popsim.sweeps.sweep import NOT_AXES, SHARED_SETTINGS, Sweep

__all__ = ["config_text", "parse_axes", "parse_seeds", "parse_values", "read_config"]


def parse_seeds(text: str) -> range:
    """Return the seeds in a text: "0:20" leaves out 20, "7" is one.

    **Raises:** `ValueError` if it is neither.
    """
    if not (match := re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text.strip())):
        raise ValueError(f"`seeds` must be whole numbers such as 0:20, which leaves out 20, got {text!r}.")
    first = int(match[1])
    end = first + 1 if match[2] is None else int(match[2])
    if end <= first:
        raise ValueError(f"`seeds` must end after they begin, got {text!r}.")
    return range(first, end)


def parse_axes(kind: type[AbstractExperiment], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the axes in texts such as "learning-rate=1e-3,3e-3" or "vision-noise=0.002 0.02,0.004 0.04".

    **Arguments:**

    - `kind`: the experiment, whose settings are the axes, named as the options of its command.
    - `texts`: one for each axis.

    **Raises:** `ValueError` naming an axis that does not exist, is given twice, or has a value that does not
    parse.
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ValueError(f"`grid` must be such as learning-rate=1e-3,3e-3, got {text!r}.")
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

    **Raises:** `ValueError` if there is no such setting, or a value does not parse.
    """
    known = [field.name for field in dataclasses.fields(kind) if field.name not in NOT_AXES]
    if name not in (*known, *SHARED_SETTINGS):
        options = [own.replace("_", "-") for own in known]
        option = name.replace("_", "-")
        why = f": {NOT_AXES[name]}" if name in NOT_AXES else ""
        raise ValueError(
            f"`{where}` must be of settings of {kind.name}, got {option!r}{why}.{perhaps(option, options)}"
        )
    return tuple(_parsed(kind, name, value, where) for value in values)


def _parsed(kind: type[AbstractExperiment], name: str, value: Any, where: str) -> Any:
    hint = typing.get_type_hints(kind, include_extras=True)[name]
    if value is None and type(None) in typing.get_args(hint):
        return None
    words = (
        list(map(str, value))
        if isinstance(value, list | tuple)
        else str("" if value is None else value).split()
    )
    if hint is bool:
        words = [str(TRUTHS.get(word, word)) for word in words]
    holder = dataclasses.make_dataclass("Value", [("value", hint)])  # checked with all settings, later
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return tyro.cli(holder, args=["--value", *words], config=(tyro.conf.OmitArgPrefixes,)).value
    except SystemExit:
        option, text = name.replace("_", "-"), " ".join(words)
        told = repr(text) if text else "nothing"
        raise ValueError(f"`{where}` must have {_expected(hint)} for {option}, got {told}.") from None


def _expected(hint: Any) -> str:
    """Return in words what values a setting has."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(hint)))}"
    words = {int: "whole numbers", float: "numbers", bool: "true or false"}
    return words.get(hint, "values of this setting")


KEYS = ("experiment", "settings", "grid", "seeds", "members_per_cell", "member_batch_size", "keep", "float16")
LARGEST_BYTES = 2**20
TRUTHS = {"true": True, "false": False}


def config_text(sweep: Sweep) -> str:
    """Return a sweep as YAML, with the settings that are not the default."""
    import yaml

    settings = {
        field.name: getattr(sweep.experiment, field.name)
        for field in dataclasses.fields(sweep.experiment)
        if field.name not in {*NOT_AXES, *sweep.axes} - {*SHARED_SETTINGS}
        and getattr(sweep.experiment, field.name) != field.default
    }
    config: dict[str, Any] = {
        "experiment": sweep.experiment.name,
        "settings": _as_lists(settings),
        "grid": _as_lists(dict(sweep.axes)),
        "seeds": f"{sweep.seeds.start}:{sweep.seeds.stop}",
        "members_per_cell": sweep.members_per_cell,
        "member_batch_size": sweep.member_batch_size,
        "keep": sweep.recording.trainables,
        "float16": sweep.recording.float16,
    }
    option = import_option(type(sweep.experiment).__module__)
    head = f"# popsim {option}sweep --config FILE --out FOLDER\n"
    return head + yaml.safe_dump(config, sort_keys=False, default_flow_style=None, allow_unicode=True)


def _as_lists(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: _as_lists(own) for name, own in values.items()}
    return list(map(_as_lists, values)) if isinstance(values, list | tuple) else values


def read_config(path: Path) -> Sweep:
    """Read a sweep from YAML, as `config_text` writes it; only `experiment` must be given.

    Values are taken as they are written, and parsed as on the command line: `1e-3` is a number, and neither
    `no` nor `20:40` is what some versions of YAML take it for.

    **Raises:** `ValueError` naming the file and the entry that does not fit.
    """
    import yaml

    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError(f"`config` must be a file of at most {LARGEST_BYTES} bytes, got {path}.")
        found = yaml.load(path.read_text(), Loader=_text_loader())
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"`config` must be a YAML file, got {path}: {error}") from None
    if not isinstance(found, dict) or "experiment" not in found:
        raise ValueError(f"`config` must have an entry `experiment`, got {path} without one.")
    for name in found:
        if name not in KEYS:
            raise ValueError(
                f"`config` must have the entries {', '.join(KEYS)}, got {name!r} in {path}."
                f"{perhaps(str(name), KEYS)}"
            )
    if not isinstance(name := found["experiment"], str) or name not in EXPERIMENTS:
        raise ValueError(
            f"`experiment` in {path} must be one of {', '.join(EXPERIMENTS)}, got {name!r}: name the module "
            "of your own by popsim --import MODULE."
        )
    kind = EXPERIMENTS[name]
    settings, grid = (_mapping(found, entry, path) for entry in ("settings", "grid"))
    given = {own: parse_values(kind, own, [value], "settings")[0] for own, value in settings.items()}
    experiment = kind(**given)
    axes = {
        own: parse_values(kind, own, values if isinstance(values, list) else [values])
        for own, values in grid.items()
    }
    seeds = found.get("seeds", f"0:{experiment.n_members}")
    if (float16 := found.get("float16") or "false") not in TRUTHS:
        raise ValueError(f"`float16` in {path} must be true or false, got {float16!r:.100}.")
    return Sweep(
        experiment,
        axes,
        parse_seeds(str(seeds)),
        _count(found, "members_per_cell", path),
        _count(found, "member_batch_size", path),
        Recording(str(found.get("keep", "logged")), TRUTHS[float16]),
    )


def _text_loader() -> Any:
    """Return a loader of YAML that leaves all values but null as text."""
    import yaml

    class TextLoader(yaml.SafeLoader):
        yaml_implicit_resolvers = {
            first: [
                (tag, form)
                for tag, form in own
                if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
            ]
            for first, own in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    return TextLoader


def _count(found: Mapping[str, Any], entry: str, path: Path) -> int | None:
    if (value := found.get(entry)) is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,9}", value):
        raise ValueError(f"`{entry}` in {path} must be a whole number, got {value!r:.100}.")
    return int(value)


def _mapping(found: Mapping[str, Any], entry: str, path: Path) -> dict[str, Any]:
    values = found.get(entry) or {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"`{entry}` in {path} must be values by name, got {values!r:.100}.")
    named = {name.replace("-", "_"): value for name, value in values.items()}
    if len(named) < len(values):
        raise ValueError(f"`{entry}` in {path} must have each setting once, got {', '.join(values)}.")
    return named
