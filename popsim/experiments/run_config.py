"""The settings of a run as YAML, for `popsim train --config`."""

import dataclasses
import hashlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from popsim._checks import check_positive, warn_caller
from popsim._text_checks import printable, suggestion
from popsim.experiments.experiment import AbstractExperiment, Recording
from popsim.experiments.registry import (
    EXPERIMENTS,
    advice_on_body,
    advice_on_name,
    described_modules,
    setting_text,
)
from popsim.experiments.setting_texts import setting_texts
from popsim.experiments.settings import setting_types
from popsim.experiments.typed_values import parsed_setting
from popsim.store.bounded_yaml import quote_texts, read_yaml, yaml_text
from popsim.store.files import write_file
from popsim.store.plain_folder import import_option
from popsim.store.run_folder import CONFIG_DIGEST, DescribedRun
from popsim.training.options import CHECKPOINT_SECONDS

__all__ = ["RunConfig", "config_text", "read_entries", "read_run_config", "write_config"]

KEYS = ("experiment", "settings", "keep", "float16", "checkpoint_seconds")
WIDTH = 100
WORD = re.compile(r"[a-z][a-z0-9_-]*")
WORDS_OF_YAML = ("null", "true", "false", "none", "yes", "no", "on", "off")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What a file of `config_text` says.

    - `experiment`: the experiment.
    - `recording`: which weights are kept.
    - `checkpoint_seconds`: the interval between checkpoints, in seconds.
    """

    experiment: AbstractExperiment
    recording: Recording = Recording()
    checkpoint_seconds: float = CHECKPOINT_SECONDS

    def __post_init__(self):
        check_positive("checkpoint_seconds", self.checkpoint_seconds)


def config_text(config: RunConfig) -> str:
    """Return all settings as YAML, with what they are for and their units; `read_run_config` reads it.

    **Raises:** `ValueError` if it would be larger than what is read.
    """
    experiment = config.experiment
    option = import_option(described_modules(experiment, dict(experiment.grid).get("network", ())))
    texts = setting_texts(type(experiment))
    entries = "".join(
        _entry(experiment, field.name, texts.get(field.name, ""))
        for field in dataclasses.fields(experiment)
        if field.name != "grid" or experiment.grid
    )
    recorded = {
        "keep": config.recording.trainables,
        "float16": config.recording.float16,
        "checkpoint_seconds": config.checkpoint_seconds,
    }
    text = (
        "# The settings of a run, to train another one with some of them changed:\n"
        f"#   popsim {option}train --config FILE --seed 1 --out FOLDER\n"
        f"{yaml_text({'experiment': _written(experiment.name)})}"
        f"settings:\n{textwrap.indent(entries, '  ')}"
        f"# when weights are kept, whether with half the digits, and the seconds between checkpoints\n"
        f"{yaml_text(_written(recorded))}"
    )
    yaml_text({"text": text})  # which is as large, and refused if it is too large
    return text


def _entry(experiment: AbstractExperiment, name: str, text: str) -> str:
    """Return a setting as YAML, below what it is for; after it the units, or the value in effect for None."""
    value, units = getattr(experiment, name), experiment.units().get(name, ())
    value = dict(value) if name == "grid" else value
    is_common = name in {field.name for field in dataclasses.fields(AbstractExperiment)}
    effective = value if is_common else experiment.effective_value(name)
    note = ", ".join(dict.fromkeys(units))
    if value is None:
        note = "" if effective is None else f"in effect: {setting_text(effective, units)}"
    if text == " and ".join(units):
        text = ""
    lines = textwrap.wrap(printable(text), WIDTH, break_long_words=False, break_on_hyphens=False)
    entry = yaml_text({name: _written(value)}).rstrip("\n") + (f"  # {printable(note)}" if note else "")
    return "".join(f"{line}\n" for line in [*(f"# {line}" for line in lines), entry])


def _written(value: Any) -> Any:
    """Return a value as YAML has it: texts in quotes, but for simple words."""
    if (
        isinstance(value, str)
        and WORD.fullmatch(value)
        and value not in WORDS_OF_YAML
        and not _is_number(value)
    ):
        return value
    if isinstance(value, Mapping):
        return {name: _written(each) for name, each in value.items()}
    return quote_texts(value)


def _is_number(text: str) -> bool:
    try:
        float(text)  # such as "nan" and "infinity"
    except ValueError:
        return False
    return True


def write_config(described: DescribedRun, config: RunConfig) -> DescribedRun:
    """Write the run.yaml of a run, and its digest into run.json; the folder must be locked.

    A file that is there is left as it is, and settings that are too large for one are not written.

    **Warns:** if the file that is there was not written by popsim as it is.
    """
    file = described.folder.config
    if file.exists():
        if described.folder.config_problem(described.content) != "":
            warn_caller(f"{file} is not as popsim wrote it, and is left: it may be of other settings.")
        return described
    try:
        text = config_text(config).encode()
    except ValueError:
        return described
    # The digest first: a file that it does not tell is never deleted, whoever wrote it.
    described = described.write(**{CONFIG_DIGEST: hashlib.sha256(text).hexdigest()})
    write_file(file, [text])
    return described


def read_run_config(path: Path) -> RunConfig:
    """Read settings from YAML, as `config_text` writes it; only `experiment` must be given.

    Values are taken as they are written, and parsed as on the command line. Nothing in the file is executed
    or imported.
    """
    content, kind = read_entries(path, KEYS)
    settings = _settings(kind, content.get("settings") or {}, path)
    recorded = {
        entry: parsed_setting(entry, content[key], (type_of_entry,), str(path))
        for key, entry, type_of_entry in (
            ("keep", "trainables", str),
            ("float16", "float16", bool),
            ("checkpoint_seconds", "checkpoint_seconds", float),
        )
        if content.get(key) is not None
    }
    seconds = recorded.pop("checkpoint_seconds", CHECKPOINT_SECONDS)
    try:
        return RunConfig(kind(**settings), Recording(**recorded), seconds)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_entries(path: Path, keys: Sequence[str]) -> tuple[dict[str, Any], type[AbstractExperiment]]:
    """Return the entries of a YAML file, and the experiment that it names.

    **Arguments:**

    - `path`: the file, of a run or of a sweep.
    - `keys`: the entries that it may have; `experiment` must be given.
    """
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
                f"{suggestion(str(name)[:100], keys)}"
            )
    if not isinstance(name := content["experiment"], str) or name not in EXPERIMENTS:
        raise ValueError(
            f"`experiment` in {path} must be known, got {name!r:.100}: {advice_on_name(str(name))}"
        )
    return content, EXPERIMENTS[name]


def _settings(kind: type[AbstractExperiment], stated: Any, path: Path) -> dict[str, Any]:
    """Return the settings in a file by name."""
    if not isinstance(stated, dict):
        raise ValueError(f"`settings` in {path} must be values by name, got {stated!r:.100}.")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    types, settings = setting_types(kind), {}
    for key, value in stated.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise ValueError(
                f"`settings` in {path} must be those of {kind.name}, got {key!r:.100}."
                f"{advice_on_body(kind, key) or suggestion(key[:100], fields)}"
            )
        if name in settings:
            raise ValueError(f"`settings` in {path} must have each once, got {key!r:.100} again.")
        where = f"`settings` in {path}"
        if name == "grid":
            settings[name] = _grid(types, value, where)
        else:
            settings[name] = parsed_setting(name, value, types.get(name, ()), where)
    return settings


def _grid(types: Mapping[str, tuple[Any, ...]], value: Any, where: str) -> tuple[tuple[str, Any], ...]:
    """Return the grid of an experiment: the values of each setting in which its members differ."""
    if not isinstance(value, dict) or not all(isinstance(values, list) for values in value.values()):
        raise ValueError(f"{where} must have lists of values by setting for grid, got {value!r:.100}.")
    return tuple(
        (name, tuple(parsed_setting(name, each, types.get(name, ()), where) for each in values))
        for name, values in value.items()
    )
