"""The linear-quadratic regulator, with the state known or estimated from delayed, noisy senses."""

from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from popsim.analysis.optimal_control.costs import QuadraticCost
from popsim.analysis.optimal_control.linear_systems import LinearSystem, Senses, add_senses
from popsim.network_input import inputs_by_name
from popsim.networks import LinearController
from popsim.noise import AbstractNoise, GaussianNoise, MotorNoise, NoNoise
from popsim.senses import SensoryChannel

__all__ = ["LinearOptimum", "lqr", "lqg"]

MOST_ITERATIONS, RELATIVE_TOLERANCE = 500, 1e-12


class LinearOptimum(eqx.Module):
    """The optimal linear control of trials: u = -L ẑ, with ẑ estimated by ẑ = z⁻ + K (y - H z⁻).

    z is (x, 1, features on the way from the senses), z⁻ what the estimate and the command of the step before
    predict, A ẑ + B u.

    - `costs`: the expected cost of each trial, J*.
    - `states`, `commands`: without noise, x after each step, and u.
    - `control_gains`, `filter_gains`: L and K. All trials share K.
    - `senses`: A, B, H, and the variances of y.
    - `start`: z before the first step.
    - `converged`: False if signal-dependent noise took more iterations than `lqg` makes.
    """

    costs: Float[np.ndarray, " trial"]
    states: Float[np.ndarray, "trial time state"]
    commands: Float[np.ndarray, "trial time command"]
    control_gains: Float[np.ndarray, "trial time command all"]
    filter_gains: Float[np.ndarray, "time all feature"]
    senses: Senses
    start: Float[np.ndarray, "trial all"]
    cost: QuadraticCost
    converged: bool = eqx.field(static=True)

    def controller(self) -> LinearController:
        """Return the optimum as a network, for a loop with the same body and channels, and no `scaling`.

        It knows a trial by its inputs. An optimum that is no affine function of the inputs at each time step
        is refused, as where a target counts before it is shown, or differs between trials in more than that.
        """
        trials, n_state = self.cost.trials, self.states.shape[2]
        if np.ptp(self.start, axis=0).any() or np.ptp(self.cost.weights[..., :-1, :-1], axis=0).any():
            raise ValueError(
                "`trials` of a controller must have one start, and one cost but for the places of targets, "
                "got several: make a controller for each."
            )
        by_name = inputs_by_name(trials.inputs)
        leaves = [leaf for name in sorted(by_name) for leaf in jax.tree.leaves(by_name[name])]
        n_trials, n_steps = self.commands.shape[:2]
        shown = np.concatenate([np.reshape(leaf, (n_trials, n_steps, -1)) for leaf in leaves], axis=2)
        shown = np.append(shown, np.ones((n_trials, n_steps, 1)), axis=2)
        wanted = -self.control_gains[..., n_state]
        gains = np.linalg.pinv(shown.swapaxes(0, 1), rcond=1e-9) @ wanted.swapaxes(0, 1)
        missed = np.abs(np.einsum("kti,tic->ktc", shown, gains) - wanted).max()
        if missed > 1e-6 * np.abs(wanted).max():
            raise ValueError(
                "`trials` of a controller must show in their inputs, at each time step, on what the optimal "
                f"command depends, got one that differs by {missed:.3g} from any affine function of them."
            )
        feedback = self.control_gains[0].copy()
        feedback[..., n_state] = -gains[:, -1]
        return LinearController(
            control_gains=feedback,
            input_gains=gains[:, :-1].swapaxes(1, 2),
            filter_gains=self.filter_gains,
            A=self.senses.A,
            B=self.senses.B,
            H=self.senses.H,
            start=self.start[0],
        )


def lqr(
    system: LinearSystem, cost: QuadraticCost, *, motor_noise: AbstractNoise | None = None
) -> LinearOptimum:
    """Return the optimal control of a body whose state is known.

    No controller has a lower expected cost.

    **Arguments:**

    - `system`: the body.
    - `cost`: the cost of the trials.
    - `motor_noise`: on the command: `MotorNoise` or `GaussianNoise`; by default none.
    """
    n, m = system.B.shape
    A, B = np.eye(n + 1), np.zeros((n + 1, m))
    A[:n, :n], A[:n, n], B[:n] = system.A, system.c, system.B
    return _optimum(Senses(A, B, np.eye(n, n + 1), np.zeros(n)), cost, motor_noise)


def lqg(
    system: LinearSystem,
    cost: QuadraticCost,
    channels: Mapping[str, SensoryChannel],
    *,
    motor_noise: AbstractNoise | None = None,
) -> LinearOptimum:
    """Return the optimal control of a body that is known by delayed, noisy senses and its own commands.

    Delays are states of an extended system; the start of a trial is known. With additive noise no causal
    controller has a lower expected cost. With signal-dependent noise this is the best pair of a linear
    control and a filter whose gains do not depend on what was sensed, found in turns (Todorov 2005, Neural
    Comput 17:1084-1108, section 3). Damiani et al. 2024 (NeurIPS 37) find that his derivation takes estimates
    as unbiased, which noise within the estimator makes wrong. There is none here; tests check that the cost
    is stationary in all gains.

    **Arguments:**

    - `system`: the body, at the operating point at which senses are linear.
    - `cost`: the cost of the trials.
    - `channels`: the senses by name, as of a `SensorimotorLoop`, with no noise or `GaussianNoise`.
    - `motor_noise`: as for `lqr`.
    """
    return _optimum(add_senses(system, channels), cost, motor_noise)


def _optimum(senses: Senses, cost: QuadraticCost, motor_noise: AbstractNoise | None) -> LinearOptimum:
    n_state, n_commands = cost.start.shape[1], senses.B.shape[1]
    n_all = len(senses.A)
    constant, dependent = _motor_variances(motor_noise, n_commands)
    # From (x, u, 1) of a cost to (z, u).
    place = np.zeros((n_state + n_commands + 1, n_all + n_commands))
    place[:n_state, :n_state] = np.eye(n_state)
    place[n_state:-1, n_all:] = np.eye(n_commands)
    place[-1, n_state] = 1.0
    weights = place.T @ cost.weights @ place
    start = np.zeros((len(cost.start), n_all))
    start[:, :n_state], start[:, n_state] = cost.start, 1.0
    start = _fill_delays(senses, start, n_state + 1)
    second_moments = np.zeros((weights.shape[1], n_commands))
    costs, converged, n_iterations = np.full(len(start), np.inf), False, 0
    control_gains, filter_gains = np.zeros(0), np.zeros(0)
    while not converged and n_iterations < MOST_ITERATIONS:
        n_iterations += 1
        filter_gains, uncertainty, learned = _filter(senses, constant + dependent * second_moments)
        control_gains, to_go = _control(senses, weights, filter_gains, dependent)
        before, costs = costs, _expected_costs(senses, to_go, filter_gains, uncertainty, constant, start)
        second_moments = _command_moments(senses, control_gains, learned, start)
        change = np.abs(costs - before).max() if dependent.any() else 0.0
        converged = bool(change <= RELATIVE_TOLERANCE * np.abs(costs).max())
    states, commands = _mean_path(senses, control_gains, start)
    return LinearOptimum(
        costs, states[..., :n_state], commands, control_gains, filter_gains, senses, start, cost, converged
    )


def _motor_variances(noise: AbstractNoise | None, n_commands: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of each command: its constant part, and its factor of the command squared."""
    constant, dependent = 0.0, 0.0
    if isinstance(noise, MotorNoise):
        constant, dependent = noise.constant, noise.signal_dependent
    elif isinstance(noise, GaussianNoise):
        constant = noise.std
    elif noise is not None and not isinstance(noise, NoNoise):
        raise ValueError(f"`motor_noise` must be MotorNoise, GaussianNoise or NoNoise, got {noise!r}.")
    parts = (np.broadcast_to(np.asarray(std, float) ** 2, n_commands) for std in (constant, dependent))
    return next(parts), next(parts)


def _fill_delays(senses: Senses, start: np.ndarray, n_known: int) -> np.ndarray:
    """Return z with the features of the start on their way, at rest."""
    for _ in range(start.shape[1] - n_known):  # the longest delay has no more steps
        start[:, n_known:] = start @ senses.A[n_known:].T
    return start


def _filter(senses: Senses, variances: Float[np.ndarray, "time command"]) -> tuple[np.ndarray, ...]:
    """Return K, the covariance of z once y is known, and what y removed of it.

    `variances` are those of the noise on the commands.
    """
    A, B, H = senses.A, senses.B, senses.H
    P, gains, filtered, learned = np.zeros_like(A), [], [], []
    for variance in variances:
        innovation = H @ P @ H.T + np.diag(senses.noise)
        # The pseudoinverse stands for the inverse, so that senses without noise are filtered too.
        gains.append(P @ H.T @ np.linalg.pinv(innovation, rcond=1e-12, hermitian=True))
        learned.append(gains[-1] @ H @ P)
        filtered.append(P - learned[-1])
        P = A @ filtered[-1] @ A.T + (B * variance) @ B.T
    return np.array(gains), np.array(filtered), np.array(learned)


def _control(
    senses: Senses, weights: np.ndarray, filter_gains: np.ndarray, dependent: np.ndarray
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Return L, and for each step: S and E of the cost to go, z' S z + e' E e, and the price of noise.

    e is z minus its estimate. The price is of a unit of variance of each command.
    """
    A, B, H = senses.A, senses.B, senses.H
    n_all, n_commands = B.shape
    step, command = np.hstack([A, B]), np.eye(n_commands, n_all + n_commands, k=n_all)
    both = np.vstack([step, command])  # (z, u) to (z after the step, u)
    S = np.zeros((len(weights), n_all, n_all))
    E, gains, to_go = S, [], []
    for t in reversed(range(weights.shape[1])):
        keep = np.eye(n_all)
        if t + 1 < weights.shape[1]:
            keep = keep - filter_gains[t + 1] @ H
        after = weights[:, t].copy()
        after[:, :n_all, :n_all] += S
        M = both.T @ after @ both
        E_after = keep.T @ E @ keep
        price = np.einsum("ac,kab,bc->kc", B, after[:, :n_all, :n_all] + E_after, B)
        M_uu = M[:, n_all:, n_all:] + (dependent * price)[:, None] * np.eye(n_commands)
        L = np.linalg.solve(M_uu, M[:, n_all:, :n_all])
        known = M[:, :n_all, n_all:] @ L
        S, E_next = M[:, :n_all, :n_all] - known, known + A.T @ E_after @ A
        S, E_next = (S + S.swapaxes(1, 2)) / 2, (E_next + E_next.swapaxes(1, 2)) / 2
        to_go.append((S, E_next, price))
        E = E_next
        gains.append(L)
    return np.stack(gains[::-1], axis=1), to_go[::-1]


def _expected_costs(
    senses: Senses,
    to_go: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    filter_gains: np.ndarray,
    uncertainty: np.ndarray,
    constant: np.ndarray,
    start: np.ndarray,
) -> Float[np.ndarray, " trial"]:
    S, E, _ = to_go[0]
    costs = np.einsum("ki,kij,kj->k", start, S, start) + np.einsum("kij,ji->k", E, uncertainty[0])
    for t, (_, E, price) in enumerate(to_go):
        costs = costs + price @ constant
        if t > 0:
            costs = costs + np.einsum("if,kij,jf,f->k", filter_gains[t], E, filter_gains[t], senses.noise)
    return costs


def _command_moments(
    senses: Senses, control_gains: np.ndarray, learned: np.ndarray, start: np.ndarray
) -> Float[np.ndarray, "time command"]:
    """Return the mean over trials of each command squared."""
    X, moments = start[:, :, None] * start[:, None], []  # X: second moments of the estimate
    for L, more in zip(control_gains.swapaxes(0, 1), [*learned[1:], 0.0], strict=True):
        moments.append(np.einsum("kci,kij,kcj->kc", L, X, L).mean(axis=0))
        closed = senses.A - senses.B @ L
        X = closed @ X @ closed.swapaxes(1, 2) + more
    return np.array(moments)


def _mean_path(senses: Senses, control_gains: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    states, commands, z = [], [], start
    for L in control_gains.swapaxes(0, 1):
        commands.append(-np.einsum("kci,ki->kc", L, z))
        z = z @ senses.A.T + commands[-1] @ senses.B.T
        states.append(z)
    return np.stack(states, axis=1), np.stack(commands, axis=1)
