"""A movie of two members in the same two reaches, in real time."""

import jax
import matplotlib.pyplot as plt

import popsim
from popsim.analysis.figures import animate_body, body_motion, save_animation

run = popsim.open_run("runs/arm26")
states, trials = run.evaluate().states, run.task.validation_trials()


def motion(member, number):
    reach = jax.tree.map(lambda leaf: leaf[member, number], states)
    trial = jax.tree.map(lambda leaf: leaf[number], trials)
    return body_motion(reach, trial, popsim.member(run.ensemble, member))


figure, axes = plt.subplots(1, 2, sharey=True, figsize=(6.4, 3.4), layout="constrained")
motions = [[motion(member, number) for number in (0, 2)] for member in (0, 1)]
film = animate_body(axes, motions, titles=["member 0", "member 1"])
save_animation(film, "arm.gif")
