"""The settings of a run as YAML, for `popsim train --config`."""

import dataclasses
import hashlib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import printable, suggestion
from popsim.experiments.experiment import AbstractExperiment, Recording
from popsim.experiments.registry import EXPERIMENTS, advice_on_name, described_modules, setting_text
from popsim.experiments.run_options import NewRunOptions
from popsim.experiments.settings import parse_setting, setting_types
from popsim.store.files import write_file
from popsim.store.run_folder import CONFIG_DIGEST, DescribedRun, import_option
from popsim.store.yaml_files import read_yaml, yaml_text

__all__ = ["config_text", "read_run_config", "write_config"]

COMMON = {field.name for field in dataclasses.fields(AbstractExperiment)}
RECORDED = {"keep": Recording.trainables, "float16": Recording.float16}
KEYS = ("experiment", "settings", "keep", "float16", "checkpoint_seconds")
WIDTH = 100


def config_text(experiment: AbstractExperiment, options: NewRunOptions) -> str:
    """Return all settings as YAML, with what they are for and their units; `read_run_config` reads it."""
    option = import_option(described_modules(experiment, dict(experiment.grid).get("network", ())))
    entries = "".join(
        _entry(experiment, field)
        for field in dataclasses.fields(experiment)
        if field.name != "grid" or experiment.grid
    )
    recorded = {
        "keep": options.recording.trainables,
        "float16": options.recording.float16,
        "checkpoint_seconds": options.entries["checkpoint_seconds"],
    }
    text = (
        "# The settings of a run, to train another one with some of them changed:\n"
        f"#   popsim {option}train --config FILE --seed 1 --out FOLDER\n"
        f"{yaml_text({'experiment': experiment.name})}"
        f"settings:\n{textwrap.indent(entries, '  ')}"
        f"# when weights are kept, whether with half the digits, and the seconds between checkpoints\n"
        f"{yaml_text(recorded)}"
    )
    yaml_text({"text": text})  # which is as large, and refused if it is too large
    return text


def _entry(experiment: AbstractExperiment, field: "dataclasses.Field[Any]") -> str:
    """Return a setting as YAML, below what it is for; after it the units, or the value in effect for None."""
    name, value = field.name, getattr(experiment, field.name)
    units = experiment.units().get(name, ())
    note = ", ".join(dict.fromkeys(units))
    if value is None and name not in COMMON:
        effective = experiment.effective_value(name)
        note = "" if effective is None else f"in effect: {setting_text(effective, units)}"
    entry = yaml_text({name: value if name != "grid" else dict(experiment.grid)}).rstrip("\n")
    text = printable(field.metadata.get("help", ""))
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(
        f"{line}\n" for line in (*(f"# {line}" for line in lines), f"{entry}  # {note}" if note else entry)
    )


def write_config(
    described: DescribedRun, experiment: AbstractExperiment, options: NewRunOptions
) -> DescribedRun:
    """Write the run.yaml of a locked run, unless it has one, and its digest into run.json."""
    file = described.folder.config
    if file.exists():
        if described.folder.config_problem(described.content) != "":
            warn_caller(f"{file} is not as popsim wrote it, and is left: it may be of other settings.")
        return described
    try:
        text = config_text(experiment, options).encode()
    except ValueError:
        return described
    # The digest first: a file that it does not tell is never deleted, whoever wrote it.
    described = described.write(**{CONFIG_DIGEST: hashlib.sha256(text).hexdigest()})
    write_file(file, [text])
    return described


def read_run_config(path: Path) -> tuple[AbstractExperiment, NewRunOptions]:
    """Read the YAML of `config_text`, parsed as on the command line; only `experiment` must be given."""
    content, kind = read_entries(path, KEYS)
    try:
        experiment = kind(**parse_settings(kind, content.get("settings")))
        kinds = {"keep": str, "float16": bool, "checkpoint_seconds": float}
        given = {key: value for key in kinds if (value := content.get(key)) is not None}
        stated = {key: parse_setting(key, value, kinds[key]) for key, value in given.items()}
        recording = Recording(*(stated.get(key, default) for key, default in RECORDED.items()))
        seconds = stated.get("checkpoint_seconds")
        return experiment, NewRunOptions(recording=recording, checkpoint_seconds=seconds)
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
