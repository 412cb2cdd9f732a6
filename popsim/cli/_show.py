"""The commands that read runs: `info`, `show`, `compare` and `export`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from popsim.analysis.figures import save_figure
from popsim.experiments import info_table, open_run, read_run_info, save_ensemble, verify_run
from popsim.experiments.info_table import size_text
from popsim.report import WrittenReport, compare_runs, report_run
from popsim.store import CorruptDataError, SaveError, check_model_path, check_netcdf_path, write_netcdf

RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]


@dataclasses.dataclass(frozen=True)
class Info:
    """Print the contents of a run, finished or not, and its progress."""

    path: RunPath
    verify: tyro.conf.FlagCreatePairsOff[bool] = False
    """read all files and compare them with their checksums; exit code 2 if one is damaged"""

    def run(self) -> None:
        """Print the table and verify the run if requested."""
        print(info_table(read_run_info(self.path)))
        if not self.verify:
            return
        damage = verify_run(self.path)
        print()
        if not damage:
            print("all files are as they were written")
            return
        for file, said in damage.items():
            print(f"DAMAGED: {file}: {said}")
        raise CorruptDataError(f"damaged in {self.path}: {', '.join(damage)}")


@dataclasses.dataclass(frozen=True)
class Show:
    """Print a run's table, draw all its figures, and write a report that opens in any browser."""

    path: RunPath
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """where report.html and figures/ are written; by default into the run"""

    def run(self) -> None:
        """Print the table, and the paths of the figures and of the report."""
        _print(report_run(open_run(self.path), self.out))


@dataclasses.dataclass(frozen=True)
class Compare:
    """Print the differences and results of runs, draw them together, and write a report."""

    paths: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN RUN ...", help="folders of runs")
    ]
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("comparison")
    """where comparison.html and figures/ are written"""
    names: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME NAME ...")] = None
    """names of the runs; by default the names of their folders"""

    def run(self) -> None:
        """Print the tables, and the paths of the figures and of the report."""
        _print(compare_runs(self.paths, self.out, names=self.names))


def _print(report: WrittenReport) -> None:
    print(report.table, *report.figures, f"{report.page} ({size_text(report.n_bytes)})", sep="\n")


@dataclasses.dataclass(frozen=True)
class Export:
    """Export a run's ensemble, history or figures to files for other software."""

    path: RunPath
    model: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the trained ensemble, as safetensors"""
    history: Annotated[Path | None, tyro.conf.arg(metavar="FILE.nc")] = None
    """losses and recorded weights, as NetCDF-4"""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """all figures, as PNG and PDF"""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """replace existing files"""

    def run(self) -> None:
        """Write the requested files and print their paths; all arguments are checked first."""
        if self.model is None and self.history is None and self.figures is None:
            raise ValueError("popsim export must be given --model, --history or --figures, got none of them.")
        for option, path, check in (
            ("model", self.model, check_model_path),
            ("history", self.history, check_netcdf_path),
        ):
            if path is not None:
                try:
                    check(path, overwrite=self.overwrite)
                except ValueError as error:
                    raise ValueError(str(error).replace("`path`", f"`{option}`")) from None
        run = open_run(self.path)
        if self.figures is not None:
            for path in _save_figures(run, self.figures, overwrite=self.overwrite):
                print(path)
        if self.model is not None:
            save_ensemble(self.model, run.ensemble, run.experiment, overwrite=self.overwrite)
            print(self.model)
        if self.history is not None:
            write_netcdf(run.history.dataset, self.history, overwrite=self.overwrite)
            print(self.history)


def _save_figures(run: Any, folder: Path, *, overwrite: bool) -> list[Path]:
    import matplotlib.pyplot as plt

    figures = run.experiment.draw_figures(run)
    try:
        paths = [folder / f"{name}.{ending}" for name in figures for ending in ("png", "pdf")]
        taken = [path for path in paths if path.exists()]
        if taken and not overwrite:
            raise ValueError(f"`figures` must hold none of these figures, got {taken[0]}; use --overwrite.")
        return [path for name, drawn in figures.items() for path in save_figure(drawn.figure, folder, name)]
    except OSError as error:
        raise SaveError(f"{folder} could not be written: {error}") from error
    finally:
        for drawn in figures.values():
            plt.close(drawn.figure)
