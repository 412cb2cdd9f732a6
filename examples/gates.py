"""What the paper figures share: numbers beside their references, gates that they have to pass, the table."""

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Row:
    """One number beside its reference.

    - `condition`, `member`: of what it is the number.
    - `value`, `reference`: the two numbers, in the same unit.
    - `error`: the standard error of their ratio; 0 if nothing random went into it.
    - `gate`: between which ratios it passes; None for a number that is only reported.
    - `must_fail`: whether it is a negative control.
    """

    condition: str
    member: str
    value: float
    reference: float
    error: float = 0.0
    gate: tuple[float, float] | None = None
    must_fail: bool = False

    @property
    def ratio(self) -> float:
        """The number relative to its reference."""
        return self.value / self.reference

    @property
    def passed(self) -> bool:
        """Whether the ratio is within the gate; NaN never is."""
        return self.gate is not None and bool(self.gate[0] <= self.ratio <= self.gate[1])

    @property
    def verdict(self) -> str:
        """The last column of the table."""
        if self.gate is None:
            return ""
        if self.must_fail:
            return "pass, but must FAIL" if self.passed else "fail, as it must"
        return "pass" if self.passed else "FAIL"


def optimum_gate(highest: float, error: float = 0.0) -> tuple[float, float]:
    """A gate of costs relative to a lower bound: from 1 to `highest`.

    Too good is as wrong as too bad, so below 1 only rounding (1e-5) is allowed or, where noise was
    drawn, three standard errors.
    """
    return 1 - (3 * error if error else 1e-5), highest


def standard_error_row(
    condition: str, member: str, value: float, reference: float, error: float, n_errors: float = 3.5
) -> Row:
    """A mean that has to be within `n_errors` of its standard error, `error`, of the reference."""
    error = error / abs(reference)
    return Row(condition, member, value, reference, error, (1 - n_errors * error, 1 + n_errors * error))


def tolerance_row(condition: str, member: str, value: float, reference: float, tolerance: float) -> Row:
    """A number that has to be its reference up to a relative tolerance."""
    return Row(condition, member, value, reference, gate=(1 - tolerance, 1 + tolerance))


def upper_bound_row(condition: str, member: str, value: float, bound: float) -> Row:
    """An error, which cannot be negative, that has to be no larger than a bound."""
    return Row(condition, member, value, bound, gate=(0.0, 1.0))


def at_least_row(condition: str, member: int | str, value: float, least: float) -> Row:
    """A number that has to be at least as large as another."""
    return Row(condition, str(member), value, least, gate=(1.0, np.inf))


def cost_rows(
    condition: str, costs: np.ndarray, optimum: float, highest: float, gate_members: bool
) -> list[Row]:
    """Costs of trials beside the lowest possible mean cost.

    **Arguments:**

    - `condition`: the name.
    - `costs`: [member, trial].
    - `optimum`: the lower bound of the mean over trials, in the same unit.
    - `highest`: the highest ratio that passes.
    - `gate_members`: whether every member has a gate, and no trial noise; else the trials are taken as
        random draws, and only the mean over members has a gate.

    **Returns:** a row for each member and, unless `gate_members`, one for their mean.
    """
    if gate_members:
        gate = optimum_gate(highest)
        return [
            Row(condition, str(i), member_costs.mean(), optimum, 0.0, gate)
            for i, member_costs in enumerate(costs)
        ]
    errors = costs.std(axis=1, ddof=1) / costs.shape[1] ** 0.5 / optimum
    error = float(np.sum(errors**2) ** 0.5 / len(errors))
    rows = [
        Row(condition, str(i), member_costs.mean(), optimum, errors[i])
        for i, member_costs in enumerate(costs)
    ]
    return [*rows, Row(condition, "mean", costs.mean(), optimum, error, optimum_gate(highest, error))]


def negative_controls(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a gate, as negative controls: they have to fail it."""
    return [dataclasses.replace(row, must_fail=True) for row in rows if row.gate is not None]


def print_table(rows: Sequence[Row], value: str, reference: str) -> None:
    """Print the rows, under the names of the number and of its reference."""
    wide = max([18, *(len(row.condition) for row in rows)])
    names = f"{'condition':<{wide}} {'member':>6} {value:>11} {reference:>11} {'ratio':>9} {'SE':>7}"
    print(f"{names}  {'gate':<18} result")
    for row in rows:
        gate = "" if row.gate is None else f"[{row.gate[0]:.5f}, {row.gate[1]:.5f}]"
        print(
            f"{row.condition:<{wide}} {row.member:>6} {row.value:11.5e} {row.reference:11.5e} "
            f"{row.ratio:9.5f} {row.error:7.5f}  {gate:<18} {row.verdict}".rstrip()
        )


def exit_code(rows: Sequence[Row]) -> int:
    """0 if gates were checked and all passed, and every negative control failed its gate; else 1."""
    checked = [row for row in rows if row.gate is not None]
    outcomes = [row.passed for row in checked if not row.must_fail]
    controls = [row.passed for row in checked if row.must_fail]
    return 0 if outcomes and all(outcomes) and not any(controls) else 1
