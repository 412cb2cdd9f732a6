"""Answers to a push are prepared by how likely its direction is (after Michaels et al. 2025).

A mass holds its place, and a cue tells the chance of a push to the right rather than the left, at a time that
is not known. Networks feel 20 ms late that they are pushed, and see 70 ms late to which side. Between the two
they should answer in proportion to what they expect. Cost J and early commands are compared with the best
controller of `references/expected_perturbation.py`, which shares no code with popsim. Networks that feel the
push as late as they see it must miss, as must untrained ones, and those that are told a wrong chance.

The nearest wrong model is the best controller that feels the push 10 ms later, whose cost is 1.032 times the
optimum. That told the likelier side alone has 1.074 times, and early commands on no line. The geometry of the
preparation is no evidence, and has no gate: the cue is an input, and its chances lie on a line in untrained
networks, too. Prints the numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options
from figures.expected_perturbation import draw_figure
from gates import Row, exit_code, negative_controls, optimum_gate, print_table
from network_training import train_networks
from popsim.interventions import ConstantForce, FromTrial, InterventionPlan, schedule_intervention
from popsim.states import LoopState
from popsim.tasks import WithInterventions
from popsim.training import adam, cosine_decay
from popsim.windows import InEpoch
from references import expected_perturbation as reference
from references.expected_perturbation import CHANCES, Answer

HOLD = reference.Hold()
PUSHES = reference.all_pushes(HOLD)
DELAYS = {"early": HOLD.early, "late": HOLD.late}  # steps until a push is felt
N_UNITS, BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 48, 32, 0.02, 1.0
FULL, QUICK = (3, 4000), (1, 2500)  # networks of each delay, batches
SCALES = {"touch": 0.1, "vision": [5e-4, 5e-4, 0.015, 0.015]}  # yes or no; m, m/s
WRONG = np.array(CHANCES)[[3, 0, 2, 4, 1]]  # chances told in place of the others, without correlation
PREPARED = HOLD.onsets[0] - 1  # the last step before any push
WINDOW, PUSH = InEpoch("push"), FromTrial(lambda trial: trial.conditions["push"])
GATES = {"J / J*": optimum_gate(1.02), "early slope": (0.92, 1.08), "early r²": (0.98, 1 + 1e-9)}
MISSED = {"felt after 30 ms": ("J / J*",), "foresees nothing": ("J / J*", "early slope")}  # others miss all


class ExpectedPushes(popsim.AbstractTask):
    """Holding a place. The input "cue" tells the chance of a push to the right; the push is a condition."""

    loss: popsim.Loss

    def trial(self, *, batch: int | Array, key: Key[Array, ""]) -> popsim.Trial:
        told, side, onset = (popsim.key_stream(key, name) for name in ("chance", "side", "onset"))
        chance = jax.random.choice(told, jnp.array(CHANCES))
        to_right = jax.random.bernoulli(side, chance)
        first, last = HOLD.onsets
        return self.hold(chance, 2.0 * to_right - 1, jax.random.randint(onset, (), first, last + 1))

    def validation_trials(self) -> popsim.Trial:
        return self.told(PUSHES.chance)

    def told(self, chances: np.ndarray) -> popsim.Trial:
        """All pushes, under cues that tell these chances [trial]."""
        side = jnp.asarray(PUSHES.side, float)
        return jax.vmap(self.hold)(jnp.asarray(chances, float), side, jnp.asarray(PUSHES.onset))

    def hold(self, chance: Array, side: Array, onset: Array) -> popsim.Trial:
        """One trial."""
        still, push = jnp.zeros((HOLD.n_steps, 2)), jnp.stack([onset, onset + HOLD.push_steps])
        shown = jnp.arange(HOLD.n_steps)[:, None] < HOLD.cue_steps
        return popsim.Trial(
            init=popsim.HandState(jnp.zeros(2), jnp.zeros(2)),
            inputs={"cue": shown * jnp.stack([2 * chance - 1, jnp.ones_like(chance)])},
            targets=popsim.HandState(still, still),
            timeline=popsim.Timeline(HOLD.dt, HOLD.n_steps, epochs={"push": push}),
            conditions={"push": HOLD.force * side * jnp.array([1.0, 0.0])},
        )


def is_pushed(state: LoopState, plant: popsim.plants.AbstractPlant) -> Float[Array, " 1"]:
    """Whether a force acts on the mass, to whatever side."""
    return jnp.any(state.external_force != 0)[None].astype(float)


def build_task() -> ExpectedPushes:
    """The task without the pushes. The loss is 5e5 times J, about 20 at the optimum."""
    place = popsim.losses.PositionError(profile=popsim.losses.InWindow())
    return ExpectedPushes(5e5 * (place + HOLD.effort_weight * popsim.losses.Effort()))


def build_ensemble(n_seeds: int, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """Untrained networks, `n_seeds` of each delay; they differ in that one number."""
    task, plant, late = build_task(), popsim.plants.PointMass(), HOLD.late * HOLD.dt
    scaling = {name: popsim.Scaling(0.0, scale) for name, scale in SCALES.items()}

    def build(key, felt_after):
        channels = {
            "touch": popsim.SensoryChannel(is_pushed, late, own_delay=felt_after),
            "vision": popsim.SensoryChannel(popsim.vision, late),
        }
        n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)
        network = popsim.networks.GRUNetwork(n_inputs, N_UNITS, plant.n_commands, key=key)
        loads = (ConstantForce(),)
        return popsim.SensorimotorLoop(
            network, plant, channels, scaling=scaling, interventions=loads, dt=HOLD.dt
        )

    members = popsim.member_grid(n_seeds, felt_after=[HOLD.dt * steps for steps in DELAYS.values()])
    return popsim.build_members(build, members, key=key)


def train(ensemble: popsim.SensorimotorLoop, n_batches: int, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """The trained ensemble."""
    task = WithInterventions(build_task(), [InterventionPlan("constant force", PUSH, window=WINDOW)])
    optimizer = adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM)
    return train_networks(task, ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def evaluate(
    ensemble: popsim.SensorimotorLoop, told: np.ndarray = PUSHES.chance
) -> tuple[list[Answer], np.ndarray]:
    """What each network does under all pushes, and how the chances lie in its preparation [member, chance].

    These are the means of activity before any push, projected on the way from the first to the last.
    """
    task = build_task()
    trials = task.told(told)
    pushed = schedule_intervention(trials, "constant force", PUSH, WINDOW(trials.timeline))
    states = popsim.evaluate_ensemble(ensemble, task, trials=pushed, key=jax.random.key(0)).states
    commands, positions = np.asarray(states.command, float), np.asarray(states.hand.position, float)
    costs = np.sum(positions**2 + HOLD.effort_weight * commands**2, axis=(2, 3))  # across, too
    answers = [Answer(*each) for each in zip(commands[..., 0], positions[..., 0], costs, strict=True)]
    units = np.asarray(popsim.networks.unit_activity(ensemble, states))[:, :, PREPARED]
    means = np.stack([units[:, told == chance].mean(axis=1) for chance in CHANCES], axis=1)
    way = means[:, -1:] - means[:, :1]
    return answers, np.sum((means - means[:, :1]) * way, axis=2) / np.sum(way**2, axis=2)


def rows_of(label: str, member: int | str, answer: Answer, optimum: Answer, *names: str) -> list[Row]:
    """The measures of a controller beside the optimum. Those named, by default all, have a gate."""

    def measures(each: Answer) -> list[float]:
        early = reference.early_commands(HOLD, PUSHES, each.commands)
        return [float(PUSHES.weights @ each.costs), *reference.line(early)]

    return [
        Row(f"{label}, {name}", str(member), *pair, gate=gate if name in (names or GATES) else None)
        for (name, gate), *pair in zip(GATES.items(), measures(answer), measures(optimum), strict=True)
    ]


def wrong_models() -> dict[str, Answer]:
    """Each the best controller of what it believes."""
    likelier = np.sign(2 * PUSHES.chance - 1)
    mean_of_likelier = np.mean([2 * chance - 1 for chance in CHANCES if chance > 0.5])
    believed = {
        "told the likelier side alone": (1 + mean_of_likelier * likelier) / 2,
        "takes the likelier side for certain": (1 + likelier) / 2,
        "without the cue": np.full_like(likelier, 0.5),
    }
    models = {
        name: reference.answer(HOLD, PUSHES, HOLD.early, believed=chances)
        for name, chances in believed.items()
    }
    models["felt after 30 ms"] = reference.answer(HOLD, PUSHES, HOLD.early + 1)
    return models | {"foresees nothing": reference.answer(HOLD, PUSHES, HOLD.early, foresees=False)}


def main() -> int:
    """Train networks of both delays, test them, print the table, draw the figure."""
    short = f"{QUICK[0]} network of each delay, {QUICK[1]} batches"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    n_seeds, n_batches = QUICK if options.quick else FULL
    key, began = jax.random.key(options.seed), time.perf_counter()
    untrained = build_ensemble(n_seeds, popsim.key_stream(key, "networks"))
    trained = train(untrained, n_batches, popsim.key_stream(key, "training"))
    seconds = time.perf_counter() - began
    print(f"{n_seeds} networks of each delay, {n_batches} batches: {seconds:.0f} s", flush=True)
    optima = [reference.answer(HOLD, PUSHES, delay) for delay in DELAYS.values()]
    after, prepared = evaluate(trained)
    before, unlearned = evaluate(untrained)
    misled, _ = evaluate(trained, WRONG[np.searchsorted(CHANCES, PUSHES.chance)])
    rows, controls, models = [], [], wrong_models()
    for name, answer in models.items():
        controls += rows_of(name, "", answer, optima[0], *MISSED.get(name, ()))
    for member in range(n_seeds):
        late = n_seeds + member
        rows += rows_of("early", member, after[member], optima[0])
        rows += rows_of("late", late, after[late], optima[1], "J / J*")
        size = ("J / J*", "early slope")
        controls += rows_of("late, as if early", late, after[late], optima[0], *size)
        controls += rows_of("early, told another chance", member, misled[member], optima[0], *size)
        controls += rows_of("untrained", member, before[member], optima[0], *size)
    rows += negative_controls(controls)
    kinds = {"early": prepared[:n_seeds], "late": prepared[n_seeds:], "untrained": unlearned[:n_seeds]}
    for kind, projections in kinds.items():
        for chance, found in list(zip(CHANCES, projections.T, strict=True))[1:-1]:
            rows.append(Row(f"{kind}, preparation at {chance}", "mean", float(found.mean()), chance))
    print_table(rows, "found", "optimum")
    answers = {"early": after[:n_seeds], "late": after[n_seeds:], "untrained": before[:n_seeds]}
    answers |= {"optimum": [optima[0]], "told the likelier side": [models["told the likelier side alone"]]}
    print(*draw_figure(options.out, rows, answers, kinds, HOLD, PUSHES), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
