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
    """Return what differs between a `run.json` and a plan: name, described value, planned value.

    **Arguments:**

    - `description`: the content of run.json.
    - `experiment`, `recording`: the plan.
    """
    if (name := description.get("experiment")) != experiment.name:
        return [("experiment", name, experiment.name)]
    differences = []
    for part, planned in (("settings", experiment), ("recording", recording)):
        described, plain = description[part], plain_json(part, dataclasses.asdict(planned))
        pairs = {
            name: (described.get(name, "not"), plain.get(name, "not")) for name in {**plain, **described}
        }
        differences += [(name, *values) for name, values in pairs.items() if values[0] != values[1]]
    return differences


def differences_text(differences: Iterable[tuple[str, Any, Any]]) -> str:
    """Return the entries that differ in words."""
    return "; ".join(f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences)
