import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import draw_loss_bands

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
for name, color in (("center-out-0", "#0072B2"), ("arm26", "#E69F00")):
    history = popsim.open_run(f"runs/{name}").history
    loss = history.total_loss.values  # (batch, member)
    draw_loss_bands(ax, history.batch.values, loss, label=name, color=color)
ax.legend()
