"""How best to answer to a push whose direction is told with a probability, and felt late. No popsim here.

A mass (1 kg) holds its place; p (m) and v (m/s) are its position and velocity. A trial of T steps costs

    J = sum_t p_t+1² + r u_t²,        x = (p, v),        x_t+1 = A x_t + B (u_t + w_t).

The push w is a force F of constant duration, to the right with the probability P of the trial, else to the
left. It begins at any step of a range with the same probability. The controller is told P, feels *that* the
mass is pushed some steps after the push began, and sees the mass, and so the direction of the push, later.
Without noise, the best command is that of the regulator that knows all loads, with the expected load, given
what is known, in place of the load (certainty equivalence). No causal controller has a lower mean cost.

After Michaels et al. 2025, Nature 648:668-677. What is built here is not their model.
"""

import dataclasses

import numpy as np

CHANCES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclasses.dataclass(frozen=True)
class Hold:
    """A trial.

    - `dt` (s), `n_steps`: the time step, and how many there are.
    - `cue_steps`: until when the cue is shown; the best controller remembers it.
    - `onsets`: the first and the last step at which a push may begin.
    - `push_steps`, `force` (N): how long it is, and its size.
    - `early`, `late`: how many steps old is what is felt, in the two kinds of controllers. The mass is seen
        `late` steps late by both.
    - `effort_weight`: r, in m²/N².
    """

    dt: float = 0.01
    n_steps: int = 60
    cue_steps: int = 10
    onsets: tuple[int, int] = (15, 39)
    push_steps: int = 10
    force: float = 0.5
    early: int = 2
    late: int = 7
    effort_weight: float = 3e-6


@dataclasses.dataclass(frozen=True)
class Pushes:
    """Pushes, one a trial: `chance` of one to the right as it is told, `side` (1 right, -1 left), `onset`."""

    chance: np.ndarray
    side: np.ndarray
    onset: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """How often each is to be met, relative to all of these."""
        weights = np.where(self.side > 0, self.chance, 1 - self.chance)
        return weights / weights.sum()


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a controller does: its commands (N) and the positions (m) after each step, both [trial, time], and
    the costs J (m²) [trial]."""

    commands: np.ndarray
    positions: np.ndarray
    costs: np.ndarray


def all_pushes(hold: Hold) -> Pushes:
    """All pushes that are possible."""
    onsets = np.arange(hold.onsets[0], hold.onsets[1] + 1)
    conditions = [(p, s, t) for p in CHANCES for s in (-1.0, 1.0) for t in onsets if p != (1 - s) / 2]
    chance, side, onset = np.array(conditions).T
    return Pushes(chance, side, onset.astype(int))


def dynamics(dt: float) -> tuple[np.ndarray, np.ndarray]:
    """A [2, 2] and B [2] of a time step (s) with constant force, without any error of integration."""
    return np.array([[1.0, dt], [0.0, 1.0]]), np.array([dt**2 / 2, dt])


def regulator(hold: Hold) -> tuple[np.ndarray, np.ndarray]:
    """The gains L [T, 2] and K [T, T] of the best command u_t = -L_t x_t - sum_s K_ts w_s under known loads.

    The cost to go is x' S x and what does not depend on x, or is linear in it. S_T = Q, H = r + B' S B,
    L = B' S A / H, S_t = Q + C_t' S C_t + r L' L with C_t = A - B L_t. A load w_s pulls on the state after
    step t by C_t+1' ... C_s' S_s+1 B w_s.
    """
    A, B = dynamics(hold.dt)
    S, gains, pulls, load_gains = np.diag([1.0, 0.0]), [], np.zeros((2, 0)), []
    for _ in range(hold.n_steps):
        H = hold.effort_weight + B @ S @ B
        L = B @ S @ A / H
        pulls = np.column_stack([S @ B, pulls])  # of the loads of this step and of all later ones
        gains.append(L)
        load_gains.append(np.pad(B @ pulls / H, (hold.n_steps - pulls.shape[1], 0)))
        C = A - np.outer(B, L)
        S, pulls = np.diag([1.0, 0.0]) + C.T @ S @ C + hold.effort_weight * np.outer(L, L), C.T @ pulls
    return np.array(gains[::-1]), np.array(load_gains[::-1])


def expected_loads(hold: Hold, pushes: Pushes, step: int, felt_after: int) -> np.ndarray:
    """The loads (N) [trial, time] to expect at a step, given what has been felt and seen."""
    steps = np.arange(hold.n_steps)

    def active(onsets: np.ndarray) -> np.ndarray:
        return (steps >= onsets[:, None]) & (steps < onsets[:, None] + hold.push_steps)

    unfelt = np.arange(max(hold.onsets[0], step - felt_after), hold.onsets[1] + 1)
    of_unfelt = active(unfelt).mean(axis=0) if len(unfelt) else np.zeros(hold.n_steps)
    is_felt, is_seen = (step > pushes.onset + delay for delay in (felt_after, hold.late))
    size = np.where(is_felt[:, None], active(pushes.onset), of_unfelt)
    return hold.force * np.where(is_seen, pushes.side, 2 * pushes.chance - 1)[:, None] * size


def answer(
    hold: Hold,
    pushes: Pushes,
    felt_after: int,
    *,
    believed: np.ndarray | None = None,
    foresees: bool = True,
) -> Answer:
    """What the best controller does that feels a push after some steps.

    **Arguments:**

    - `believed`: the chances that it takes those of the trials for; by default these.
    - `foresees`: whether it expects anything before it feels a push.
    """
    A, B = dynamics(hold.dt)
    L, K = regulator(hold)
    as_told = pushes if believed is None else dataclasses.replace(pushes, chance=believed)
    effects = np.array([np.linalg.matrix_power(A, t) @ B for t in range(hold.n_steps)])
    state = np.zeros((len(pushes.onset), 2))
    commands, states = np.zeros((len(state), hold.n_steps)), []
    loads = expected_loads(hold, pushes, 2 * hold.n_steps, hold.late)  # when all is seen
    for t in range(hold.n_steps):
        expected = expected_loads(hold, as_told, t, felt_after)
        if not foresees:
            expected[t <= pushes.onset + felt_after] = 0
        estimate = (commands[:, :t] + expected[:, :t]) @ effects[:t][::-1]
        commands[:, t] = -estimate @ L[t] - expected @ K[t]
        state = state @ A.T + np.outer(commands[:, t] + loads[:, t], B)
        states.append(state)
    positions = np.stack(states, axis=1)[..., 0]
    return Answer(commands, positions, np.sum(positions**2 + hold.effort_weight * commands**2, axis=1))


def early_commands(hold: Hold, pushes: Pushes, commands: np.ndarray) -> np.ndarray:
    """The command (N) [chance] while an early controller feels the push, but no controller sees it yet.

    The mean over these steps, and over the pushes of each chance.
    """
    places = pushes.onset[:, None] + np.arange(hold.early, hold.late) + 1
    early = np.take_along_axis(commands, places, axis=1).mean(axis=1)
    return np.array([early[pushes.chance == chance].mean() for chance in CHANCES])


def line(commands: np.ndarray) -> tuple[float, float]:
    """The slope (N) of commands [chance] over 2 P - 1, and r²."""
    told, centred = 2 * np.array(CHANCES) - 1, commands - commands.mean()
    slope = float(told @ commands / (told @ told))
    return slope, float(slope**2 * (told @ told) / max(centred @ centred, 1e-30))
