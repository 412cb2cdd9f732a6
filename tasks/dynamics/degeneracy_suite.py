"""The four tasks of Huang et al. 2025, in which solutions of many networks are compared."""

from itertools import combinations

import numpy as np

from popsim.distributions import Choice, Uniform
from popsim.losses import OutputError
from popsim.task import AbstractTask
from popsim.tasks.choices.memory import DelayedComparison
from popsim.tasks.dynamics.flip_flop import FlipFlop
from popsim.tasks.dynamics.path_integration import PathIntegration
from popsim.tasks.dynamics.sine_generation import SineGeneration

__all__ = ["huang2025"]

DT = 0.01  # s
STEPS = {"shortest delay": 5, "longest delay": 20, "trial": 100}
LOWEST_PULSE, HIGHEST_PULSE = 2, 10
HIGHEST_FREQUENCY = 30
BOX = 10.0  # from -5 to 5 along each axis
RAYLEIGH_SPEED = 8.0  # boxes take about a second to cross


def huang2025() -> dict[str, AbstractTask]:
    """Return the four tasks of Huang et al. 2025, "Measuring and controlling solution degeneracy", by name.

    "flip-flop", "sine-generation", "delayed-discrimination" and "path-integration", all with a time step of
    0.01 s and the mean squared error as loss. Their inputs and outputs differ: train networks on each of
    them, or on all by `MultiTask(huang2025())`.

    From the text of the paper (arXiv 2410.03972, checked) are:

    - three bits, each output the last pulse on its channel;
    - sines of frequencies evenly spaced from 1 to 30, the frequency as a constant input;
    - two pulses of amplitudes from 2 to 10, separated by 5 to 20 time steps;
    - a position in two dimensions from -5 to 5 along each axis, from a random start, direction and speed.

    The tables of its appendix were not compared. The numbers of time steps (100, and 60 of the
    discrimination), the probability of a pulse, the amplitudes (whole numbers), the speeds and turns are
    those of popsim. The direction is shown by cosine and sine, the start as a pulse, and the discrimination
    is answered after a go cue by two outputs, where the paper has one with the sign of the difference. It
    stops training at a mean squared error of 0.001, 0.05, 0.01 and 0.05, in the order above.
    """
    loss = 1.0 * OutputError()
    duration = DT * STEPS["trial"]
    amplitudes = range(LOWEST_PULSE, HIGHEST_PULSE + 1)
    return {
        "flip-flop": FlipFlop(n_bits=3, duration=duration, dt=DT, loss=loss),
        "sine-generation": SineGeneration(
            frequency=Choice(np.arange(1.0, HIGHEST_FREQUENCY + 1)), duration=duration, dt=DT, loss=loss
        ),
        "delayed-discrimination": DelayedComparison(
            pairs=[(float(high), float(low)) for low, high in combinations(amplitudes, 2)],
            noise=0.0,
            fixation=0.05,
            f1=0.05,
            delay=Uniform(DT * STEPS["shortest delay"], DT * STEPS["longest delay"]),
            f2=0.05,
            duration=0.6,
            dt=DT,
            loss=loss,
        ),
        "path-integration": PathIntegration(
            width=BOX,
            speed=RAYLEIGH_SPEED,
            border=0.1,
            noise=0.0,
            velocity_input="speed and heading",
            pulse=0.05,
            duration=duration,
            dt=DT,
            loss=loss,
        ),
    }
