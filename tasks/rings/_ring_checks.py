"""Checks of the arguments of tasks on directions."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from popsim._checks import check_non_negative, n_steps_in, short_repr
from popsim._compiled import is_traced
from popsim.distributions import Choice, Constant
from popsim.tasks.rings.ring_rules import RingRule
from popsim.trial import Trial, check_trials

INDEX = (int, np.integer, np.ndarray, jax.Array)


def check_ring_trials(trials: Trial) -> None:
    """Raise `ValueError` unless trials are stacked ones of a `RingTask`."""
    check_trials("trials", trials)
    if not {"rule", "response"} <= set(trials.conditions):
        raise ValueError(f"`trials` must be of a RingTask, got conditions {sorted(trials.conditions)}.")


def check_ring_outputs(outputs: Float[Array, "..."], trials: Trial, n_outputs: int) -> None:
    """Raise `ValueError` unless outputs are those of trials of a `RingTask`."""
    check_ring_trials(trials)
    expected = (len(trials.conditions["rule"]), trials.timeline.n_steps, n_outputs)
    if outputs.shape[-3:] != expected:
        raise ValueError(
            f"`outputs` must be those of the trials, (trial, time, output) {expected}, with more leading "
            f"axes or none, got shape {outputs.shape}."
        )


def check_rule_index(rule: Any, names: tuple[str, ...]) -> None:
    """Raise `ValueError` unless a rule is an index of these names, or traced."""
    if not is_traced(rule) and (not isinstance(rule, INDEX) or not 0 <= int(rule) < len(names)):
        raise ValueError(
            f"`rule` must be an index of {list(names)}, such as task.names.index({names[0]!r}), "
            f"got {short_repr(rule)}."
        )


def check_whole_steps(rules: Mapping[str, RingRule], dt: float) -> None:
    """Raise `ValueError` if a duration that is given as a number is no whole number of time steps."""
    for rule_name, rule in rules.items():
        for epoch, duration in rule.durations.items():
            check_non_negative(f"durations[{epoch!r}] of the rule {rule_name!r}", duration.bounds()[0])
            if isinstance(duration, Constant | Choice):
                numbers = duration.values if isinstance(duration, Choice) else duration.value
                for seconds in np.ravel(np.asarray(numbers, float)):
                    n_steps_in(f"durations[{epoch!r}] of the rule {rule_name!r}", round(seconds, 6), dt)
