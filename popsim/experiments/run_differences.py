"""Whether the description of a run is that of a given experiment."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from popsim.experiments.experiment import AbstractExperiment, Recording
from popsim.store.json_files import plain_json

__all__ = ["differences_from_plan", "differences_text"]


def differences_from_plan(
    description: Mapping[str, Any], experiment: AbstractExperiment, recording: Recording
) -> list[tuple[str, Any, Any]]:
    """Return what differs between a `run.json` and the run that is planned.

    Settings that the experiment did not have when the run was begun count as their defaults.

    **Arguments:**

    - `description`: the content of run.json.
    - `experiment`: the planned experiment.
    - `recording`: the planned recording.

    **Returns:** name, described value and planned value of each entry that differs, the values as JSON.
    """
    described_name = description.get("experiment")
    if described_name != experiment.name:
        return [("experiment", described_name, experiment.name)]
    settings = _with_defaults(description.get("settings"), experiment)
    return [
        *_differences(settings, dataclasses.asdict(experiment)),
        *_differences(description.get("recording"), dataclasses.asdict(recording)),
    ]


def differences_text(differences: Iterable[tuple[str, Any, Any]]) -> str:
    """Return the entries that differ in words."""
    return "; ".join(f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences)


def _with_defaults(settings: Any, experiment: AbstractExperiment) -> Any:
    """Return settings with the defaults of those that an older experiment did not have."""
    if not isinstance(settings, dict):
        return settings
    fields = dataclasses.fields(experiment)
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    return plain_json("experiment", defaults) | settings


def _differences(described: Any, planned: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return name, described value and planned value of entries that differ as JSON."""
    described = described if isinstance(described, dict) else {}
    plain = plain_json("experiment", planned)
    names = [*plain, *(name for name in described if name not in plain)]
    pairs = [(name, described.get(name, "not"), plain.get(name, "not")) for name in names]
    return [(name, before, now) for name, before, now in pairs if before != now]
