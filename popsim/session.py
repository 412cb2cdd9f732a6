"""Sessions: trials that follow one another, between which a network keeps its state."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from popsim.parameters import replace_fields
from popsim.trial import SessionTrials, Trial, check_trials, is_stacked, n_trials
from popsim.windows import Timeline

__all__ = ["join_trials", "separate_trials", "split_time"]

CARRIED = ("environment", "hidden")


def join_trials(trials: Trial, *, carry: Sequence[str] = CARRIED, cut_gradient: bool = False) -> Trial:
    """Return one session of stacked trials: one `Trial` whose time axis runs through all of them.

    Inputs and targets follow one another in time, and conditions have an axis of trials. What else belongs to
    single trials is in `Trial.session`.

    **Arguments:**

    - `trials`: the trials in their order, stacked.
    - `carry`: what continues from one trial to the next: "hidden", the hidden state of the network, and
        "environment", the state of the environment, by its `resume`. The rest starts anew, such as a body.
    - `cut_gradient`: whether derivatives end where a trial begins; else they flow through the session. The
        credit of a policy gradient is cut by `cut_credit` of its terms.
    """
    check_trials("trials", trials)
    if trials.session is not None:
        raise ValueError("`trials` must be single trials, got sessions: a session has no sessions in it.")
    carry = check_carry(carry)
    n_all = n_trials(trials) * trials.timeline.n_steps

    def joined(series: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf.reshape(n_all, *leaf.shape[2:]), series)

    return Trial(
        init=jax.tree.map(lambda leaf: leaf[0], trials.init),
        inputs=joined(trials.inputs),
        targets=joined(trials.targets),
        timeline=Timeline(trials.timeline.dt, n_all, epochs={"session": jnp.array([0, n_all])}),
        conditions=trials.conditions,
        session=SessionTrials(replace_fields(trials, inputs=(), targets=()), carry, cut_gradient),
    )


def check_carry(carry: Any) -> tuple[str, ...]:
    """Return what a session carries, sorted; raise `ValueError` if it is something else."""
    names = (carry,) if isinstance(carry, str) else tuple(carry)
    if unknown := [name for name in names if name not in CARRIED]:
        raise ValueError(f"`carry` must be some of {CARRIED}, got {unknown[0]!r}.")
    return tuple(sorted(set(names)))


def separate_trials(trials: Trial) -> Trial:
    """Return the single trials of a session, stacked; other trials as they are.

    Of stacked sessions all trials are stacked, those of the first session first.
    """
    session = trials.session
    if session is None:
        return trials
    n_steps = session.trials.timeline.n_steps

    def single(series: PyTree[Array], n_leading: int) -> PyTree[Array]:
        """Merge the axes of sessions and trials, where there are sessions."""
        return jax.tree.map(
            lambda leaf: leaf.reshape(math.prod(leaf.shape[:n_leading]), *leaf.shape[n_leading:]), series
        )

    n_axes = 1 + is_stacked(trials)
    series = split_time((trials.inputs, trials.targets), n_steps, n_axes - 1)
    inputs, targets = single(series, n_axes)
    return replace_fields(single(session.trials, n_axes), inputs=inputs, targets=targets)


def split_time(series: PyTree[Array], n_steps: int, axis: int = 0) -> PyTree[Array]:
    """Return arrays with the axis of time divided into trials and the time steps of a trial.

    `split_time(states, session.session.trials.timeline.n_steps, axis=2)` divides states of an ensemble, with
    the axes (member, session, time), into (member, session, trial, time).

    **Arguments:**

    - `series`: arrays with an axis of time, such as states.
    - `n_steps`: the number of time steps of a single trial.
    - `axis`: the axis of time: 0 in states of one session, 1 in those of several, 2 with members before them.
    """
    for leaf in jax.tree.leaves(series):
        if leaf.ndim <= axis or leaf.shape[axis] % n_steps:
            raise ValueError(
                f"`axis` must be that of time, whose length is a multiple of `n_steps` = {n_steps}, "
                f"got axis {axis} of an array of shape {leaf.shape}: it is 2 with members and sessions."
            )
    return jax.tree.map(
        lambda leaf: leaf.reshape(*leaf.shape[:axis], -1, n_steps, *leaf.shape[axis + 1 :]), series
    )
