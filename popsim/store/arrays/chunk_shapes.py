"""How arrays are cut: into chunks, which are read as a whole, and shards, files that hold chunks.

Reading one entry over all rows wants long chunks, one row of everything wants short ones, and a file
system wants few files. A chunk holds one member and about 512 KB: some ten rows of the weights of a small
network, thousands of rows of a loss. The rows of a shard are kept in memory until it is full; over the
arrays that grow together, the number of files is least for a given memory if the rows of a shard go with
one over the square root of the bytes of a row.
"""

import math
from collections.abc import Mapping, Sequence

CHUNK_BYTES = 2**19
CHUNK_ROWS = 2**13
LARGEST_CHUNK_BYTES = 2**23
SHARD_BYTES = 2**24
SHARD_ROWS = 2**16
BUFFERED_BYTES = 3 * 2**23

Shape = tuple[int, ...]


def cut(rows: Mapping[str, tuple[Sequence[str], Shape, int]]) -> dict[str, tuple[Shape, Shape]]:
    """The shapes of the chunks and of the shards of arrays that grow together.

    **Arguments:**

    - `rows`: by array, the names and lengths of the axes of a row, and the bytes of one number.

    **Returns:** by array, both shapes, which begin with a number of rows. The shards of all arrays together
    take about `BUFFERED_BYTES`, unless a single row takes more.
    """
    sizes = {name: max(1, math.prod(shape) * itemsize) for name, (_, shape, itemsize) in rows.items()}
    scale = BUFFERED_BYTES / sum(math.sqrt(size) for size in sizes.values())
    shapes = {}
    for name, (axes, shape, itemsize) in rows.items():
        size = sizes[name]
        n_rows = max(1, min(int(scale / math.sqrt(size)), SHARD_BYTES // size, SHARD_ROWS))
        piece = _piece_of_row(axes, shape, itemsize)
        n_chunk = min(max(1, CHUNK_BYTES // max(1, math.prod(piece) * itemsize)), n_rows, CHUNK_ROWS)
        whole = tuple(-(-length // part) * part for length, part in zip(shape, piece, strict=True))
        in_shard = piece if size > 2 * SHARD_BYTES else tuple(map(max, whole, piece))
        shapes[name] = ((n_chunk, *piece), (n_rows // n_chunk * n_chunk, *in_shard))
    return shapes


def cut_fixed(axes: Sequence[str], shape: Shape, itemsize: int) -> tuple[Shape, Shape]:
    """The shapes of the chunks and of the shards of an array that does not grow."""
    if not shape:
        return (), ()
    chunk, shard = cut({"": (axes[1:], shape[1:], itemsize)})[""]
    n_chunk = min(chunk[0], max(1, shape[0]))
    n_chunks = min(shard[0] // chunk[0], -(-max(1, shape[0]) // n_chunk))
    return (n_chunk, *chunk[1:]), (n_chunk * n_chunks, *shard[1:])


def _piece_of_row(axes: Sequence[str], shape: Shape, itemsize: int) -> Shape:
    """The part of a row in one chunk: one member, and less only if that is huge."""
    piece = [1 if name == "member" else max(1, length) for name, length in zip(axes, shape, strict=True)]
    while math.prod(piece) * itemsize > LARGEST_CHUNK_BYTES:
        longest = piece.index(max(piece))
        piece[longest] = -(-piece[longest] // 2)
    return tuple(piece)
