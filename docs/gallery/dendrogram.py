"""Clusters of members by their hidden activity in the same trials."""

import matplotlib.pyplot as plt
import numpy as np

import popsim
from popsim.analysis import similarity
from popsim.analysis.figures import draw_dendrogram

run = popsim.open_run("runs/center-out-0")
hidden = {
    name: np.asarray(run.evaluate(popsim.without_noise(ensemble)).states.network.hidden)
    for name, ensemble in (("trained", run.ensemble), ("untrained", run.models(batch=-1)))
}
members = [*hidden["trained"], *hidden["untrained"]]
distances = similarity.pairwise(members, lambda x, y: 1 - similarity.debiased_linear_cka(x, y))
clusters = similarity.cluster_members(np.maximum(distances, 0.0))
groups = np.repeat(list(hidden), len(hidden["trained"]))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_dendrogram(ax, clusters.linkage, groups=groups, label="1 - debiased CKA")
