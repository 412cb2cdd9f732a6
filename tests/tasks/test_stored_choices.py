"""Recorded choices are shown to networks as a bandit shows their own, and split by subject and session."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from choice_tables import KEY, played, table_of
from sample_trials import many_trials, validation_trials
from small_training import assert_same
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import networks, tasks
from popsim.store import MismatchError
from popsim.tasks import StoredChoices
from popsim.training import TaskTrainer, adam

N_SESSIONS, N_CHOICES = 5, 4
SESSION = np.repeat(np.arange(N_SESSIONS), N_CHOICES)
TABLE = {
    "session": SESSION,
    "subject": np.array(["b", "b", "a", "a", "a"])[SESSION],
    "choice": np.array([0, 1, 1, 0] * N_SESSIONS),
    "reward": np.arange(SESSION.size) / 8,
    "missed": np.arange(SESSION.size) == 6,
}


def changed(**columns):
    """The table with other values in some rows, as (rows, values) by column."""
    table = {name: np.array(column) for name, column in TABLE.items()}
    for name, (rows, values) in columns.items():
        table[name] = table[name].astype(object if name == "subject" else float)
        table[name][rows] = values
    return table


def of(table=TABLE, **options):
    return StoredChoices.from_table(table, **options)


def q_learner(key):
    rate = jax.random.uniform(key, (), minval=0.2, maxval=0.6)
    return networks.QLearner(rate, 3.0, 0.2, 0.1, n_choices=3)


@pytest.mark.parametrize("build", [q_learner, lambda key: networks.GRUNetwork(4, 5, 3, key=key)])
def test_a_network_is_shown_what_a_bandit_showed_it_and_finds_its_choices_as_probable(build):
    ensemble = popsim.make_ensemble(lambda key: popsim.NetworkModel(build(key), dt=0.1), 2, key=KEY)
    bandit = tasks.BernoulliBandit(n_arms=3, n_choices=20, n_validation_trials=4)
    did = played(ensemble, bandit)
    task = of(table_of(did), n_choices=3, train=[0], validation=range(1, 8))
    for name, shown in did.received.items():
        np.testing.assert_array_equal(task.inputs[name], shown.reshape(task.inputs[name].shape))
    assert [*task.inputs] == [*did.received]
    trials = task._all_trials()
    for index in range(2):
        own = jax.tree.map(lambda leaf, first=4 * index: leaf[first : first + 4], trials)
        model = popsim.member(ensemble, index)
        found = popsim.evaluate(model, task, trials=own, key=KEY).losses.total
        np.testing.assert_allclose(found, -did.log_probability[index].mean(axis=-1), atol=1e-6)


def test_a_table_of_any_kind_gives_sessions_of_inputs_one_step_later_and_targets():
    frame = pd.DataFrame(TABLE)
    structured = np.array(list(zip(*TABLE.values(), strict=True)), [(n, c.dtype) for n, c in TABLE.items()])
    task = of(subject="subject")
    for table in (frame, structured, {**TABLE, "session": np.array(list("vwxyz"))[SESSION]}):
        assert_same(of(table, subject="subject"), task)
    choices, rewards = (TABLE[name].reshape(N_SESSIONS, N_CHOICES) for name in ("choice", "reward"))
    np.testing.assert_array_equal(task.targets.values, np.eye(2)[choices])
    np.testing.assert_array_equal(task.inputs["last action"][:, 1:], np.eye(2)[choices][:, :-1])
    np.testing.assert_array_equal(task.inputs["last reward"][:, 1:, 0], rewards[:, :-1])
    assert not any(np.any(series[:, 0]) for series in task.inputs.values()) and task.targets.is_choice
    np.testing.assert_array_equal(task.conditions["subject"], [1, 1, 0, 0, 0])
    louder = dataclasses.replace(task, loss=2.0 * task.loss)
    assert type(louder) is StoredChoices and float(louder.loss.weights["cross entropy"]) == 2


def test_rows_that_are_excluded_do_not_count_and_are_shown():
    task = of(changed(choice=(6, np.nan), reward=([6, 7], [np.nan, 9.0])), exclude="missed", validation=[0])
    np.testing.assert_array_equal(np.argwhere(task.targets.counts == 0), [[1, 2]])
    np.testing.assert_array_equal(task.inputs["last action"][1], [[0, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(task.inputs["last reward"][1, :, 0], [0, 0.5, 0.625, 0])
    known = of(exclude="missed", validation=[0])
    np.testing.assert_array_equal(known.inputs["last action"][1, 3], [0, 1])
    np.testing.assert_array_equal(known.targets.counts, task.targets.counts)


def test_sessions_may_differ_in_how_many_choices_they_have():
    drug = {"drug": np.arange(N_SESSIONS) % 2}
    task = of({name: column[:-2] for name, column in TABLE.items()}, validation={"drug": 1}, conditions=drug)
    np.testing.assert_array_equal(task.conditions["session"][task.validation], [1, 3])
    np.testing.assert_array_equal(np.sum(task.targets.counts, axis=1), [4, 4, 4, 4, 2])
    assert not np.any(task.inputs["last action"][4, 2:])


def test_members_are_subjects_who_train_on_what_they_have_and_on_no_padding():
    task, members = of(subject="subject").for_subjects(n_seeds=2)
    np.testing.assert_array_equal(members.settings["subject"], [0, 0, 1, 1])
    np.testing.assert_array_equal(members.ids, [0, 1, 0, 1])
    np.testing.assert_array_equal(task.train.values, [[2, 4], [2, 4], [1, -1], [1, -1]])
    np.testing.assert_array_equal(task.validation.values[:, 0], [3, 3, 0, 0])
    for member, sessions in ((0, {2, 4}), (2, {1})):
        own = popsim.select_member(task, member)
        assert set(many_trials(own, KEY, 40).conditions["stored trial"]) == sessions
        assert set(validation_trials(own).conditions["subject"]) == {members.settings["subject"][member]}
    assert_same(dataclasses.replace(task), task)


def test_members_hold_out_folds_of_sessions_or_subjects():
    frame = pd.DataFrame(TABLE)
    last = frame[frame.session == 4].assign(session=5)
    six = pd.concat([frame, last, last.assign(session=6, subject="b"), last.assign(session=7)])
    of_sessions = of(six, subject="subject").folds(2)
    subjects = np.asarray(of_sessions.conditions["subject"])
    assert sorted(of_sessions.validation.values.ravel().tolist()) == [*range(8)]
    for held_out, train in zip(of_sessions.validation.values, of_sessions.train.values, strict=True):
        assert not set(np.asarray(held_out)) & set(np.asarray(train)) and set(subjects[held_out]) == {0, 1}
    np.testing.assert_array_equal(of(six).folds(4).validation.values, np.arange(8).reshape(2, 4).T)
    four = six[six.session != 7]
    four = four[four.session != 5]
    of_subjects = of(four, subject="subject").folds(2, by="subject")
    np.testing.assert_array_equal(of_subjects.conditions["subject"], [1, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(of_subjects.validation.values, [[2, 3, 4], [0, 1, 5]])


@pytest.mark.full
@pytest.mark.slow
def test_members_fit_their_subject_and_a_stored_run_resumes_with_the_same_choices(tmp_path):
    def fit(table, n_batches, folder=None):
        task, members = of(table, subject="subject").for_subjects()
        ensemble = popsim.build_members(
            lambda key: popsim.NetworkModel(networks.QLearner(0.4, 2.0), dt=0.1),
            members,
            settings=[],
            key=KEY,
        )
        return TaskTrainer(adam(1e-2), chkpt_dir=folder)(
            task,
            ensemble,
            n_batches,
            4,
            lambda model: model.network,
            ensembled=True,
            members=members,
            disable_tqdm=True,
            restore_checkpoint=folder is not None,
            key=KEY,
        )

    whole, history = fit(TABLE, 4)
    assert history.validation_loss.total.shape[-1] == 2
    other, _ = fit(changed(choice=(slice(8, None), 0)), 4)  # the second subject is the same
    assert_same(popsim.member(other, 1), popsim.member(whole, 1))
    assert jnp.abs(other.network.log_beta - whole.network.log_beta)[0] > 1e-3
    fit(TABLE, 2, tmp_path)
    with pytest.raises(MismatchError, match="targets.values"):
        fit(changed(choice=(3, 1)), 4, tmp_path)
    assert_same(fit(TABLE, 4, tmp_path)[0], whole)


@wrong_arguments(
    columns=[
        ("reward", lambda: of(reward="paid")),
        ("session", lambda: of(np.zeros((3, 3)))),
        ("subject", lambda: of(pd.DataFrame(TABLE), subject="animal")),
        ("table", lambda: of({**TABLE, "reward": np.zeros(3)})),
        ("table", lambda: of({name: column[:0] for name, column in TABLE.items()})),
        ("choice", lambda: of({**TABLE, "choice": np.array(["l", "r"] * 10)})),
    ],
    rows=[
        ("choice", lambda: of(changed(choice=(3, 2)))),
        ("choice", lambda: of(changed(choice=(3, -1)))),
        ("choice", lambda: of(changed(choice=(3, 0.5)))),
        ("choice", lambda: of(changed(choice=(7, np.nan)), exclude="missed")),
        ("reward", lambda: of(changed(reward=(3, np.nan)))),
        ("session", lambda: of(changed(session=(19, 0)))),
        ("session", lambda: of({**TABLE, "session": SESSION[::-1] % 2})),
        ("subject", lambda: of(changed(subject=(6, "a")), subject="subject")),
        ("mask", lambda: of({**TABLE, "missed": SESSION == 2}, exclude="missed")),
    ],
    splits=[
        ("k", lambda: of(subject="subject").folds(3)),
        ("k", lambda: of(subject="subject").folds(2)),
        ("k", lambda: of().folds(1)),
        ("k", lambda: of().folds(2.0)),
        ("k", lambda: of(subject="subject").folds(3, by="subject")),
        ("by", lambda: of().folds(5, by="trial")),
        ("subject", lambda: of().folds(2, by="subject")),
        ("subject", lambda: of().for_subjects()),
        ("task", lambda: of(subject="subject").for_subjects()[0].for_subjects()),
        ("train", lambda: of(subject="subject", train=[2], validation=[0, 3]).for_subjects()),
        ("validation", lambda: of(subject="subject", validation=[0, 2, 3]).for_subjects()),
        ("n_choices", lambda: of(n_choices=0)),
    ],
)
@pytest.mark.usefixtures("as_users_run")
def test_what_is_wrong_in_a_table_or_a_split_is_named(argument, call):
    assert_named_in_one_line(argument, call)
