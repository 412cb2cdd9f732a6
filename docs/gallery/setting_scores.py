import matplotlib.pyplot as plt
import numpy as np

from popsim.analysis.figures import draw_setting_scores

rng = np.random.default_rng(0)
rates, scores = [0.003, 0.01, 0.03, 0.1], []
for rate in rates:  # the mean of 200 numbers, followed with some learning rate, by 8 learners
    x = np.ones((8, 200))
    for _ in range(400):
        x += rate * (rng.normal(size=x.shape) - x)
    scores.append((x**2).mean(axis=1))

figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
draw_setting_scores(
    ax, scores, names=[str(rate) for rate in rates], axis="learning rate", label="squared error"
)
