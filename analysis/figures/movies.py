"""Animations as files: GIF, MP4, and HTML with a player."""

import base64
import contextlib
import html
import io
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, FuncAnimation
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from popsim._shared.checks import check_positive
from popsim._shared.text_checks import check_path, one_line, shorten
from popsim.store.files import SaveError, atomic_file, has_mark

__all__ = ["save_animation"]

MOVIE_SUFFIXES = (".gif", ".mp4", ".html")
MOST_GIF_RATE = 50.0  # frames per second; most viewers show faster ones at ten per second
_PAGE = Path(__file__).with_name("movie.html")
Take = Callable[[Image.Image], None]


def save_animation(
    animation: FuncAnimation, path: str | Path, *, frames_per_second: float | None = None
) -> Path:
    """Write an animation as its suffix says, and return its path.

    - `.gif`: by Pillow, on every machine.
    - `.mp4`: by ffmpeg, which must be installed. The smallest file.
    - `.html`: a page with a player that steps through the frames. One file, which needs no network.

    Frames are as large as the figure, with `figure.dpi` dots per inch.

    **Arguments:**

    - `animation`: such as that of `animate_body`.
    - `path`: the file; one that exists is replaced.
    - `frames_per_second`: None for the rate of the animation. A GIF has at most 50.

    **Raises:** `SaveError` if the file cannot be written; an existing one is then unchanged.
    """
    check_path("path", path)
    check_movie_path("path", Path(path))
    if frames_per_second is not None:
        check_positive("frames_per_second", frames_per_second)
    private: Any = animation  # matplotlib's own `save` reads its figure, and its interval in ms, too
    rate = 1000.0 / private._interval if frames_per_second is None else frames_per_second
    check_frame_rate(Path(path), rate)
    into = _FORMATS[Path(path).suffix]
    with atomic_file(Path(path)) as partial, into(partial, Path(path), rate) as take:
        animation.save(partial, writer=_FrameWriter(rate, take), dpi=private._fig.dpi)
    return Path(path)


def check_frame_rate(path: Path, frames_per_second: float) -> None:
    """Raise `ValueError` if a movie in a file of this format cannot have so many frames per second."""
    if path.suffix == ".gif" and frames_per_second > MOST_GIF_RATE:
        raise ValueError(
            f"`frames_per_second` must be at most {MOST_GIF_RATE:g} in a GIF, got {frames_per_second:g}: "
            "viewers show a faster one slowly."
        )


def check_movie_path(name: str, path: Path) -> None:
    """Raise `ValueError` unless `path`, the argument called `name`, is a movie that can be written here."""
    if path.suffix not in MOVIE_SUFFIXES:
        raise ValueError(f"`{name}` must end with .gif, .mp4 or .html, got {path}.")
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise ValueError(
            f"`{name}` must end with .gif or .html where there is no ffmpeg, got {path}: install ffmpeg, "
            "such as by `apt install ffmpeg` or `conda install ffmpeg`, for MP4."
        )


_MARKS = {b"GIF8": b"popsim", b"\0\0\0": b"popsim", b"<!DOCTYPE html>": b'name="generator" content="popsim"'}


def is_movie(path: Path) -> bool:
    """Whether popsim wrote a file, as a movie."""
    return any(has_mark(path, beginning, mark) for beginning, mark in _MARKS.items())


class _FrameCanvas(FigureCanvasAgg):
    def draw_idle(self, *args: Any, **kwargs: Any) -> None:
        """Draw nothing: matplotlib asks for a drawing of the whole figure after each frame."""


class _FrameWriter(AbstractMovieWriter):
    """Draws the frames, what does not move once, and passes them on."""

    def __init__(self, frames_per_second: float, take: Take):
        super().__init__(fps=frames_per_second)  # pyright: ignore[reportArgumentType]
        self.take = take

    def setup(self, fig: Any, outfile: Any, dpi: float | None = None) -> None:
        super().setup(fig, outfile, dpi=dpi)  # pyright: ignore[reportAbstractUsage]
        self.users_canvas, self.canvas = fig.canvas, _FrameCanvas(fig)
        self.background: Any = None

    def grab_frame(self, **savefig_kwargs: Any) -> None:
        moving: list[Any] = [
            artist for ax in self.fig.axes for artist in ax.get_children() if artist.get_animated()
        ]
        if self.background is None or not moving:
            for artist in moving:
                artist.set_visible(False)
            self.canvas.draw()
            self.background = self.canvas.copy_from_bbox(self.fig.bbox)
            for artist in moving:
                artist.set_visible(True)
        self.canvas.restore_region(self.background)
        for artist in sorted(moving, key=lambda artist: artist.get_zorder()):
            artist.axes.draw_artist(artist)
        self.take(Image.fromarray(np.asarray(self.canvas.buffer_rgba())).convert("RGB"))

    def finish(self) -> None:
        self.fig.set_canvas(self.users_canvas)


def _check_frames(path: Path, frames: Sequence[Any]) -> None:
    if not frames:
        raise SaveError(f"{path} could not be written: the animation has no frames.")


@contextlib.contextmanager
def _video(partial: Path, path: Path, rate: float) -> Iterator[Take]:
    processes: list[subprocess.Popen[bytes]] = []

    def take(frame: Image.Image) -> None:
        if not processes:
            width, height = frame.size
            received = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -framerate {rate:.6f} -i -"
            # H.264 takes even sizes, and players this format of pixels.
            written = "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white -vcodec h264 -pix_fmt yuv420p"
            marked = "-metadata comment=popsim -movflags +faststart -f mp4 -y"
            words = ["-loglevel", "error", *received.split(), *written.split(), *marked.split()]
            command = [FFMpegWriter.bin_path(), *words, str(partial)]
            pipe, none = subprocess.PIPE, subprocess.DEVNULL
            processes.append(subprocess.Popen(command, stdin=pipe, stdout=none, stderr=pipe))
        stdin: Any = processes[0].stdin
        with contextlib.suppress(BrokenPipeError):  # ffmpeg says why at the end
            stdin.write(frame.tobytes())

    try:
        yield take
    finally:
        said = [process.communicate()[1] for process in processes]
    _check_frames(path, processes)
    if any(process.returncode for process in processes):
        reason = shorten(one_line(said[0].decode(errors="replace")), 200)
        raise SaveError(f"{path} could not be written, because ffmpeg failed: {reason}")


def _with_256_colors(frame: Image.Image) -> Image.Image:
    # A third of the memory of full colours.
    return frame.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


@contextlib.contextmanager
def _gif(partial: Path, path: Path, rate: float) -> Iterator[Take]:
    frames: list[Image.Image] = []
    yield lambda frame: frames.append(_with_256_colors(frame))
    _check_frames(path, frames)
    # A GIF counts hundredths of seconds: rounding the time of each frame keeps that of the whole.
    ends = [round(100 * index / rate) for index in range(len(frames) + 1)]
    times = {"duration": (10 * np.diff(ends)).tolist(), "loop": 0}
    frames[0].save(partial, format="GIF", save_all=True, append_images=frames[1:], comment=b"popsim", **times)


@contextlib.contextmanager
def _page(partial: Path, path: Path, rate: float) -> Iterator[Take]:
    frames: list[Image.Image] = []
    yield lambda frame: frames.append(_with_256_colors(frame))
    _check_frames(path, frames)
    width, height = frames[0].size
    page = Template(_PAGE.read_text()).substitute(
        title=html.escape(path.stem),
        frames=",\n".join(f'"{_as_png_text(frame)}"' for frame in frames),
        interval=f"{1000 / rate:g}",
        last=len(frames) - 1,
        width=width,
        height=height,
    )
    with partial.open("x") as file:
        file.write(page)


_FORMATS = {".gif": _gif, ".mp4": _video, ".html": _page}


def _as_png_text(frame: Image.Image) -> str:
    buffer = io.BytesIO()
    frame.save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
