"""Initial weights of a network with excitatory and inhibitory units in two areas."""

import jax
import matplotlib.pyplot as plt

from popsim.analysis.figures import draw_area_weights
from popsim.networks import AreaRNN, Areas, Sparse

areas = Areas(
    {"PMd": 60, "M1": 40},
    connections={
        ("PMd", "M1"): Sparse(0.3, from_excitatory=True),
        ("M1", "PMd"): Sparse(0.1, from_excitatory=True),
    },
    excitatory=0.8,
)
network = AreaRNN(areas, {"target": 2}, 2, key=jax.random.key(0))
groups = {"PMd": network.unit_groups()["PMd"], "M1": network.unit_groups()["M1"]}

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_area_weights(ax, network.recurrent_weights, groups, limit=0.8)
