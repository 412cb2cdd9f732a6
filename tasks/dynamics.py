"""Memories of bits and of a place, waves, and a suite: tasks that are solved by dynamics."""

from itertools import combinations
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared import checks
from popsim._shared.checks import short_repr
from popsim.distributions import Choice, Uniform
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Scalar
from popsim.tasks.choices.memory import DelayedComparison
from popsim.trial import OutputTarget, Trial
from popsim.windows import Timeline

__all__ = [
    "FlipFlop",
    "SineGeneration",
    "PathIntegration",
    "integrate_velocity",
    "integration_error",
    "huang2025",
]


MOST_BITS = 10


class FlipFlop(parts.AbstractFixedTimes):
    """Each output holds the sign of the last pulse on its channel.

    The task of Sussillo & Barak 2013, Neural Comput 25:626, as in the example of FixedPointFinder.

    - Inputs: "pulses" (`n_bits`), each +1 or -1 with equal probability. A pulse lasts one time step and is
        drawn independently on each channel. The first time step has a pulse on every channel.
    - Targets: `n_bits` outputs, the sign of the last pulse on each channel, including the current time
        step. All time steps count.
    - Conditions: "first bits" (`n_bits`, 0 or 1), the first pulses.

    There is one validation trial for each of the 2^n initial states.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    n_bits: int = fields.count("channels, up to 10", default=3)
    pulse_probability: Scalar = fields.fraction(
        "the probability of a pulse in a channel and time step", default=0.06
    )
    duration: float = fields.trial_duration(default=1.0)
    dt: float = fields.time_step(default=0.01)

    def __check_init__(self):
        if self.n_bits > MOST_BITS:
            raise ValueError(f"`n_bits` must be at most {MOST_BITS}, got {self.n_bits}.")

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        first_bits = jax.random.bernoulli(key_stream(key, "first bits"), shape=(self.n_bits,)).astype(int)
        return self._trial(first_bits, key=key)

    def validation_trials(self) -> Trial:
        states = jnp.arange(2**self.n_bits)
        return parts.trials_of_conditions(self._trial, (states[:, None] >> jnp.arange(self.n_bits)) & 1)

    def _trial(self, first_bits: Int[Array, " bits"], *, key: Key[Array, ""]) -> Trial:
        shape = (self.n_steps, self.n_bits)
        is_pulse = jax.random.bernoulli(key_stream(key, "pulses"), self.pulse_probability, shape)
        signs = jax.random.rademacher(key_stream(key, "signs"), shape, float)
        pulses = jnp.where(is_pulse, signs, 0.0).at[0].set(jnp.where(first_bits == 1, 1.0, -1.0))
        targets = OutputTarget(_last_nonzero(pulses), jnp.ones(self.n_steps), is_choice=False)
        labels = {"first bits": first_bits}
        return Trial((), {"pulses": pulses}, targets, self.whole_trial("memory"), conditions=labels)


def _last_nonzero(pulses: Float[Array, "time bits"]) -> Float[Array, "time bits"]:
    """Return the last nonzero value up to each time step; the first time step must be nonzero."""
    steps = jnp.arange(pulses.shape[0])[:, None]
    last = jax.lax.cummax(jnp.where(pulses != 0, steps, 0), axis=0)
    return jnp.take_along_axis(pulses, last, axis=0)


class SineGeneration(parts.AbstractFixedTimes):
    """A sine wave whose frequency is set by a constant input.

    After the sine wave generator of Sussillo & Barak 2013, Neural Comput 25:626, with other frequencies (not
    compared with the paper).

    - Inputs: "frequency" (1), the frequency in Hz, constant.
    - Targets: one output, A sin(2 pi f t), with t = 0 at the start and t = dt at the first time step. All
        time steps count.
    - Conditions: "frequency" (Hz).

    The validation trials have five frequencies over the range, or all of a `Choice`.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    frequency: Drawn = fields.drawn("the frequency f, in Hz", default=(0.5, 1.5), check=POSITIVE)
    amplitude: Scalar = fields.non_negative("the amplitude A", default=1.0)
    duration: float = fields.trial_duration(default=2.0)
    dt: float = fields.time_step(default=0.02)

    def __check_init__(self):
        _, high = self.frequency.bounds()
        if not np.all(np.asarray(high) * self.dt <= 0.5):
            raise ValueError(
                f"`frequency` must be at most {0.5 / self.dt:.4g} Hz, two steps a period, "
                f"got {short_repr(high)} Hz."
            )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._trial(self.frequency.sample(key=key_stream(key, "frequency")), key=key)

    def validation_trials(self) -> Trial:
        return parts.trials_of_conditions(self._trial, parts.nominal_values(self.frequency))

    def _trial(self, frequency: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        times = self.dt * jnp.arange(1.0, self.n_steps + 1)
        wave = self.amplitude * jnp.sin(2 * jnp.pi * frequency * times)
        inputs = {"frequency": jnp.broadcast_to(frequency, (self.n_steps, 1))}
        targets = OutputTarget(wave[:, None], jnp.ones(self.n_steps), is_choice=False)
        timeline = self.whole_trial("oscillation")
        return Trial((), inputs, targets, timeline, conditions={"frequency": frequency})


SPEED = 0.817  # m/s: 2 pi times 0.13
TURNING = 1.63  # rad / s^0.5: 2 times 5.76 rad/s in time steps of 0.02 s
SLOWER_AT_WALL = 0.25
N_STARTS, N_HEADINGS = 3, 4  # of validation trials: along each axis of the box, and all around


class PathIntegration(parts.AbstractFixedTimes):
    """Tell the position of a rat in a square box, from where it started and its noisy velocity.

    After Cueva & Wei 2018 (arXiv 1803.07770; compared with the abstract only) and Banino et al. 2018, Nature
    557:429. The motion is theirs, after Raudies & Hasselmo 2012, PLoS Comput Biol 8:e1002553, as the code of
    Sorscher et al. 2019 has it (checked in ganguli-lab/grid-pattern-formation, where 0.13 m/s and 5.76 rad/s
    are multiplied by 2 pi and 2): a Rayleigh speed, a heading that turns at random, and at a wall a turn
    until it is parallel, at a quarter of the speed. Here the speed varies smoothly, as in RatInABox (checked
    in its code), so that the motion hardly depends on the time step.

    - Inputs: "start" (2), the first position in m during the epoch "start", then zero; "velocity" (2), in
        m/s, plus white noise, in the epoch "movement". With `velocity_input="speed and heading"`, "speed"
        (1) and "heading" (2: cosine and sine) of the same noisy velocity in its place.
    - Targets: two outputs, the position in m from the centre of the box at the end of each time step. All
        time steps count.
    - Conditions: "start" and "end" (m, 2), "heading" (the first one, in rad).

    Starts are uniform in the box, first headings on the circle; 36 validation trials have 3 by 3 starts, each
    with 4 headings. `integrate_velocity` is the perfect integrator, `integration_error` its error: where the
    noise is small beside the motion nothing can do much better.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    width: Scalar = fields.positive("the side of the box, in m; 2.2 in Sorscher et al.", default=2.2)
    speed: Scalar = fields.positive(
        "the scale b of the Rayleigh distribution of speeds, in m/s, of mean b sqrt(pi / 2)", default=SPEED
    )
    speed_time: Scalar = fields.positive(
        "the correlation time of the speed, in seconds; 0.7 in RatInABox", default=0.7
    )
    turning: Scalar = fields.non_negative(
        "the standard deviation of the turn in a second, in rad / s^0.5; times dt^0.5 in a step",
        default=TURNING,
    )
    border: Scalar = fields.non_negative("the distance from a wall to turn at, in m", default=0.03)
    noise: Scalar = fields.non_negative(
        "sigma of the velocity along each axis, in m / s^0.5; sigma / dt^0.5 in a time step", default=0.1
    )
    velocity_input: Literal["components", "speed and heading"] = fields.setting(
        '"components" or "speed and heading"', default="components"
    )
    pulse: float = fields.fixed('the duration of the epoch "start", in seconds', default=0.1)
    duration: float = fields.trial_duration(default=2.1)
    dt: float = fields.time_step(default=0.05)

    def __check_init__(self):
        if self.n_pulse >= self.n_steps:
            raise ValueError(
                f"`pulse` must be shorter than the trial, {self.duration} s, got {self.pulse} s."
            )
        if self.border >= self.width / 2:
            raise ValueError(
                f"`border` must be less than half the width, {float(self.width) / 2:.4g} m, "
                f"got {short_repr(self.border)} m."
            )

    @property
    def n_pulse(self) -> int:
        """The number of time steps in which the start is shown."""
        return checks.n_steps_in("pulse", self.pulse, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        place = jax.random.uniform(key_stream(key, "start"), (2,), minval=-0.5, maxval=0.5)
        heading = jax.random.uniform(key_stream(key, "heading"), (), minval=-jnp.pi, maxval=jnp.pi)
        return self._trial(place, heading, key=key)

    def validation_trials(self) -> Trial:
        row, column, turn = parts.all_combinations(N_STARTS, N_STARTS, N_HEADINGS)
        places = (jnp.stack([column, row], axis=-1).astype(float) + 0.5) / N_STARTS - 0.5
        headings = parts.wrap_angle(2 * jnp.pi / N_HEADINGS * turn.astype(float))
        return parts.trials_of_conditions(self._trial, places, headings)

    def _trial(self, place: Float[Array, " 2"], heading: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        """Return the trial that starts at `place`, in widths of the box from its centre."""
        start, n_pulse = self.width * place, self.n_pulse
        positions = self._walk(start, heading, key=key)
        is_start = (jnp.arange(self.n_steps) < n_pulse)[:, None]
        values = jnp.concatenate([jnp.broadcast_to(start, (n_pulse, 2)), positions])
        velocity = jnp.diff(values, axis=0, prepend=start[None]) / self.dt
        random = jax.random.normal(key_stream(key, "noise"), velocity.shape)
        noisy = jnp.where(is_start, 0.0, velocity + self.noise / self.dt**0.5 * random)
        inputs = {"start": jnp.where(is_start, start, 0.0), **self._velocity_inputs(noisy)}
        targets = OutputTarget(values, jnp.ones(self.n_steps), is_choice=False)
        epochs = {"start": jnp.array([0, n_pulse]), "movement": jnp.array([n_pulse, self.n_steps])}
        timeline = Timeline(self.dt, self.n_steps, epochs, {"movement on": jnp.array(n_pulse)})
        labels = {"start": start, "end": positions[-1], "heading": parts.wrap_angle(heading)}
        return Trial((), inputs, targets, timeline, conditions=labels)

    def _velocity_inputs(self, velocity: Float[Array, "time 2"]) -> dict[str, Array]:
        if self.velocity_input == "components":
            return {"velocity": velocity}
        speed = jnp.linalg.norm(velocity, axis=-1, keepdims=True)
        return {"speed": speed, "heading": velocity / jnp.where(speed > 0, speed, 1.0)}

    def _walk(
        self, start: Float[Array, " 2"], heading: Float[Array, ""], *, key: Key[Array, ""]
    ) -> Float[Array, "movement 2"]:
        """Return the position at the end of each time step of the movement."""
        n_moving = self.n_steps - self.n_pulse
        turns = jax.random.normal(key_stream(key, "turns"), (n_moving,))
        # Two normal numbers whose norm is the speed, correlated over time.
        kept = jnp.exp(-self.dt / self.speed_time)
        normal = jax.random.normal(key_stream(key, "speeds"), (n_moving, 2))
        fresh = jnp.sqrt(1 - kept**2) * normal

        def move(state: Any, drawn: Any) -> Any:
            position, heading, pair = state
            turn, change = drawn
            speed, to_wall = jnp.linalg.norm(pair), self._turn_at_wall(position, heading)
            slower = jnp.where(to_wall == 0, 1.0, SLOWER_AT_WALL)
            step = self.dt * self.speed * slower * speed
            direction = jnp.stack([jnp.cos(heading), jnp.sin(heading)])
            position = jnp.clip(position + step * direction, -self.width / 2, self.width / 2)
            heading = heading + to_wall + self.turning * self.dt**0.5 * turn
            return (position, heading, kept * pair + change), position

        first = jax.random.normal(key_stream(key, "first speed"), (2,))
        return jax.lax.scan(move, (start, heading, first), (turns, fresh))[1]

    def _turn_at_wall(self, position: Float[Array, " 2"], heading: Float[Array, ""]) -> Float[Array, ""]:
        """Return the turn (rad) that makes a heading towards a wall nearby parallel to it; else zero."""
        distances = self.width / 2 - jnp.concatenate([position, -position])  # right, top, left, bottom
        nearest = jnp.argmin(distances)
        off = parts.wrap_angle(heading - nearest.astype(float) * jnp.pi / 2)  # from straight towards the wall
        turn = jnp.where(off >= 0, 1.0, -1.0) * (jnp.pi / 2 - jnp.abs(off))
        is_facing = (distances[nearest] < self.border) & (jnp.abs(off) < jnp.pi / 2)
        return jnp.where(is_facing, turn, 0.0)


def integrate_velocity(trial: Trial) -> Float[Array, "time 2"]:
    """Return the start of a `PathIntegration` plus the sum of its noisy velocities times dt, in m.

    **Arguments:**

    - `trial`: one trial; for several, use `jax.vmap`.
    """
    inputs = trial.inputs
    if "start" not in inputs or not ("velocity" in inputs or {"speed", "heading"} <= inputs.keys()):
        raise ValueError(
            f"`trial` must have the inputs 'start' and 'velocity', or 'speed' and 'heading', of a "
            f"PathIntegration, got {sorted(inputs)}."
        )
    velocity = inputs["velocity"] if "velocity" in inputs else inputs["speed"] * inputs["heading"]
    return inputs["start"][0] + trial.timeline.dt * jnp.cumsum(velocity, axis=0)


def integration_error(noise: Any, seconds: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return the root mean square error of a perfect integrator of noisy velocity along each axis, in m.

    White noise of sigma that is integrated for t seconds has the variance sigma² t, for any time step.

    **Arguments:**

    - `noise`: sigma, in m / s^0.5.
    - `seconds`: t, since the movement began.
    """
    return noise * jnp.sqrt(seconds)


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

    Its appendix was not compared: all other numbers are those of popsim. The direction is shown by cosine and
    sine, the start as a pulse, and the discrimination is answered after a go cue by two outputs, where the
    paper has one. It stops training at a mean squared error of 0.001, 0.05, 0.01 and 0.05, in this order.
    """
    shared: dict[str, Any] = {"dt": 0.01, "loss": 1.0 * OutputError()}
    amplitudes = range(2, 11)
    return {
        "flip-flop": FlipFlop(n_bits=3, duration=1.0, **shared),
        "sine-generation": SineGeneration(frequency=Choice(np.arange(1.0, 31.0)), duration=1.0, **shared),
        "delayed-discrimination": DelayedComparison(
            pairs=[(float(high), float(low)) for low, high in combinations(amplitudes, 2)],
            noise=0.0,
            fixation=0.05,
            f1=0.05,
            delay=Uniform(0.05, 0.2),
            f2=0.05,
            duration=0.6,
            **shared,
        ),
        "path-integration": PathIntegration(
            width=10.0,  # from -5 to 5 along each axis
            speed=8.0,  # boxes take about a second to cross
            border=0.1,
            noise=0.0,
            velocity_input="speed and heading",
            pulse=0.05,
            duration=1.0,
            **shared,
        ),
    }
