"""FORCE and full-FORCE on given weights. No popsim here.

A network x += a (-x + J r + v z), with r = tanh(x), a = dt / tau and the output z = w r, is to put out y.
Recursive least squares change w at every second step by

    k = P r / (1 + r' P r),      w -= (w r - y) k,      P -= k r' P,      P = I / alpha at first.

FORCE (Sussillo & Abbott 2009) changes the readout w alone, whose output comes back by v. In full-FORCE
(DePasquale et al. 2018) nothing comes back, v = 0. J changes, too, so that J r follows what a second network
receives, which has random weights and into which y is fed: x_D += a (-x_D + J_D r_D + u y).
"""

import dataclasses

import numpy as np

AMPLITUDES = (1.3, 0.65, 1.3 / 3, 0.325)  # of the sines, divided by 1.5
EVERY = 2  # steps


@dataclasses.dataclass(frozen=True)
class Network:
    """A network before it learns: J [unit, unit], v [unit], the first x [unit], a and alpha."""

    recurrent: np.ndarray
    feedback: np.ndarray
    start: np.ndarray
    leak: float
    alpha: float = 1.0


@dataclasses.dataclass(frozen=True)
class Driven:
    """The second network of full-FORCE: J_D [unit, unit] and u [unit]."""

    recurrent: np.ndarray
    drive: np.ndarray


@dataclasses.dataclass(frozen=True)
class Course:
    """What a network did: z after each step and the size of w, both [time], and w at the end [unit]."""

    outputs: np.ndarray
    sizes: np.ndarray
    readout: np.ndarray


def four_sines(n_steps: int, period_steps: int) -> np.ndarray:
    """The target [time]: after step t that of the time (t + 1) dt."""
    phase = 2 * np.pi * np.arange(1, n_steps + 1) / period_steps
    return np.array(AMPLITUDES) @ [np.sin(n * phase) for n in (1, 2, 3, 4)] / 1.5


def learn(
    network: Network,
    target: np.ndarray,
    n_learned: int,
    driven: Driven | None = None,
    *,
    fed_target: bool = False,
) -> Course:
    """Run FORCE, or full-FORCE if there is a `driven` network, and then go on with fixed weights.

    **Arguments:**

    - `target` [time], `n_learned`: y, and for how many steps the network learns.
    - `fed_target`: whether the target comes back in place of the output while it learns.
    """
    J, w, P = network.recurrent.copy(), np.zeros(len(network.start)), np.eye(len(network.start))
    P /= network.alpha
    x = x_driven = wanted = network.start
    outputs, sizes = [], []
    for t in range(len(target)):
        r = np.tanh(x)
        if driven is not None:
            wanted = driven.recurrent @ np.tanh(x_driven) + driven.drive * target[t]
        if 0 < t <= n_learned and (t - 1) % EVERY == 0:
            Pr = P @ r
            k = Pr / (1 + r @ Pr)
            w = w - (w @ r - target[t - 1]) * k
            if driven is not None:
                J -= np.outer(J @ r - wanted, k)
            P -= np.outer(k, Pr)
        back = target[t - 1] if fed_target and 0 < t <= n_learned else w @ r
        x = x + network.leak * (J @ r + network.feedback * back - x)
        if driven is not None:
            x_driven = x_driven + network.leak * (wanted - x_driven)
        outputs.append(w @ np.tanh(x))
        sizes.append(np.linalg.norm(w))
    return Course(np.array(outputs), np.array(sizes), w)
