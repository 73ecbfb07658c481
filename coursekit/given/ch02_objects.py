"""What chapter 2 hands out, and the probes that drive its answers."""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from coursekit.given.object_store import MB, made, store
from coursekit.ray_bridge import private, rendezvous

MILLION = 2**20  # numbers; of 8 bytes each, they are 8 MB
PUSHING = 16  # blocks of 8 MB that push others out of this chapter's store of 128 MB
SETTLED = 1.0  # seconds between two readings that must agree before a reference counts as kept


def in_store() -> int:
    """Return how many MB the object store holds a moment later: Ray frees memory in batches, about one per second."""
    time.sleep(1.2)
    return round(store()["bytes"] / MB)


def spilled_files() -> dict[str, str]:
    """Return the files into which this Ray has spilled objects, by the end of their names, with their sizes."""

    session = Path(private.global_node.get_session_dir_path())
    return {path.name[-12:]: f"{path.stat().st_size / MB:.0f} MB" for path in session.glob("ray_spilled_objects_*/*")}


def crossing(sizes: list[int], first: Iterable[float], second: Iterable[float]) -> str:
    """Return in words from what size on the first way is faster than the second, and stays so; sizes are bytes."""
    slower = [seconds >= other for seconds, other in zip(first, second, strict=True)]
    if slower[-1]:
        return "at no size up to the largest"
    if not any(slower):
        return "at every size"
    last = max(place for place, is_slower in enumerate(slower) if is_slower)
    return f"from a size between {sizes[last] / 1024:,.0f} and {sizes[last + 1] / 1024:,.0f} kB"


def most_waiting(times: np.ndarray) -> int:
    """Return how many blocks waited at most; each row has the seconds at which a block was made and reached the loop."""
    made_at, reached_at = np.asarray(times).T
    return int(max(place + 1 - np.sum(reached_at < moment) for place, moment in enumerate(made_at)))


def last_number(array: np.ndarray) -> float:
    """Return the last number of an array."""
    return float(array[-1])


def pick(array: np.ndarray, index: int) -> float:
    """Return one number of an array."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"pick(array, index) got {_a(array)} instead of the array")
    if np.ndim(index):
        raise TypeError(f"pick(array, index) got {_a(index)} instead of the index")
    return float(array[index])


def add_rows(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each column."""
    return rows.sum(axis=0)


# Two processes without Ray, for comparison.


@contextlib.contextmanager
def neighbor() -> Iterator[Callable]:
    """Start a process without Ray; `ask(x)` sends x through a pipe, and returns the last number of what arrives.

    x is an array, which is pickled, or the name and length of an array in shared memory, which is read in place.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_answer, args=(theirs,), daemon=True)
    process.start()
    theirs.close()

    def ask(question: object) -> float:
        ours.send(question)
        return ours.recv()

    try:
        ask(np.zeros(1))  # it has started
        yield ask
    finally:
        ours.close()  # tells it to end
        process.join()


def _answer(pipe: Connection) -> None:
    """Answer with the last number of each array, until the pipe is closed."""
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(_last_of(pipe.recv()))  # by now the array is gone again: no later question pays for that


def _last_of(question: np.ndarray | tuple[str, int]) -> float:
    if isinstance(question, np.ndarray):
        return last_number(question)
    name, length = question
    block = SharedMemory(name)
    try:
        return float(np.ndarray(length, buffer=block.buf)[-1])  # the array is gone before the memory is closed
    finally:
        block.close()


@contextlib.contextmanager
def shared(array: np.ndarray) -> Iterator[tuple[str, int]]:
    """Copy an array into shared memory; yields the name and length by which another process finds it."""
    block = SharedMemory(create=True, size=array.nbytes)
    try:
        np.ndarray(array.shape, buffer=block.buf)[:] = array
        yield block.name, len(array)
    finally:
        block.close()
        block.unlink()


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


def meets_another(array: np.ndarray, place: list) -> bool:
    """Return whether another call was running at the same time; `place` is [point, me, other]."""
    point, me, other = place
    return rendezvous.meets(point, me, other)


def objects_here(share_once: Callable, size: int) -> list[str]:
    """Return the ids of the objects of this size to which this process refers."""
    from coursekit.ray_bridge import records

    gc.collect()
    return [row["object_id"] for row in records.objects() if row["pid"] == os.getpid() and (row["size"] or 0) >= size]


def held_here(share_once: Callable, size: int, known: list[str]) -> int:
    """Return how many objects of this size, other than those known, this process refers to, once it will not let go."""
    kept = _kept({*objects_here(share_once, size)} - {*known})
    return len({row["object_id"] for row in kept})


class Added(TypedDict):
    """The sums, what was put into the store meanwhile, what is kept, and what `add_rows` saw."""

    sums: Any
    copied_mb: float
    kept: int
    listed: bool
    copied: bool
    here: bool
    all_rows: bool
    met: bool


def sums_of_matrix(column_sums: Callable, matrix: np.ndarray, blocks: int) -> Added:
    """Return the sums, what was copied or kept, and whether the block with the first row met others; column 0 numbers the rows."""
    import ray

    point, driver = rendezvous.new_point(), os.getpid()
    height = len(matrix)  # `add_rows` may be an argument of a task, so it must not carry the matrix

    def add_rows(rows: np.ndarray) -> np.ndarray:
        if np.ndim(rows) != 2:
            raise TypeError(f"add_rows(rows) got an array with {np.ndim(rows)} dimensions, and rows of a matrix have 2")
        numbers = np.asarray(rows)[:, 0]
        if not isinstance(rows, np.ndarray):
            rendezvous.signal(point, "listed")
        elif _is_own_copy(rows):
            rendezvous.signal(point, "copied")
        if os.getpid() == driver:
            rendezvous.signal(point, "here")
        me = int(0 not in numbers)  # 0 for the block with the first row, 1 for every other
        if len(numbers) < height:
            rendezvous.signal(point, f"met-{me}" if rendezvous.meets(point, me, 1 - me) else "missed")
        else:
            rendezvous.signal(point, "all rows")
        return np.asarray(rows).sum(axis=0)

    ref = ray.put(matrix)
    with made() as copies:
        sums = column_sums(add_rows, ref, blocks)
    ids = {ref.hex()}
    del ref
    return {
        "sums": sums,
        "copied_mb": copies.megabytes,
        "kept": len(_kept(ids)),
        "listed": rendezvous.signalled(point, "listed"),
        "copied": rendezvous.signalled(point, "copied"),
        "here": rendezvous.signalled(point, "here"),
        "all_rows": rendezvous.signalled(point, "all rows"),
        "met": rendezvous.signalled(point, "met-0") and rendezvous.signalled(point, "met-1"),
    }


def _is_own_copy(rows: np.ndarray) -> bool:
    """Return whether an array has memory of its own: what was pickled inside a function looks at bytes, which are read-only, too."""
    root: object = rows
    while isinstance(root, np.ndarray):
        root = root.base
    return rows.flags.writeable or root is None or isinstance(root, bytes)


class Joined(TypedDict):
    """What `pipeline` returned, in words, and what `join` was given: how many arguments, and the values in the list."""

    type: str
    arguments: int
    kinds: list[str]
    numbers: list
    on_time: bool


def prepare_and_join(pipeline: Callable, numbers: list[int], factor: int) -> Joined:
    """Return what `join` was given and what became of it; the first number exists only after `pipeline` has returned."""
    import ray

    point = rendezvous.new_point()

    @ray.remote
    def late(number: int) -> list:
        return [number, rendezvous.wait_for(point, "returned", what="`pipeline` to return")]

    def prepare(value: list) -> list:
        if not isinstance(value, list):
            raise TypeError(f"prepare(value) got {_a(value)} instead of the value")
        return [value[0] * factor, value[1]]

    def join(*arguments: list, values: list | None = None) -> dict:
        if len(arguments) + (values is not None) != 1:
            return {"arguments": len(arguments)}
        joined = list(arguments[0] if values is None else values)
        kinds = sorted({type(value).__name__ for value in joined})
        plain = [value for value in joined if isinstance(value, list)]
        on_time = all(value[1] for value in plain)
        return {"arguments": 1, "kinds": kinds, "numbers": [value[0] for value in plain], "on_time": on_time}

    refs = [late.remote(numbers[0]), *(ray.put([number, True]) for number in numbers[1:])]
    given_back = pipeline(prepare, join, refs)
    rendezvous.signal(point, "returned")
    kind, joined = "a reference", {}
    if not isinstance(given_back, ray.ObjectRef):
        kind = _a(given_back)
    elif isinstance(value := ray.get(given_back), dict):
        joined = value
    else:
        kind = f"a reference to {_described(value)}"
    return {
        "type": kind,
        "arguments": joined.get("arguments", 0),
        "kinds": joined.get("kinds", []),
        "numbers": joined.get("numbers", []),
        "on_time": joined.get("on_time", False),
    }


def _described(value: object) -> str:
    return "another reference" if type(value).__name__ == "ObjectRef" else _a(value)


def _a(value: object) -> str:
    """Return the type of a value with its article: "an ObjectRef"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


class Held(TypedDict):
    """The rows, or in words what came instead, and what is kept of the arrays: in the store, and in the process itself."""

    rows: list | str
    kept: int
    kinds: list[str]
    returned_mb: float
    in_whole_copies: int


def held_after(let_go: Callable, first_rows: np.ndarray, height: int) -> Held:
    """Return the rows that `let_go` took out of arrays, and what of the arrays is kept once nothing else refers to them."""
    import ray

    refs = [ray.put(_array_with(row, height)) for row in first_rows]
    ids, before = {ref.hex() for ref in refs}, store()["bytes"]
    rows = let_go(list(refs))
    del refs
    kept = _kept(ids)
    whole = 8 * first_rows.shape[1] * height
    kinds = sorted({row["kind"] for row in kept})
    count = len({row["object_id"] for row in kept})
    if isinstance(rows, tuple | np.ndarray):
        rows = list(rows)
    if not isinstance(rows, list) or not all(isinstance(row, np.ndarray | list | tuple) for row in rows):
        rows = f"a list with {_a(rows[0])}" if isinstance(rows, list) and rows else _a(rows)
    returned = _returned(before, 0 if count else 8 * first_rows.size * height)
    own = sum(_looked_at(row) >= whole for row in rows) if isinstance(rows, list) else 0
    return {"rows": rows, "kept": count, "kinds": kinds, "returned_mb": returned / MB, "in_whole_copies": own}


def _looked_at(row: object) -> int:
    """Return the bytes of the array whose memory a row keeps: its own, or those of the array that it is a view of."""
    while isinstance(base := getattr(row, "base", None), np.ndarray):
        row = base
    return row.nbytes if isinstance(row, np.ndarray) else 0


def _array_with(first_row: np.ndarray, height: int) -> np.ndarray:
    array = np.zeros((height, len(first_row)))
    array[0] = first_row
    return array


def _kept(ids: set[str]) -> list[dict]:
    """Return Ray's records of the references to these objects, once they are gone or this process will not let go."""
    from coursekit.ray_bridge import records

    gc.collect()
    end, mine = time.monotonic() + rendezvous.PATIENCE, None
    while True:
        kept = [row for row in records.objects() if row["object_id"] in ids]
        before, mine = mine, sorted(row["object_id"] for row in kept if row["pid"] == os.getpid())
        if not kept or (mine and mine == before) or time.monotonic() > end:
            return kept
        time.sleep(SETTLED)


def _returned(before: int, wanted: int) -> int:
    """Return how many bytes have gone from the store, once it is as many as wanted: Ray frees memory in batches."""
    end = time.monotonic() + rendezvous.PATIENCE
    while (returned := before - store()["bytes"]) < wanted and time.monotonic() < end:
        time.sleep(0.2)
    return returned


class Read(TypedDict):
    """The results, how large the store is, how many blocks were on disk and restored, and how many were in use at once."""

    results: Any
    capacity_mb: float
    spilled: int
    restored: int
    pinned: int


def read_larger_than_store(read_once: Callable, numbers: list[float], per_block: int) -> Read:
    """Return the results for blocks that are all on disk, and how often Ray had to restore one.

    Block i holds `numbers[i]` everywhere, but twice that at its end. Others, which fill the store, push the blocks out.
    """
    import ray

    point, refs = rendezvous.new_point(), []
    for number in numbers:
        block = np.full(per_block, number)
        block[-1] *= 2
        refs.append(ray.put(block))
    watched = {numbers[1], numbers[len(numbers) // 2], numbers[-1]}

    def first(block: np.ndarray) -> float:
        if float(block[0]) in watched:
            rendezvous.signal(point, f"pinned-{_pinned(per_block)}")
        return float(block[0])

    def last(block: np.ndarray) -> float:
        return float(block[-1])

    def mean(block: np.ndarray) -> float:
        return float(block.mean())

    def length(block: np.ndarray) -> int:
        return len(block)

    others = [ray.put(np.zeros(per_block)) for _ in range(PUSHING)]
    room = store()["capacity"] // (8 * per_block)
    spilled = _on_disk(refs, len(refs) - max(0, room - PUSHING))
    ids = {ref.hex() for ref in others}
    del others
    _kept(ids)
    before = store()
    results = read_once([first, last, mean, length], list(refs))
    after = store()
    return {
        "results": results,
        "capacity_mb": after["capacity"] / MB,
        "spilled": spilled,
        "restored": after["restored_objects"] - before["restored_objects"],
        "pinned": max([n for n in range(len(numbers) + 1) if rendezvous.signalled(point, f"pinned-{n}")], default=0),
    }


def _on_disk(refs: list, wanted: int) -> int:
    """Return how many blocks were spilled, once it is as many as wanted: their owner hears of it a little later."""
    import ray

    end = time.monotonic() + rendezvous.PATIENCE
    while True:
        spilled = sum(place["did_spill"] for place in ray.experimental.get_object_locations(refs).values())
        if spilled >= wanted or time.monotonic() > end:
            return spilled
        time.sleep(0.2)


def _pinned(per_block: int) -> int:
    """Return how many blocks this process holds in the store at once, by Ray's records."""
    from coursekit.ray_bridge import records

    rows = [row for row in records.objects() if row["pid"] == os.getpid() and row["kind"] == "pinned"]
    return sum((row["size"] or 0) >= 8 * per_block for row in rows)
