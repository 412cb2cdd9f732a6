"""Learning in a two-layer linear network: sigmoids in closed form. Numpy alone; popsim is not used.

The network y = W2 W1 x learns the map T = U S V' from whitened inputs by gradient descent on half the sum
of squared errors. With a learning rate of dt, the limit of small steps is the gradient flow

    dW1/dt = W2' (T - W2 W1),        dW2/dt = (T - W2 W1) W1'.

The strength of mode i, u_i = U_i' W2 W1 V_i, goes from u_0 to the singular value s_i.

Source: Saxe, McClelland & Ganguli 2014, "Exact solutions to the nonlinear dynamics of learning in deep
linear neural networks", arXiv 1312.6120 (abstract verified; the formulas derived anew, with tau = 1, and
checked here by integrating the flow). `random_scaled_half_time` is derived here, not taken from there.
"""

import numpy as np


def mode_strength(times: np.ndarray, s: float, u0: float) -> np.ndarray:
    """u(t) of a mode that starts aligned and balanced, the solution of u' = 2 u (s - u)."""
    growth = np.exp(2 * s * times)
    return s * growth / (growth - 1 + s / u0)


def half_time(s: float, u0: float) -> float:
    """When such a mode reaches s / 2."""
    return float(np.log(s / u0 - 1) / (2 * s))


def random_scaled_half_time(s: float, n_stronger: int, n_hidden: int, std: float) -> float:
    """The expected s t_half from small independent normal weights of standard deviation `std`.

    While all is small, the hidden vectors a = W1 V_i and b = W2' U_i follow a' = s b, b' = s a, so that
    their mean grows as exp(s t) and their difference dies out. The mean starts with variance std²/2 in each
    of the `n_hidden` directions. A direction that a stronger mode has taken is lost: along it the growth is
    s - s_stronger < 0. So u(t) = (std²/2) chi² exp(2 s t), where chi² has n_hidden - n_stronger degrees of
    freedom k. From there on u is a sigmoid:

        s t_half = [ln(s / (std²/2)) - E ln chi²_k] / 2,        E ln chi²_k = digamma(k/2) + ln 2.

    It holds for small weights and well separated singular values.
    """
    mean_log = _digamma_of_half(n_hidden - n_stronger) + np.log(2)
    return float((np.log(s / (std**2 / 2)) - mean_log) / 2)


def _digamma_of_half(k: int) -> float:
    """The digamma function at k/2, for a whole number k > 0, by its recursion from 1 or 1/2."""
    if k % 2 == 0:
        return float(-np.euler_gamma + np.sum(1 / np.arange(1, k // 2)))
    return float(-np.euler_gamma - 2 * np.log(2) + np.sum(2 / np.arange(1, k - 1, 2)))


def imbalance(W1: np.ndarray, W2: np.ndarray) -> np.ndarray:
    """W1 W1' - W2' W2 [..., hidden, hidden], which the gradient flow conserves from any start."""
    return W1 @ np.swapaxes(W1, -1, -2) - np.swapaxes(W2, -1, -2) @ W2


def gradient_flow(
    W1: np.ndarray, W2: np.ndarray, target: np.ndarray, times: np.ndarray, max_step: float = 5e-3
) -> tuple[np.ndarray, np.ndarray]:
    """W1 and W2 [time, ...] along the flow by the classical Runge-Kutta method: the check of what is above.

    **Arguments:**

    - `W1` [..., hidden, input], `W2` [..., output, hidden]: where it starts, at `times[0]`.
    - `target` [output, input]: T.
    - `times` [time]: at which to return the weights.
    - `max_step`: the largest step of the method.
    """

    def slope(w):
        error = target - w[1] @ w[0]
        return np.swapaxes(w[1], -1, -2) @ error, error @ np.swapaxes(w[0], -1, -2)

    def ahead(w, k, h):
        return w[0] + h * k[0], w[1] + h * k[1]

    w, path = (W1, W2), [(W1, W2)]
    for span in np.diff(times):
        n_steps = int(np.ceil(span / max_step))
        h = span / n_steps
        for _ in range(n_steps):
            k1 = slope(w)
            k2 = slope(ahead(w, k1, h / 2))
            k3 = slope(ahead(w, k2, h / 2))
            k4 = slope(ahead(w, k3, h))
            w = ahead(w, [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)], h)
        path.append(w)
    return np.stack([w[0] for w in path]), np.stack([w[1] for w in path])
