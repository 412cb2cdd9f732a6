"""The states of models."""

import dataclasses
from collections.abc import Collection
from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim.hand import HandState
from popsim.interaction import Interaction, resume_interaction
from popsim.model import DelayBuffer
from popsim.networks import NetworkState
from popsim.trial import Trial

__all__ = ["LoopState", "NetworkModelState"]


class LoopState(eqx.Module):
    """The state of a `SensorimotorLoop`, recorded by simulations except for `delays`.

    - `feedback`: by channel, the delayed, noisy features that the network received at this step.
    - `network`: the hidden units and the output of the network.
    - `command`: the network's output with motor noise, as the body received it.
    - `external_force`: the external force on the hand at the start of this step, in N.
    - `plant`: the state of the body.
    - `hand`: position (m) and velocity (m/s) of the hand.
    - `cursor`: the visible hand; it differs from `hand` under visual perturbations.
    - `delays`: by channel, the sensed features that have not arrived yet.

    None unless a trial schedules an intervention that needs them:

    - `unit_input`: the current added to the input of the units at this step, see `UnitInput`.
    - `external_torque`: the external generalised force on the coordinates of the body (for an arm the
        torques, in N m) at the start of this step, in addition to `external_force`.
    - `start`: the position of the hand at the start of the trial, in m.

    `interaction` is the exchange with the environment; None in trials without one.
    """

    feedback: dict[str, Float[Array, "*axes features"]]
    network: NetworkState
    command: Float[Array, "*axes commands"]
    external_force: Float[Array, "*axes space"]
    plant: PyTree[Array]
    hand: HandState
    cursor: HandState
    delays: dict[str, DelayBuffer | None]
    unit_input: Float[Array, "*axes hidden"] | None = None
    external_torque: Float[Array, "*axes coordinates"] | None = None
    start: Float[Array, "*axes space"] | None = None
    interaction: Interaction | None = None

    @classmethod
    def at_rest(cls, body: PyTree[Array], hand: HandState, network: NetworkState) -> "LoopState":
        """Return the state of a loop whose body is at rest, without feedback yet.

        **Arguments:**

        - `body`: the state of the body, such as `plant.rest_state(position)`.
        - `hand`: its hand, `plant.hand(body)`.
        - `network`: the state of the network.
        """
        return cls(
            feedback={},
            network=network,
            command=jnp.zeros_like(network.output),
            external_force=jnp.zeros_like(hand.position),
            plant=body,
            hand=hand,
            cursor=hand,
            delays={},
        )


StateType = TypeVar("StateType", bound="LoopState | NetworkModelState")


def continue_state(
    fresh: StateType, ended: StateType, trial: Trial, carry: Collection[str], *, key: Key[Array, ""]
) -> StateType:
    """Return the state before the first step of a trial of a session."""
    if "hidden" in carry:
        fresh = dataclasses.replace(fresh, network=ended.network)
    if "environment" in carry and trial.environment is not None:
        assert fresh.interaction is not None and ended.interaction is not None
        resumed = resume_interaction(trial.environment, fresh.interaction, ended.interaction, key=key)
        fresh = dataclasses.replace(fresh, interaction=resumed)
    return fresh


class NetworkModelState(eqx.Module):
    """The state of a `NetworkModel`.

    - `network`: the hidden units and the output of the network, as in a `LoopState`.
    - `received`: the input of the network at this step; None unless a trial schedules an intervention after
        "sense".
    - `unit_input`: the current added to the input of its units; None unless a trial schedules one.
    - `interaction`: the exchange with the environment; None in trials without one.
    """

    network: NetworkState
    received: Float[Array, "*axes inputs"] | None = None
    unit_input: Float[Array, "*axes hidden"] | None = None
    interaction: Interaction | None = None
