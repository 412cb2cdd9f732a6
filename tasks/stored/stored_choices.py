"""Choices that animals or people made, from a table with a row for each."""

import dataclasses
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from popsim._shared.checks import check_positive_int, is_int, is_numeric, short_repr
from popsim.ensemble import Members, member_grid
from popsim.losses import CrossEntropy
from popsim.per_member import check_of_one_member
from popsim.tasks.stored._stored_arrays import of_members
from popsim.tasks.stored.stored_trials import StoredTrials

__all__ = ["StoredChoices"]


class StoredChoices(StoredTrials):
    """Choices and rewards that were recorded, one time step a choice; `from_table` makes them.

    A trial is a session. As in a bandit of popsim, such as `BernoulliBandit`, a network receives its "last
    action" (one-hot) and its "last reward", zeros at first, but those of the table, whatever it would do. Its
    outputs are the logits of the next choice. Once fitted it plays a bandit, by the policy `Categorical`.

    The loss is the `CrossEntropy`: the negative log-likelihood in nats per choice. Each session counts as
    much, however many choices it has. The conditions "session" and "subject" are the numbers of the table;
    names are numbered in the order of `numpy.unique`. `dataclasses.replace` changes fields as of
    `StoredTrials`, such as `inputs`, to show more.
    """

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        session: str = "session",
        choice: str = "choice",
        reward: str = "reward",
        subject: str | None = None,
        exclude: str | None = None,
        n_choices: int = 2,
        dt: float = 0.1,
        **options: Any,
    ) -> "StoredChoices":
        """Make a task of a table: a mapping of columns, a DataFrame, or a structured array.

        Rows are choices in the order in which they were made; those of a session follow one another.

        **Arguments:**

        - `session`: the column of sessions, numbers or names that no two subjects share.
        - `choice`: the column of choices, from 0 to `n_choices` - 1.
        - `reward`: the column of rewards.
        - `subject`: the column of subjects, for `for_subjects` and `folds`; None without.
        - `exclude`: the column of rows that do not count, such as missed trials. A network receives what was
            done in them, and zeros for a choice or a reward that is missing.
        - `dt`: the time step of a choice in seconds; that of the bandits is 0.1.
        - `options`: other arguments of `StoredTrials`, such as `conditions` of sessions or `validation`. With
            subjects the latter is by default a fifth of the sessions of the one with fewest, at least one, as
            many of each subject.
        """
        names = {"session": session, "choice": choice, "reward": reward}
        names |= {"subject": subject, "exclude": exclude}
        columns = {key: _column(table, key, name) for key, name in names.items() if name is not None}
        sizes = {key: column.size for key, column in columns.items()}
        if len(set(sizes.values())) > 1 or not sizes["session"]:
            raise ValueError(f"`table` must have columns of as many rows, one or more, got {sizes}.")
        check_positive_int("n_choices", n_choices)
        starts = _starts_of_sessions(columns["session"])
        counts = ~columns.get("exclude", np.zeros(sizes["session"])).astype(bool)
        actions = _one_hot(columns["choice"], n_choices, counts)
        rewards = _rewards(columns["reward"], counts)

        def of_sessions(rows: Shaped[np.ndarray, "row ..."], shift: int = 0) -> list[np.ndarray]:
            shifted = np.roll(rows, shift, axis=0)
            shifted[starts[: shift * starts.size]] = 0
            return np.split(shifted, starts[1:])

        conditions = {"session": _as_labels(columns["session"])[starts]}
        if subject is not None:
            conditions["subject"] = _subjects_of_sessions(columns, starts)
            options = {"validation": _some_of_each(conditions["subject"]), **options}
        arrays = {
            "inputs": {"last action": of_sessions(actions, 1), "last reward": of_sessions(rewards, 1)},
            "targets": of_sessions(actions),
            "mask": of_sessions(counts),
            "conditions": {**conditions, **options.pop("conditions", {})},
        }
        return cls(**arrays, **{"loss": 1.0 * CrossEntropy(), "is_choice": True, "dt": dt, **options})

    def for_subjects(self, n_seeds: int = 1) -> tuple["StoredChoices", Members]:
        """Return the task whose members are subjects, and these members, with the setting "subject".

        A member has the training and the validation sessions of its subject, unequally many of the former.

        **Arguments:**

        - `n_seeds`: how many members a subject has.
        """
        check_of_one_member("task", self)
        subjects = self._subjects()
        members = member_grid(n_seeds, subject=np.unique(subjects))
        split = {}
        for name in ("train", "validation"):
            part = np.asarray(getattr(self, name))
            split[name] = [part[subjects[part] == each] for each in members.settings["subject"]]
            sizes = [each.size for each in split[name][::n_seeds]]
            if 0 in sizes or name == "validation" and len(set(sizes)) > 1:
                equally = "" if name == "train" else "equally many "
                raise ValueError(
                    f"`{name}` must be {equally}sessions of each subject, got {sizes} of subjects "
                    f"{np.unique(subjects).tolist()}."
                )
        return dataclasses.replace(self, **{name: of_members(each) for name, each in split.items()}), members

    def folds(self, k: int, by: Literal["session", "subject"] = "session") -> "StoredChoices":
        """Return the task whose `k` members each hold out another fold of the sessions and train on others.

        All sessions are in folds: those of a final test are left out of the table.

        **Arguments:**

        - `k`: the number of folds, which must have equally many sessions.
        - `by`: "session" deals the sessions of one subject after the other to the folds, "subject" whole
            subjects.
        """
        if by not in ("session", "subject"):
            raise ValueError(f'`by` must be "session" or "subject", got {by!r}.')
        is_one = by == "session" and "subject" not in self.conditions
        subjects = np.zeros(len(self.conditions["session"])) if is_one else self._subjects()
        _, place, counts = np.unique(subjects, return_inverse=True, return_counts=True)
        dealt = place if by == "subject" else np.argsort(np.argsort(place, kind="stable"))
        most = counts.size if by == "subject" else int(counts.min())
        if not is_int(k) or not 2 <= k <= most:
            fewest = "sessions of the subject with fewest" if by == "session" else "subjects"
            raise ValueError(f"`k` must be folds, from 2 to the number of {fewest}, {most}, got {k!r}.")
        held_out = [np.flatnonzero(dealt % k == fold) for fold in range(k)]
        if len(sizes := {fold.size for fold in held_out}) > 1:
            raise ValueError(
                f"`k` must give folds of equally many sessions, got {k}, which gives {min(sizes)} to "
                f"{max(sizes)}."
            )
        return dataclasses.replace(self, train=None, validation=of_members(held_out))

    def _subjects(self) -> Shaped[np.ndarray, " session"]:
        if "subject" not in self.conditions:
            raise ValueError("`subject` must be given to from_table, a column of the table, got None.")
        return np.asarray(self.conditions["subject"])


def _column(table: Any, argument: str, name: str) -> Shaped[np.ndarray, " row"]:
    """Return the column of an argument; of numbers, unless rows are named by it."""
    known = getattr(getattr(table, "dtype", None), "names", None) or getattr(table, "columns", table)
    known = [str(each) for each in known]
    if name not in known:
        raise ValueError(f"`{argument}` must be a column of the table, {short_repr(known)}, got {name!r}.")
    column = np.asarray(table[name])
    is_named = argument in ("session", "subject")
    if column.ndim != 1 or not is_named and not is_numeric(column.dtype):
        raise ValueError(f"`{argument}` must be a column of numbers, got {column.dtype} of {column.shape}.")
    return column


def _starts_of_sessions(sessions: Shaped[np.ndarray, " row"]) -> Int[np.ndarray, " session"]:
    """Return the first row of each session; raise `ValueError` if its rows are apart."""
    starts = np.flatnonzero(np.append(True, sessions[1:] != sessions[:-1]))
    _, first = np.unique(sessions[starts], return_index=True)
    if first.size < starts.size:
        again = starts[np.setdiff1d(np.arange(starts.size), first)[0]]
        raise ValueError(
            f"`session` must have the rows of a session one after the other, got {sessions[again]} again in "
            f"row {again}: sort the table by session, or number the sessions of all subjects."
        )
    return starts


def _one_hot(
    choices: Shaped[np.ndarray, " row"], n_choices: int, counts: Bool[np.ndarray, " row"]
) -> Float[np.ndarray, "row choice"]:
    one_hot = (choices[:, None] == np.arange(n_choices)).astype(float)
    _check_rows("choice", choices, one_hot.any(axis=1) | ~counts, f"whole numbers from 0 to {n_choices - 1}")
    return one_hot


def _rewards(
    rewards: Shaped[np.ndarray, " row"], counts: Bool[np.ndarray, " row"]
) -> Float[np.ndarray, "row 1"]:
    _check_rows("reward", rewards, np.isfinite(rewards) | ~counts, "finite numbers")
    return np.where(np.isfinite(rewards), rewards, 0.0)[:, None]


def _check_rows(argument: str, column: np.ndarray, good: Bool[np.ndarray, " row"], expected: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"`{argument}` must be {expected} in rows that count, got {column[row]} in row {row}: see "
            "`exclude`."
        )


def _subjects_of_sessions(
    columns: dict[str, np.ndarray], starts: Int[np.ndarray, " session"]
) -> Shaped[np.ndarray, " session"]:
    subjects = columns["subject"]
    own = np.repeat(subjects[starts], np.diff(starts, append=subjects.size))
    if not np.all(subjects == own):
        row = int(np.argmin(subjects == own))
        raise ValueError(
            f"`subject` must be one for each session, got {own[row]} and {subjects[row]} for session "
            f"{columns['session'][row]}: number the sessions of all subjects."
        )
    return _as_labels(subjects)[starts]


def _as_labels(column: Shaped[np.ndarray, " row"]) -> Shaped[np.ndarray, " row"]:
    return column if is_numeric(column.dtype) else np.unique(column, return_inverse=True)[1]


def _some_of_each(subjects: Shaped[np.ndarray, " session"]) -> Int[np.ndarray, " validation"]:
    """Return sessions of each subject, at equal distances."""
    labels, counts = np.unique(subjects, return_counts=True)
    places = np.linspace(0, 1, max(1, counts.min() // 5) + 2)[1:-1]
    own = [np.flatnonzero(subjects == label) for label in labels]
    return np.concatenate([each[(places * (each.size - 1)).astype(int)] for each in own])
