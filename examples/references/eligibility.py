"""Eligibility traces of rate networks, and what they add up to, in NumPy. No popsim here.

A leaky network with activations x, rates z = tanh(x), inputs u and output y, and a = dt / tau of each unit:

    x_t = (1 - a) x_{t-1} + a (W z_{t-1} + V u_t + b),    y_t = R z_t + c,    E = Σ_t w_t mean((y_t - y*_t)²).

The trace of a weight is the derivative of x by it through its own unit alone, e_t = (1 - a) e_{t-1} + a s_t
with s_t what comes to the synapse, z_{t-1}, u_t or 1. With L_t = dE/dz_t, the sum over time of L_t tanh'(x_t)
e_t is dE/dW where L_t is the *total* derivative (Bellec et al. 2020, Nat Commun 11:3625, eq. 1). With the
derivative of the cost at t alone, R' dE_t/dy_t, it is e-prop, and with fixed numbers B in place of R it is
RFLO. Murray 2019 (eLife 8:e43299) has z_t = (1 - a) z_{t-1} + a tanh(W z_{t-1} + V u_t): the leak outside.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Weights:
    """W [unit, unit], V [unit, input], b, R [output, unit], c, and a = dt / tau [unit] of a network."""

    recurrent: np.ndarray
    inputs: np.ndarray
    bias: np.ndarray
    readout: np.ndarray
    output_bias: np.ndarray
    rate: np.ndarray


@dataclasses.dataclass(frozen=True)
class Trial:
    """Inputs u [time, input], targets y* [time, output], and w [time], what errors of a step count."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


def leaky_gradient(
    net: Weights, trial: Trial, *, signal: str, feedback: np.ndarray | None = None, late: bool = False
) -> list[np.ndarray]:
    """The sums for W, V and b.

    **Arguments:**

    - `signal`: L_t: "total", or "instantaneous".
    - `feedback`: B [output, unit]; None for R.
    - `late`: whether traces take z_t for z_{t-1}, which is wrong.
    """
    n_steps, n_units = len(trial.inputs), len(net.bias)
    x, z = np.zeros((n_steps + 1, n_units)), np.zeros((n_steps + 1, n_units))  # from before the first step
    for t, u in enumerate(trial.inputs):
        received = net.recurrent @ z[t] + net.inputs @ u + net.bias
        x[t + 1] = (1 - net.rate) * x[t] + net.rate * received
        z[t + 1] = np.tanh(x[t + 1])
    slopes, rates = 1 - z[1:] ** 2, z[1:] if late else z[:-1]
    L = output_errors(net, trial, z[1:]) @ (net.readout if feedback is None else feedback)
    if signal == "total":
        by_x = np.zeros(n_units)  # dE/dx_{t+1}
        for t in reversed(range(n_steps)):
            L[t] = L[t] + net.recurrent.T @ (net.rate * by_x)
            by_x = slopes[t] * L[t] + (1 - net.rate) * by_x
    return sums(net.rate, L * slopes, [rates, trial.inputs, np.ones((n_steps, 1))], np.ones_like(slopes))


def murray_gradient(
    net: Weights, trial: Trial, start: np.ndarray, feedback: np.ndarray, *, inside: bool = False
) -> list[np.ndarray]:
    """The sums of RFLO for W and V in the network of Murray.

    **Arguments:**

    - `start`: z before the first step.
    - `feedback`: B [output, unit].
    - `inside`: whether tanh' is that of the whole trace, as if the leak were inside, which is wrong.
    """
    z, slopes = [start], []
    for u in trial.inputs:
        f = np.tanh(net.recurrent @ z[-1] + net.inputs @ u)
        slopes.append(1 - f**2)
        z.append((1 - net.rate) * z[-1] + net.rate * f)
    slopes, L = np.array(slopes), output_errors(net, trial, np.array(z[1:])) @ feedback
    then, now = (np.ones_like(slopes), slopes) if inside else (slopes, np.ones_like(slopes))
    return sums(net.rate, L * now, [np.array(z[:-1]), trial.inputs], then)


def output_errors(net: Weights, trial: Trial, z: np.ndarray) -> np.ndarray:
    """dE_t/dy_t [time, output]."""
    errors = z @ net.readout.T + net.output_bias - trial.targets
    return 2 / errors.shape[1] * trial.weights[:, None] * errors


def sums(
    rate: np.ndarray, signals: np.ndarray, sent: list[np.ndarray], slopes: np.ndarray
) -> list[np.ndarray]:
    """Σ_t signal_t e_t [unit, synapse] of each group of synapses, where e' = (1 - a) e + a slope sent."""
    found = []
    for pre in sent:
        trace = total = np.zeros((len(rate), pre.shape[1]))
        for signal, slope, activity in zip(signals, slopes, pre, strict=True):
            trace = (1 - rate)[:, None] * trace + np.outer(rate * slope, activity)
            total = total + signal[:, None] * trace
        found.append(total)
    return found
