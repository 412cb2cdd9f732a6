"""Path integration: the position from a noisy velocity."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import (
    as_float_array,
    check_non_negative,
    check_positive,
    is_traced,
    n_steps_in,
    short_repr,
)
from popsim._plain_values import plain_number
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import is_per_member
from popsim.randomness import key_stream
from popsim.tasks.trial_parts import AbstractFixedTimes, all_combinations, trials_of_conditions, wrap_angle
from popsim.trial import OutputTarget, Trial
from popsim.windows import Timeline

__all__ = ["PathIntegration", "integrate_velocity", "integration_error"]

SPEED = 0.817  # m/s: 2 pi times 0.13
TURNING = 1.63  # rad / s^0.5: 2 times 5.76 rad/s in time steps of 0.02 s
SLOWER_AT_WALL = 0.25
N_STARTS, N_HEADINGS = 3, 4  # of validation trials: along each axis of the box, and all around


class PathIntegration(AbstractFixedTimes):
    """Tell the position of a rat in a square box, from where it started and its noisy velocity.

    After Cueva & Wei 2018 (arXiv 1803.07770; compared with the abstract only) and Banino et al. 2018, Nature
    557:429. The motion is theirs, after Raudies & Hasselmo 2012, PLoS Comput Biol 8:e1002553, as the code of
    Sorscher et al. 2019 has it (checked in ganguli-lab/grid-pattern-formation, where the numbers of Banino et
    al., 0.13 m/s and 5.76 rad/s, are multiplied by 2 pi and 2): a Rayleigh speed, a heading that turns at
    random, and at a wall a turn until the heading is parallel to it, at a quarter of the speed. They draw the
    speed anew in each time step of 0.02 s. Here it varies smoothly, as in RatInABox (checked in its code, of
    which the correlation time is), so that the motion hardly depends on the time step.

    - Inputs: "start" (2), the first position in m during the epoch "start", then zero; "velocity" (2), in
        m/s, plus white noise, in the epoch "movement". With `velocity_input="speed and heading"`, "speed"
        (1) and "heading" (2: cosine and sine) of the same noisy velocity in its place.
    - Targets: two outputs, the position in m from the centre of the box at the end of each time step. All
        time steps count.
    - Epochs "start", in which the rat does not move, and "movement"; event "movement on".
    - Conditions: "start" and "end" (m, 2), "heading" (the first one, in rad).

    The start is drawn uniformly from the box, the first heading from the circle. There are 36 validation
    trials: 3 by 3 starts, each with 4 headings. `integrate_velocity` is the perfect integrator, and
    `integration_error` its error. Where the noise is small beside the motion nothing can do much better. A
    better observer would know how the rat moves, and where the walls are.

    **Arguments:**

    - `width`: the side of the box, in m; 2.2 in Sorscher et al.
    - `speed`: the scale b of the Rayleigh distribution of speeds, in m/s; their mean is b sqrt(pi / 2).
    - `speed_time`: the correlation time of the two normal numbers of which the speed is the norm, in
        seconds; 0.7 in RatInABox.
    - `turning`: the standard deviation of the change of heading in a second, in rad / s^0.5; that in a time
        step is turning times sqrt(dt).
    - `border`: the distance from a wall at which the rat turns, in m.
    - `noise`: sigma of each component of the velocity, in m / s^0.5; the standard deviation in a time step is
        sigma / dt^0.5.
    - `velocity_input`: "components" or "speed and heading".
    - `pulse`: the duration of the epoch "start", in seconds.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    width: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=2.2)
    speed: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=SPEED)
    speed_time: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.7)
    turning: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=TURNING)
    border: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.03)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    velocity_input: Literal["components", "speed and heading"] = eqx.field(
        static=True, kw_only=True, default="components"
    )
    pulse: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.1)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)

    def __check_init__(self):
        for name in ("width", "speed", "speed_time", "pulse"):
            check_positive(name, getattr(self, name))
        for name in ("turning", "border", "noise"):
            check_non_negative(name, getattr(self, name))
        if self.velocity_input not in ("components", "speed and heading"):
            raise ValueError(
                f"`velocity_input` must be 'components' or 'speed and heading', got {self.velocity_input!r}."
            )
        if self.n_pulse >= self.n_steps:
            raise ValueError(
                f"`pulse` must be shorter than the trial, {self.duration} s, got {self.pulse} s."
            )
        if any(is_per_member(value) or is_traced(value) for value in (self.border, self.width)):
            return
        if float(self.border) >= float(self.width) / 2:
            raise ValueError(
                f"`border` must be less than half the width, {float(self.width) / 2:.4g} m, "
                f"got {short_repr(self.border)} m."
            )

    @property
    def n_pulse(self) -> int:
        """The number of time steps in which the start is shown."""
        return n_steps_in("pulse", self.pulse, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        place = jax.random.uniform(key_stream(key, "start"), (2,), minval=-0.5, maxval=0.5)
        heading = jax.random.uniform(key_stream(key, "heading"), (), minval=-jnp.pi, maxval=jnp.pi)
        return self._trial(place, heading, key=key)

    def validation_trials(self) -> Trial:
        row, column, turn = all_combinations(N_STARTS, N_STARTS, N_HEADINGS)
        places = (jnp.stack([column, row], axis=-1).astype(float) + 0.5) / N_STARTS - 0.5
        headings = wrap_angle(2 * jnp.pi / N_HEADINGS * turn.astype(float))
        return trials_of_conditions(self._trial, places, headings)

    def _trial(self, place: Float[Array, " 2"], heading: Float[Array, ""], *, key: Key[Array, ""]) -> Trial:
        """Return the trial that starts at `place`, in widths of the box from its centre."""
        start, n_pulse = self.width * place, self.n_pulse
        positions = self._walk(start, heading, key=key)
        is_start = (jnp.arange(self.n_steps) < n_pulse)[:, None]
        values = jnp.concatenate([jnp.broadcast_to(start, (n_pulse, 2)), positions])
        velocity = jnp.diff(values, axis=0, prepend=start[None]) / self.dt
        random = jax.random.normal(key_stream(key, "noise"), velocity.shape)
        noisy = jnp.where(is_start, 0.0, velocity + self.noise / self.dt**0.5 * random)
        return Trial(
            init=(),
            inputs={"start": jnp.where(is_start, start, 0.0), **self._velocity_inputs(noisy)},
            targets=OutputTarget(values, jnp.ones(self.n_steps), is_choice=False),
            timeline=Timeline(
                self.dt,
                self.n_steps,
                epochs={
                    "start": jnp.array([0, n_pulse]),
                    "movement": jnp.array([n_pulse, self.n_steps]),
                },
                events={"movement on": jnp.array(n_pulse)},
            ),
            conditions={"start": start, "end": positions[-1], "heading": wrap_angle(heading)},
        )

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
        off = wrap_angle(heading - nearest.astype(float) * jnp.pi / 2)  # from straight towards the wall
        turn = jnp.where(off >= 0, 1.0, -1.0) * (jnp.pi / 2 - jnp.abs(off))
        is_facing = (distances[nearest] < self.border) & (jnp.abs(off) < jnp.pi / 2)
        return jnp.where(is_facing, turn, 0.0)


def integrate_velocity(trial: Trial) -> Float[Array, "time 2"]:
    """Return where a perfect integrator of the inputs of a `PathIntegration` believes to be, in m.

    That is the start plus the sum of the noisy velocities times dt. It gets only what the inputs show.

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
    check_non_negative("noise", noise)
    check_non_negative("seconds", seconds)
    return noise * jnp.sqrt(seconds)
