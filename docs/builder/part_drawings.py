"""Drawings of the parts of models: muscles and networks."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim.analysis.figures import figure_style
from popsim.muscles import AbstractActivation, AbstractRigidTendonMuscle, BrownLoebMuscle, arm26_muscles
from popsim.networks import NETWORKS, build_network

DT = 0.01  # s


def draw_muscle_laws(laws: Iterable[type[AbstractRigidTendonMuscle]], path: Path) -> None:
    """Draw force against length and velocity of the fibre, of the first muscle of arm26 by each law."""
    lengths, speeds = jnp.linspace(0.4, 1.7, 131), jnp.linspace(-10.0, 10.0, 201)
    still, optimal = jnp.zeros_like(lengths), jnp.ones_like(speeds)
    with figure_style():
        figure, (active, passive, moving) = plt.subplots(
            1, 3, sharey=True, figsize=(7.2, 2.6), layout="constrained"
        )
        for law in laws:
            build: Any = BrownLoebMuscle.li_todorov if law is BrownLoebMuscle else law
            force = _force_share(arm26_muscles(build))
            active.plot(lengths, force(jnp.ones_like(lengths), lengths, still), label=law.__name__)
            passive.plot(lengths, force(jnp.zeros_like(lengths), lengths, still))
            moving.plot(speeds, force(jnp.ones_like(speeds), optimal, speeds))
        active.set(title="fully active, isometric", ylabel="force / maximal isometric force", ylim=(0, 2.5))
        passive.set(title="at rest, isometric")
        moving.set(title="fully active, at optimal length", xlabel="velocity (optimal lengths/s)")
        for ax in (active, passive):
            ax.set_xlabel("length (optimal lengths)")
        figure.legend(*active.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        _save(figure, path)


def _force_share(muscle: Any) -> Callable:
    """Return the force of the first muscle as a fraction, of many activations, lengths and velocities."""

    def share(activation, length, velocity):
        values = (
            jnp.full(muscle.max_isometric_force.shape, value) for value in (activation, length, velocity)
        )
        return muscle.force_share(*values)[0]

    return jax.jit(jax.vmap(share))


def draw_activations(kinds: Iterable[Any], path: Path) -> None:
    """Draw activation by each class of dynamics, while excitation is on for 0.3 s, weakly and fully."""
    steps = np.arange(60)
    with figure_style():
        figure, axes = plt.subplots(1, 2, sharey=True, figsize=(5.4, 2.4), layout="constrained")
        for ax, excitation in zip(axes, (0.3, 1.0), strict=True):
            command = np.where(steps < 30, excitation, 0.0)
            for kind in kinds:
                ax.plot(DT * (steps + 1), _respond(kind(), command), label=kind.__name__)
            ax.step(DT * (steps + 1), command, color="0.6", label="excitation")
            ax.set(xlabel="time (s)")
        axes[0].set_ylabel("activation")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        _save(figure, path)


def _respond(activation: AbstractActivation, command: np.ndarray) -> np.ndarray:
    def advance(value, excitation):
        value = activation.advance(DT, value, excitation[None])
        return value, value[0]

    rest = jnp.broadcast_to(activation.lowest, (1,)).astype(float)
    return np.asarray(jax.lax.scan(advance, rest, jnp.asarray(command))[1])


def draw_networks(path: Path) -> None:
    """Draw the activity of a few units of each registered network, untrained, after a pulse of input."""
    steps = np.arange(100)
    pulse = np.where((steps >= 10) & (steps < 30), 1.0, 0.0)
    with figure_style():
        figure, axes = plt.subplots(
            1,
            len(NETWORKS),
            sharey=True,
            squeeze=False,
            figsize=(2.7 * len(NETWORKS), 2.4),
            layout="constrained",
        )
        for ax, name in zip(axes[0], NETWORKS, strict=True):
            _draw_pulse_response(ax, name, pulse)
            ax.set(title=name, xlabel="time (s)")
        axes[0, 0].set_ylabel("activity")
        _save(figure, path)


def _draw_pulse_response(ax: Axes, name: str, pulse: np.ndarray) -> None:
    network = build_network(name, 1, 64, 1, dt=DT, key=jax.random.key(0))
    key = jax.random.key(1)

    def step(hidden, value):
        hidden = network.step(value[None], hidden, key=key)
        return hidden, network.activity(hidden)[:8]

    ax.axvspan(0.1, 0.3, color="0.9")
    ax.plot(
        DT * (np.arange(pulse.size) + 1), jax.lax.scan(step, network.init(key=key), jnp.asarray(pulse))[1]
    )


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)
