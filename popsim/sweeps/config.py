"""Sweeps as YAML, which people edit."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._text_checks import perhaps
from popsim.experiments import EXPERIMENTS, Recording
from popsim.store.run_folder import import_option
from popsim.sweeps.parse import parse_seeds, parse_values
from popsim.sweeps.sweep import NOT_AXES, Sweep

__all__ = ["config_text", "read_config"]

KEYS = ("experiment", "settings", "grid", "seeds", "members_per_cell", "member_batch_size", "keep", "float16")
LARGEST_BYTES = 2**20


def config_text(sweep: Sweep) -> str:
    """Return a sweep as YAML, with the settings that are not the default."""
    import yaml

    settings = {
        field.name: getattr(sweep.experiment, field.name)
        for field in dataclasses.fields(sweep.experiment)
        if field.name not in {*NOT_AXES, *sweep.axes} - {"seed"}
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

    Values may be written as on the command line: `1e-3`, which YAML takes for text, is a number.

    **Raises:** `ValueError` naming the file and the entry that does not fit.
    """
    import yaml

    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError(f"`config` must be a file of at most {LARGEST_BYTES} bytes, got {path}.")
        found = yaml.safe_load(path.read_text())
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
    if (name := found["experiment"]) not in EXPERIMENTS:
        raise ValueError(
            f"`experiment` in {path} must be one of {', '.join(EXPERIMENTS)}, got {name!r}: name the module "
            "of your own by popsim --import MODULE."
        )
    kind = EXPERIMENTS[name]
    settings, grid = (_mapping(found, entry, path) for entry in ("settings", "grid"))
    given = {own: parse_values(kind, own, [value])[0] for own, value in settings.items()}
    experiment = kind(**given)
    axes = {
        own: parse_values(kind, own, values if isinstance(values, list) else [values])
        for own, values in grid.items()
    }
    seeds = found.get("seeds", f"0:{experiment.n_members}")
    recording = Recording(str(found.get("keep", "logged")), found.get("float16") is True)
    return Sweep(
        experiment,
        axes,
        parse_seeds(str(seeds)),
        found.get("members_per_cell"),
        found.get("member_batch_size"),
        recording,
    )


def _mapping(found: Mapping[str, Any], entry: str, path: Path) -> dict[str, Any]:
    values = found.get(entry) or {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"`{entry}` in {path} must be values by name, got {values!r:.100}.")
    return {name.replace("-", "_"): value for name, value in values.items()}
