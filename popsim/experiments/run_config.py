"""The settings of a run from a YAML file, or from another run, for `popsim train --config`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import suggestion
from popsim.experiments.experiment import AbstractExperiment, Recording
from popsim.experiments.registry import EXPERIMENTS, advice_on_name, rebuild_experiment
from popsim.experiments.run_options import NewRunOptions
from popsim.experiments.settings import parse_setting, setting_types
from popsim.store import RunFolder
from popsim.store.yaml_files import read_yaml

__all__ = ["read_run_config"]

OPTIONS = {**setting_types(Recording), "checkpoint_seconds": float}
"""The types of the entries of a file that are no settings."""


def read_run_config(path: Path) -> tuple[AbstractExperiment, NewRunOptions]:
    """Read a YAML file, parsed as on the command line, of which only `experiment` must be given; or a run."""
    if path.is_dir():
        content = RunFolder.open(path).content
        recording, seconds = Recording(**content["recording"]), content["checkpoint_seconds"]
        experiment = rebuild_experiment(content, path)
        return experiment, NewRunOptions(recording=recording, checkpoint_seconds=seconds)
    content, kind = read_entries(path, ("experiment", "settings", *OPTIONS))
    try:
        experiment = kind(**parse_settings(kind, content.get("settings")))
        given = [(name, value) for name in OPTIONS if (value := content.get(name)) is not None]
        stated = {name: parse_setting(name, value, OPTIONS[name]) for name, value in given}
        seconds = stated.pop("checkpoint_seconds", None)
        return experiment, NewRunOptions(recording=Recording(**stated), checkpoint_seconds=seconds)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_entries(path: Path, keys: Sequence[str]) -> tuple[dict[str, Any], type[AbstractExperiment]]:
    """Return the entries of a YAML file of a run or a sweep, which may have some keys, and its experiment."""
    try:
        content = read_yaml(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"`config` must be a YAML file, got {path}: {str(error).rstrip('.')}.") from None
    if not isinstance(content, dict) or "experiment" not in content:
        raise ValueError(f"`config` must have an entry `experiment`, got {path} without one.")
    for name in content:
        if name not in keys:
            raise ValueError(
                f"`config` must have the entries {', '.join(keys)}, got {name!r:.100} in {path}."
                f"{suggestion(name[:100], keys)}"
            )
    if not isinstance(name := content["experiment"], str) or name not in EXPERIMENTS:
        raise ValueError(
            f"`experiment` in {path} must be known, got {name!r:.100}: {advice_on_name(str(name))}"
        )
    return content, EXPERIMENTS[name]


def parse_settings(kind: type[AbstractExperiment], stated: Any) -> dict[str, Any]:
    """Return the settings in a YAML file by name."""
    settings = _by_name("settings", stated)
    grid = {"grid": tuple(parse_grid(kind, settings.pop("grid")).items())} if "grid" in settings else {}
    return {name: parse_values(kind, name, [value], "settings")[0] for name, value in settings.items()} | grid


def parse_grid(kind: type[AbstractExperiment], stated: Any) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting in a YAML file, of which one value may stand alone."""
    return {
        name: parse_values(kind, name, values if isinstance(values, list) else [values])
        for name, values in _by_name("grid", stated).items()
    }


def parse_values(
    kind: type[AbstractExperiment], name: str, values: Sequence[Any], entry: str = "grid"
) -> tuple[Any, ...]:
    """Return values of a setting from texts; raise `ValueError` with near names if there is none."""
    if name not in (hints := setting_types(kind)):
        option, options = name.replace("_", "-")[:100], [each.replace("_", "-") for each in hints]
        raise ValueError(
            f"`{entry}` must be of settings of {kind.name}, got {option!r}.{suggestion(option, options)}"
        )
    return tuple(parse_setting(name, value, hints[name]) for value in values)


def _by_name(entry: str, stated: Any) -> dict[str, Any]:
    """Return the values in an entry of a file by the names of settings, which may be written as options."""
    if not isinstance(stated := stated or {}, dict):
        raise ValueError(f"`{entry}` must be values by name, got {stated!r:.100}.")
    named = {name.replace("-", "_"): value for name, value in stated.items()}
    if len(named) < len(stated):
        raise ValueError(f"`{entry}` must have each setting once, got {', '.join(stated):.200}.")
    return named
