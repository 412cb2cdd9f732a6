"""An arm with six muscles at the end of a reach."""

import jax
import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import body_motion, draw_body

run = popsim.open_run("runs/arm26")
states, trials = run.evaluate().states, run.task.validation_trials()
reach = jax.tree.map(lambda leaf: leaf[0, 2], states)  # of member 0, upwards
trial = jax.tree.map(lambda leaf: leaf[2], trials)

figure, ax = plt.subplots(figsize=(3.4, 3.4), layout="constrained")
draw_body(ax, body_motion(reach, trial, popsim.member(run.ensemble, 0)))
