"""`popsim export`: a finished run as files for elsewhere."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from popsim.analysis.figures import save_figure
from popsim.experiments import open_run, save_ensemble
from popsim.store import SaveError, check_model_path, check_netcdf_path, write_netcdf


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a run's ensemble, history or figures to files for elsewhere."""

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", help="the folder of the run")]
    model: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the trained ensemble, as safetensors"""
    history: Annotated[Path | None, tyro.conf.arg(metavar="FILE.nc")] = None
    """losses and recorded weights, as NetCDF-4"""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """all figures, as PNG and PDF"""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """replace files that are there"""

    def run(self) -> None:
        """Write what was asked for and print the paths; all that can be refused is refused before."""
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
