"""One network that does twenty tasks divides its units among them and composes rules (Yang et al. 2019).

The networks are those of `yang2019_networks.py`, whose weights are stored. This script tests what follows
from them (Nat Neurosci 22:297-306). On average 95 % of trials have to be right, and more than 90 % in at
least 18 of the 20 tasks. Units have to form clusters by the tasks in which their activity varies, better than
when tasks are permuted within each unit, and more clusters than tanh units. The loss of a cluster has to harm
the tasks in which its units vary. The state has to move in the same way from a task to its relative in two
pairs of tasks, and the network has to do a task when it is told a sum of the rule inputs of three others.
The controls are untrained networks, lesions of as many units drawn at random, pairs of tasks that are
not related in the same way, and parts of the sums. Prints the numbers, draws the figure, and exits with 1
when a gate fails or a control passes.
"""

import dataclasses
import sys
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

import popsim
from command_line import parse_options
from figures.yang2019 import NetworkAnalysis, draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table
from popsim.analysis.neural_activity import UnitClusters, cluster_units, task_variance
from popsim.networks import LeakyRNN
from popsim.tasks import RingTask, yang2019
from yang2019_networks import build_ensemble, has_weights, load_trained

N_TESTED, N_LESIONED = 200, 60  # trials of each rule
N_PERMUTED, N_RANDOM = 3, 2  # draws
LOWEST_MEAN, LOWEST, LEAST_LEARNED = 0.95, 0.9, 18  # of trials, and of rules
LEAST_SILHOUETTE = 1.5  # relative to the highest of permuted rules
LEAST_SPECIFICITY, LEAST_COSINE, LEAST_COMPOSED = 0.4, 0.5, 0.8
PAIRS = {
    "delay": (("go", "delay-go"), ("anti", "delay-anti")),
    "context": (("context-dm-1", "context-dm-2"), ("context-delay-dm-1", "context-delay-dm-2")),
}
"""Two pairs of rules, from the first to the second of which the state has to move alike (their Figure 6)."""
SUMS = {
    "delay-anti": ("anti", "delay-go", "go"),
    "context-delay-dm-1": ("context-delay-dm-2", "context-dm-1", "context-dm-2"),
}
"""The rule that is done with the input of the first rule plus the second less the third (their Figure 7)."""


@eqx.filter_jit
def draw_trials(task: RingTask, rule: Int[Array, ""], keys: Key[Array, " trial"]) -> popsim.Trial:
    """Fresh trials of the rule of an index."""
    return jax.vmap(lambda key: task.trial_of(rule, key=key))(keys)


def trials_of_rule(task: RingTask, rule: str, n_trials: int, key: Key[Array, ""]) -> popsim.Trial:
    """Fresh trials of one rule."""
    return draw_trials(task, jnp.asarray(task.names.index(rule)), jax.random.split(key, n_trials))


def fraction_right(
    ensemble: popsim.NetworkModel, task: RingTask, trials: popsim.Trial, key: Key[Array, ""]
) -> Float[np.ndarray, " member"]:
    """The fraction of trials in which each member is right. All members have the same noise."""
    same_noise = np.zeros(popsim.n_members(ensemble), int)
    evaluation = popsim.evaluate_ensemble(ensemble, task, trials=trials, member_ids=same_noise, key=key)
    right = task.is_correct(evaluation.states.network.output, trials)
    return np.asarray(right).mean(axis=-1)


def performance(
    ensemble: popsim.NetworkModel, task: RingTask, n_trials: int, key: Key[Array, ""]
) -> Float[np.ndarray, "member rule"]:
    """The fraction of fresh trials of each rule in which each member is right."""
    of_rules = []
    for rule in task.names:
        of_rule = popsim.key_stream(key, rule)
        trials = trials_of_rule(task, rule, n_trials, popsim.key_stream(of_rule, "trials"))
        of_rules.append(fraction_right(ensemble, task, trials, popsim.key_stream(of_rule, "noise")))
    return np.stack(of_rules, axis=1)


@dataclasses.dataclass(frozen=True)
class Rates:
    """The rates of a network in the validation trials of a rule, which have equal durations, without noise.

    - `after_fixation` [member, trial, time, unit]: from the end of the first fixation to that of the trial.
    - `at_stimulus_end` [unit]: the mean over trials in the last step of the first stimulus, or of the first
        fixation if the response has the first stimulus.
    """

    after_fixation: np.ndarray
    at_stimulus_end: np.ndarray


def rates_by_rule(ensemble: popsim.NetworkModel) -> dict[str, Rates]:
    """The rates of an ensemble of one network in each rule."""
    task = yang2019(noise=0.0)
    trials = task.validation_trials()
    quiet = popsim.without_noise(ensemble)
    states = popsim.evaluate_ensemble(quiet, task, trials=trials, key=jax.random.key(0)).states
    assert isinstance(ensemble.network, LeakyRNN)
    rates = np.asarray(ensemble.network.nonlinearity(states.network.hidden))
    ends = {name: np.asarray(bounds)[:, 1] for name, bounds in trials.timeline.epochs.items()}
    rule, found = np.asarray(trials.conditions["rule"]), {}
    for index, name in enumerate(task.names):
        rows = np.flatnonzero(rule == index)
        fixation, stimulus, response = (
            ends[epoch][rows[0]] for epoch in ("fixation", "stimulus 1", "response")
        )
        of_rule = rates[:, rows]
        found[name] = Rates(of_rule[:, :, fixation:response], of_rule[0, :, stimulus - 1].mean(axis=0))
    return found


def units_by_cluster(clusters: UnitClusters, n_units: int) -> Bool[np.ndarray, "cluster unit"]:
    """Which units are in each of the best clusters."""
    labels = clusters.labels[clusters.best]
    members = np.zeros((labels.max() + 1, n_units), bool)
    members[labels, clusters.unit] = True
    return members


def random_groups(clusters: Bool[np.ndarray, "cluster unit"], seed: int) -> Bool[np.ndarray, "cluster unit"]:
    """Groups of as many units as the clusters have, drawn from all units that are in a cluster."""
    active = np.flatnonzero(clusters.any(axis=0))
    drawn = np.zeros_like(clusters)
    drawn[:, np.random.default_rng(seed).permutation(active)] = clusters[:, active]
    return drawn


def mean_variance(clusters: UnitClusters) -> Float[np.ndarray, "cluster rule"]:
    """The mean normalized variance of the units of each of the best clusters."""
    labels = clusters.labels[clusters.best]
    return np.stack([clusters.normalized[labels == label].mean(axis=0) for label in np.unique(labels)])


def with_lesions(
    ensemble: popsim.NetworkModel, lesions: Bool[np.ndarray, "lesion unit"]
) -> popsim.NetworkModel:
    """Copies of the network of an ensemble of one, each without what some units send to others."""
    copies = jax.tree.map(
        lambda leaf: jnp.repeat(leaf, len(lesions), axis=0) if eqx.is_array(leaf) else leaf, ensemble
    )

    def sent(model):
        return model.network.recurrent_weights, model.network.readout.weight

    kept = jnp.asarray(~lesions[:, None, :], sent(copies)[0].dtype)
    return eqx.tree_at(sent, copies, [weights * kept for weights in sent(copies)])


def harm_of_lesions(
    ensemble: popsim.NetworkModel,
    task: RingTask,
    lesions: Bool[np.ndarray, "lesion unit"],
    key: Key[Array, ""],
) -> Float[np.ndarray, "lesion rule"]:
    """By how much performance falls in each rule without some units."""
    with_intact = np.concatenate([np.zeros_like(lesions[:1]), lesions])
    found = performance(with_lesions(ensemble, with_intact), task, N_LESIONED, key)
    return found[:1] - found[1:]


def specificity(variance: Float[np.ndarray, "lesion rule"], harm: Float[np.ndarray, "lesion rule"]) -> float:
    """The correlation of the variance of units and the harm of their loss, over lesions and rules.

    What is common to all rules of a lesion, or to all lesions of a rule, is subtracted before.
    """

    def centred(values):
        return values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()

    return float(np.corrcoef(centred(variance).ravel(), centred(harm).ravel())[0, 1])


def with_rule_inputs(
    task: RingTask, trials: popsim.Trial, rule: str, strengths: Mapping[str, float]
) -> popsim.Trial:
    """Trials of a rule in which, instead of its input, those of other rules have some strengths."""
    lasts = jnp.arange(task.n_steps) < trials.timeline.epochs["response"][:, 1:]
    change = jnp.array([strengths.get(name, 0.0) - (name == rule) for name in task.names])
    inputs = trials.inputs["rule"] + jnp.where(lasts[..., None], change, 0.0)
    return eqx.tree_at(lambda trials: trials.inputs["rule"], trials, inputs)


def compose(
    ensemble: popsim.NetworkModel, task: RingTask, rule: str, key: Key[Array, ""]
) -> dict[str, float]:
    """The performance in a rule by the rule inputs: its own, a sum of three others, parts of the sum."""
    first, added, subtracted = SUMS[rule]
    inputs = {
        rule: {rule: 1.0},
        f"{first} + {added} - {subtracted}": {first: 1.0, added: 1.0, subtracted: -1.0},
        f"{first} + {added}": {first: 1.0, added: 1.0},
        first: {first: 1.0},
        added: {added: 1.0},
    }
    trials, noise = trials_of_rule(task, rule, N_TESTED, key), popsim.key_stream(key, "noise")
    return {
        name: float(fraction_right(ensemble, task, with_rule_inputs(task, trials, rule, strengths), noise)[0])
        for name, strengths in inputs.items()
    }


def analyse(ensemble: popsim.NetworkModel, task: RingTask, key: Key[Array, ""]) -> NetworkAnalysis:
    """The performance, clusters and states of one network."""
    rates = rates_by_rule(ensemble)
    variance = task_variance({name: of_rule.after_fixation for name, of_rule in rates.items()})[0]
    return NetworkAnalysis(
        performance=performance(ensemble, task, N_TESTED, popsim.key_stream(key, "performance"))[0],
        variance=variance,
        clusters=cluster_units(variance, key=popsim.key_stream(key, "clusters")),
        states={name: of_rule.at_stimulus_end for name, of_rule in rates.items()},
    )


def permuted_clusters(variance: Float[np.ndarray, "unit rule"], key: Key[Array, ""]) -> list[UnitClusters]:
    """Clusters of units whose variances are permuted over rules, in each unit by itself."""
    return [
        cluster_units(
            np.random.default_rng(draw).permuted(variance, axis=1), key=popsim.key_stream(key, f"draw {draw}")
        )
        for draw in range(N_PERMUTED)
    ]


def performance_rows(kind: str, analysis: NetworkAnalysis) -> list[Row]:
    """How many trials are right, and how many rules are learned."""
    n_learned = float((analysis.performance > LOWEST).sum())
    return [
        at_least_row(f"{kind}, right", "", float(analysis.performance.mean()), LOWEST_MEAN),
        at_least_row(f"{kind}, rules above {LOWEST:.0%}", "", n_learned, LEAST_LEARNED),
    ]


def cluster_rows(found: Mapping[str, UnitClusters], permuted: list[UnitClusters]) -> list[Row]:
    """How well softplus units form clusters, beside permuted rules, and how many, beside other networks."""
    clusters = found["softplus"]
    highest = max(each.silhouettes.max() for each in permuted)
    gate = (LEAST_SILHOUETTE, np.inf)
    rows = [Row("silhouette", "", clusters.silhouettes.max(), highest, gate=gate)]
    numbers = {kind: float(each.n_clusters[each.best]) for kind, each in found.items()}
    for kind in ("tanh", "untrained"):
        rows.append(Row(f"clusters, {kind}", "", numbers["softplus"], numbers[kind], gate=(1.01, np.inf)))
    return rows


def specificity_row(name: str, clusters: UnitClusters, harm: Float[np.ndarray, "cluster rule"]) -> Row:
    """Whether lesions harm the rules in which the units of each cluster vary."""
    return at_least_row(f"lesions, {name}", "", specificity(mean_variance(clusters), harm), LEAST_SPECIFICITY)


def cosine_row(name: str, states: Mapping[str, np.ndarray], pairs: tuple[tuple[str, str], ...]) -> Row:
    """The cosine of the angle between the ways from one state to another of two pairs of rules."""
    first, second = (states[end] - states[start] for start, end in pairs)
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    return at_least_row(f"{name}, cosine", "", cosine, LEAST_COSINE)


def state_rows(trained: Mapping[str, np.ndarray], untrained: Mapping[str, np.ndarray]) -> list[Row]:
    """The cosines of related pairs of rules, and of untrained networks and unrelated pairs as controls."""
    controls = [cosine_row(f"untrained, {name}", untrained, pairs) for name, pairs in PAIRS.items()]
    mixed = tuple(pairs[0] for pairs in PAIRS.values())
    controls.append(cosine_row(" and ".join(PAIRS), trained, mixed))
    return [
        *(cosine_row(name, trained, pairs) for name, pairs in PAIRS.items()),
        *negative_controls(controls),
    ]


def sum_rows(by_rule: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """The performance by the sum of rule inputs, and by parts of it as controls."""
    rows = []
    for rule, by_inputs in by_rule.items():
        own, whole, *parts = (
            at_least_row(f"{rule} by {name}", "", value, LEAST_COMPOSED) for name, value in by_inputs.items()
        )
        rows += [dataclasses.replace(own, gate=None), whole, *negative_controls(parts)]
    return rows


def main() -> int:
    """Test the stored networks, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    seed, key = options.seed, popsim.key_stream(jax.random.key(options.seed), "test")
    if not has_weights(seed):
        print(f"No weights of seed {seed}. To train: python examples/yang2019_networks.py --seed {seed}")
        return 1
    task, softplus = yang2019(), load_trained("softplus", seed)
    networks = {
        "softplus": softplus,
        "tanh": load_trained("tanh", seed),
        "untrained": build_ensemble("softplus", seed),
    }
    analyses = {kind: analyse(network, task, key) for kind, network in networks.items()}
    for kind, analysis in analyses.items():
        below = [
            f"{name} {value:.3f}"
            for name, value in zip(task.names, analysis.performance, strict=True)
            if value <= LOWEST
        ]
        print(f"{kind}, at most {LOWEST:.0%}:", ", ".join(below) or "none")
    found = {kind: analysis.clusters for kind, analysis in analyses.items()}
    permuted = permuted_clusters(analyses["softplus"].variance, popsim.key_stream(key, "permuted"))
    clusters = found["softplus"]
    groups = units_by_cluster(clusters, len(analyses["softplus"].variance))
    of_lesions = popsim.key_stream(key, "lesions")
    harm = harm_of_lesions(softplus, task, groups, of_lesions)
    random_harms = [
        harm_of_lesions(softplus, task, random_groups(groups, draw), of_lesions) for draw in range(N_RANDOM)
    ]
    sums = {rule: compose(softplus, task, rule, popsim.key_stream(key, f"sum {rule}")) for rule in SUMS}
    rows = [
        *performance_rows("softplus", analyses["softplus"]),
        *performance_rows("tanh", analyses["tanh"])[:1],
        *negative_controls(performance_rows("untrained", analyses["untrained"])),
        *cluster_rows(found, permuted),
        specificity_row("of clusters", clusters, harm),
        *negative_controls(
            [specificity_row(f"random {draw + 1}", clusters, harm) for draw, harm in enumerate(random_harms)]
        ),
        *state_rows(analyses["softplus"].states, analyses["untrained"].states),
        *sum_rows(sums),
    ]
    print_table(rows, "found", "least")
    print(*draw_figure(options.out, analyses, task.names, permuted, harm, PAIRS["delay"], sums), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
