"""Activity of two areas after a pulse that only the first receives."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_area_activity
from popsim.networks import AreaRNN, Areas, Sparse

areas = Areas(
    {"PMd": 60, "M1": 40},
    connections={("PMd", "M1"): Sparse(0.3), ("M1", "PMd"): Sparse(0.1)},
    delays={("PMd", "M1"): 0.1},
    inputs={"PMd": ["cue"]},
)
network = AreaRNN(areas, {"cue": 2}, 2, gain=1.2, dt=0.01, key=jax.random.key(0))
model = popsim.NetworkModel(network, dt=0.01)
timeline = popsim.Timeline(dt=0.01, n_steps=80)
cue = jnp.where((jnp.arange(80) >= 10) & (jnp.arange(80) < 30), 1.0, 0.0)[:, None] * jnp.ones(2)
states = popsim.simulate(model, popsim.Trial((), {"cue": cue}, (), timeline), key=jax.random.key(1))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_area_activity(ax, jax.vmap(network.activity)(states.network.hidden), network.unit_groups(), dt=0.01)
