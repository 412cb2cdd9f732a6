"""The flow of two units that each store a bit, with its nine fixed points."""

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis import dynamics
from popsim.analysis.figures import draw_phase_portrait


class TwoBits(eqx.Module):
    """h' = h + 0.1 (h - h^3 + coupling * the other unit)."""

    coupling: jax.Array


def step(model, h):
    return h + 0.1 * (h - h**3 + model.coupling * h[::-1])


ensemble, grid = TwoBits(jnp.array([0.15])), np.linspace(-1.5, 1.5, 31)
starts = np.random.default_rng(0).uniform(-1.5, 1.5, (1, 200, 2))
fixed = dynamics.find_fixed_points(ensemble, starts, dynamics=step).fixed
plane = dynamics.phase_plane(ensemble, np.eye(2), grid, grid, dt=0.01, dynamics=step)

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
points = plane.project(fixed.state[None])[0]
draw_phase_portrait(ax, plane.x, plane.y, plane.velocity[0], points=points, n_unstable=fixed.n_unstable)
