"""What chapter 21 hands out: networks in NumPy, messages between learners; and the probes, one of which kills a training run."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from coursekit.given.folders import new_folder
from coursekit.ray_bridge import patches, rendezvous


def perceptron(layers: list[tuple], x: np.ndarray) -> np.ndarray:
    """Return the outputs of a network with these weights, computed in NumPy."""
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = np.tanh(x @ w.T + b)
    return x @ weight.T + bias


@cache
def layers_of(width: int) -> list[tuple]:
    """Return the weights of a network for CartPole with two hidden layers of this width, the same in each process."""
    rng, shapes = np.random.default_rng(0), [(width, 4), (width, width), (2, width)]
    return [(rng.normal(0, 0.1, shape).astype(np.float32), np.zeros(shape[0], np.float32)) for shape in shapes]


class Stuck(RuntimeError):
    """Every learner that has not finished waits for a message that no other will send."""


class Post:
    """Delivers arrays from learner to learner in one process, and records each message: [from, to, numbers]."""

    def __init__(self, size: int):
        self.size, self.messages, self.waiting, self.ended = size, [], {}, 0  # type: ignore[var-annotated]
        self._boxes: dict[tuple, deque] = defaultdict(deque)
        self._changed = threading.Condition()

    def send(self, me: int, to: int, part: Any) -> None:
        """Send a copy of an array; return at once."""
        array = np.asarray(part).copy()
        array.setflags(write=False)  # like the arrays that Ray delivers
        with self._changed:
            self.messages.append([me, int(to), int(array.size)])
            self._boxes[me, int(to)].append(array)
            self._changed.notify_all()

    def receive(self, me: int, sender: int) -> np.ndarray:
        """Return the next array from this sender; wait until it arrives. Raises `Stuck` if it never can."""
        box = self._boxes[int(sender), me]
        with self._changed:
            self.waiting[me] = int(sender)
            while not box:
                if self._nothing_moves():
                    self._changed.notify_all()
                    raise Stuck(f"The learners wait for messages that were never sent: {self.told()}.")
                self._changed.wait()
            del self.waiting[me]
            return box.popleft()

    def leave(self) -> None:
        """Record that a learner has returned: it sends nothing more."""
        with self._changed:
            self.ended += 1
            self._changed.notify_all()

    def told(self) -> str:
        """Return which learner waits for which."""
        return ", ".join(f"learner {me} for learner {sender}" for me, sender in sorted(self.waiting.items()))

    def _nothing_moves(self) -> bool:
        served = any(self._boxes[sender, me] for me, sender in self.waiting.items())
        return not served and len(self.waiting) + self.ended >= self.size


def together(all_reduce: Callable, arrays: Sequence[Any]) -> tuple[list, Post]:
    """Return what `all_reduce` returned to each of several learners, and the record of their messages; each learner is a thread."""
    size = len(arrays)
    post, results, errors = Post(size), [None] * size, []

    def learner(me: int) -> None:
        mine = np.array(arrays[me])
        mine.setflags(write=False)
        try:
            results[me] = all_reduce(mine, me, size, partial(post.send, me), partial(post.receive, me))
        except BaseException as error:
            errors.append(error)
        finally:
            post.leave()

    threads = [threading.Thread(target=learner, args=(me,), daemon=True) for me in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, Stuck)), errors[0])
    return results, post


class Mailbox:
    """Messages between actors: a class to inherit from. After `meet`, an actor can `send` and `receive` arrays."""

    def meet(self, me: int, others: list) -> None:
        """Tell this actor its number, and which actors there are."""
        self.me, self.others, self.sent = me, others, 0
        self._numbers: dict[tuple, int] = defaultdict(int)

    def deliver(self, sender: int, number: int, part: np.ndarray) -> None:
        """Store an array, which another thread receives."""
        with self._door:
            self._boxes[sender, number] = part
            self._door.notify_all()

    def __init__(self) -> None:
        self._boxes: dict[tuple, np.ndarray] = {}
        self._door = threading.Condition()

    def send(self, to: int, part: np.ndarray) -> None:
        """Send an array to another actor; return at once."""
        number = self._numbers["to", to]
        self._numbers["to", to] += 1
        self.sent += part.nbytes
        self.others[to].deliver.remote(self.me, number, part)

    def receive(self, sender: int) -> np.ndarray:
        """Return the next array from this sender, in the order of sending; threads may deliver in another order."""
        key = sender, self._numbers["from", sender]
        self._numbers["from", sender] += 1
        with self._door:
            self._door.wait_for(lambda: key in self._boxes)
            return self._boxes.pop(key)


def tree(array: np.ndarray, me: int, size: int, send: Callable, receive: Callable) -> np.ndarray:
    """Return the mean of all arrays: sums go up a tree to learner 0, and the mean comes down again."""
    children = [child for child in (2 * me + 1, 2 * me + 2) if child < size]
    total = sum([receive(child) for child in children], array)
    if me > 0:
        send((me - 1) // 2, total)
        total = receive((me - 1) // 2)
    else:
        total = total / size
    for child in children:
        send(child, total)
    return total


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Adder:
    """Stands in for an agent: its weight is the sum of what it learned from, and it records what it was given."""

    def __init__(self, start: float):
        self.w, self.seen = np.full(4, start), []  # type: ignore[var-annotated]

    def update(self, rows: dict) -> float:
        """Learn: add the rows' observations to the weight in place; return their mean as the loss."""
        self.seen.append({name: np.array(column) for name, column in rows.items()})
        self.w += np.asarray(rows["obs"], float).sum(0)
        return float(np.mean(rows["obs"]))

    def weights(self) -> dict:
        """Return the weights, and for the probe, what was seen so far."""
        return {"w": self.w, "seen": self.seen}


class Iterated(TypedDict):
    """What `learn` returned in each iteration, and `weights` before the first and after each."""

    replies: list[Any]
    weights: list[Any]


class Weights(TypedDict):
    """What `weights` returns with an `Adder` as the agent."""

    version: Any
    w: Any
    seen: list[dict[str, np.ndarray]]


def iterations(LearnerActor: Callable, start: float, turns: list[list[dict]]) -> Iterated:
    """Return the replies in iterations that pass references, each with the fragments of all samplers."""
    import ray

    learner = ray.remote(LearnerActor).options(num_cpus=0).remote(partial(Adder, start))
    try:
        replies, weights = [], [learner.weights.remote()]
        for fragments in turns:
            replies.append(learner.learn.remote(*[ray.put(fragment) for fragment in fragments]))
            weights.append(learner.weights.remote())
        return {"replies": ray.get(replies), "weights": ray.get(weights)}
    finally:
        ray.kill(learner)


class Reduced(TypedDict):
    """What each learner ended with, and the messages, [from, to, numbers]; or which learner waited for which when all were stuck."""

    stuck: str
    results: list[Any]
    messages: list[tuple[int, int, int]]


def reduced(all_reduce: Callable, arrays: list) -> Reduced:
    """Return the result of each learner and the messages."""
    try:
        results, post = together(all_reduce, [np.array(array) for array in arrays])
    except Stuck as stuck:
        return {"stuck": str(stuck), "results": [], "messages": []}
    return {"stuck": "", "results": results, "messages": post.messages}


class Streamer:
    """Stands in for a sampler that streams. Before some fragments, it waits until the learner has seen others."""

    def __init__(self, point: str, me: int, marks: list, waits: list[list]):
        self.point, self.me, self.marks, self.waits = point, me, marks, waits

    def stream(self, count: int) -> Any:
        """Yield the fragments; a wait is [number of my fragment, name of the fragment that must be learned before]."""
        for number in range(count):
            for mine, other in self.waits:
                if mine == number and not rendezvous.wait_for(
                    self.point, f"learned {other}", "missed", "the learner to go on"
                ):
                    rendezvous.signal(self.point, "missed")
                    rendezvous.note(self.point, "missed", [self.me, other])
            mark = self.marks[number] if number < len(self.marks) else -1
            yield {"name": f"{self.me}-{number}", "mark": mark, "obs": np.full(20_000, float(mark))}


class Pupil:
    """Stands in for a learner: records what it was given."""

    def __init__(self, point: str):
        self.point, self.marks = point, []  # type: ignore[var-annotated]

    def learn(self, rows: Any) -> Any:
        """Learn from one fragment; return its mark."""
        if not (isinstance(rows, dict) and "mark" in rows):
            raise TypeError(f"learn needs the rows of one fragment, but it got {type(rows).__name__}")
        rendezvous.signal(self.point, f"learned {rows['name']}")
        self.marks.append([rows["name"], rows["mark"]])
        return 10 * rows["mark"]

    def told(self) -> list:
        """Return the name and mark of each fragment in the order of their arrival."""
        return self.marks


class Streamed(TypedDict):
    """What `stream_samples` returned, the name and mark of each fragment that reached the learner, and which sampler missed which fragment.

    `how` holds the types of what `learn` was called with.
    """

    found: Any
    seen: list[tuple[str, int]]
    how: list[str]
    missed: tuple[int, str] | None


def streamed(stream_samples: Callable, marks: list[list], count: int, waits: list[list[list]]) -> Streamed:
    """Return what `stream_samples` returned, what the learner saw, and the types of its arguments in the driver."""
    import ray

    point = rendezvous.new_point()
    pupil = ray.remote(Pupil).options(num_cpus=0).remote(point)
    streamers = [
        ray.remote(Streamer).options(num_cpus=0).remote(point, me, each, waits[me]) for me, each in enumerate(marks)
    ]
    ray.get([actor.__ray_ready__.remote() for actor in (pupil, *streamers)])
    try:
        with patches.noted_actor_calls(_types_of_rows) as how:
            found = stream_samples(list(streamers), pupil, count)
            seen = ray.get(pupil.told.remote())
    finally:
        rendezvous.signal(point, "missed")  # a stream that still runs need not wait
        for actor in (pupil, *streamers):
            ray.kill(actor)
    return {
        "found": found,
        "seen": seen,
        "how": [each for types in how for each in types],
        "missed": rendezvous.noted(point, "missed"),
    }


def _types_of_rows(actor: Any, method: str, arguments: list) -> list[str]:
    return [type(each).__name__ for each in arguments] if method == "learn" else []


def noted_network(point: str, matrix: list, rows: Any) -> np.ndarray:
    """Return the rows times a matrix; record how many there were."""
    rows = np.asarray(rows, float)
    if rows.ndim != 2:
        raise ValueError(f"The network needs rows, an array of shape [B, 3], but it got shape {list(rows.shape)}.")
    sizes = rendezvous.noted(point, "sizes") or []
    rendezvous.note(point, "sizes", [*sizes, len(rows)])
    return rows @ np.array(matrix)


class Asked(TypedDict):
    """The actions of each sampler and the sizes of the batches; `kind` says what came in place of an actor's handle.

    `late` is a turn with calls that didn't return: its number, how many didn't, and how many were made.
    """

    kind: str
    answers: list[list[Any]]
    sizes: list[int]
    late: tuple[int, int, int] | None


def asked(inference_actor: Callable, matrix: list, numbers: list[int], rows: list[list]) -> Asked:
    """Return the actions of each sampler and the sizes of the batches; sampler `numbers[i]` asks for each of `rows[i]`, then leaves.

    In each turn, the last sampler asks first, and those that have no more rows leave while the others wait.
    """
    import ray

    point = rendezvous.new_point()
    actor = inference_actor(partial(noted_network, point, matrix), list(numbers))
    if not isinstance(actor, ray.actor.ActorHandle):
        return {"kind": type(actor).__name__, "answers": [], "sizes": [], "late": None}
    answers: list[list] = [[] for _ in rows]
    late = None
    patience = max(10.0, rendezvous.patience())
    try:
        ray.get(actor.__ray_ready__.remote())
        for turn in range(1 + max(map(len, rows))):
            refs = {me: actor.act.remote(numbers[me], np.array(rows[me][turn])) for me in _there(rows, turn)}
            left = [actor.leave.remote(numbers[me]) for me in range(len(rows)) if len(rows[me]) == turn]
            ray.get(left, timeout=patience)
            done, slow = ray.wait([*refs.values()], num_returns=len(refs), timeout=patience) if refs else ([], [])
            if slow:
                late = (turn, len(slow), len(refs))
                break
            for me, ref in refs.items():
                answers[me].append(ray.get(ref))
    finally:
        ray.kill(actor)
    return {"kind": "", "answers": answers, "sizes": rendezvous.noted(point, "sizes") or [], "late": late}


def _there(rows: list[list], turn: int) -> list[int]:
    return [me for me in reversed(range(len(rows))) if turn < len(rows[me])]


class Ran(TypedDict):
    """What became of a run: whether it was killed, or what it raised; the random numbers, and the weights of the policy that it returned.

    If it returned no policy, `weights` says what that was.
    """

    died: bool
    raised: str
    drawn: list[tuple[int, int]]
    weights: list[float] | str


def killed_and_resumed(
    resume_training: Callable, pushes: list, seed: int, iterations: int, deaths: list
) -> tuple[Ran, Ran, Ran, Ran, Ran]:
    """Return what became of five runs: an undisturbed one, then four that share a checkpoint.

    A death is ["iterate", n] or ["save", n]: the process is killed in its n-th iteration, or while it saves after it; [] is none.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        whole = _Run(pushes, seed, [], "").tell(
            resume_training, iterations, os.path.join(new_folder("whole-"), "state")
        )
        torch.set_num_threads(threads)
    killed, torn, last, after = _in_other_processes(resume_training, pushes, seed, iterations, deaths)
    return whole, killed, torn, last, after


def _in_other_processes(answer: Callable, pushes: list, seed: int, iterations: int, deaths: list) -> list[Ran]:
    """Return what became of runs that share a checkpoint, each in a process that can be killed."""
    import cloudpickle  # type: ignore[import-untyped]

    home = sys.modules.get(getattr(answer, "__module__", "") or "")
    by_value = home is not None and home.__name__ != "__main__"
    if by_value:
        cloudpickle.register_pickle_by_value(home)  # or else the new process would import the whole module
    try:
        packed = cloudpickle.dumps((answer, pushes, seed, iterations, deaths))
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(home)
    code = f"import sys; sys.path[:] = {sys.path!r}; from coursekit.given.ch21_learners import _fork_runs; _fork_runs()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=packed,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            "The function did not start in another process: it may use something that exists only in this one."
        )
    told: list[Ran] = pickle.loads(done.stdout)
    return told


def _fork_runs() -> None:
    """Read what to run, run each in a copy of this process, and write what became of them."""
    import torch

    torch.set_num_threads(1)
    packed, out = sys.stdin.buffer.read(), os.dup(1)
    os.dup2(2, 1)  # what an answer prints must not mix with the results
    answer, pushes, seed, iterations, deaths = pickle.loads(packed)
    path, told = os.path.join(new_folder("killed-"), "state"), []
    for number, death in enumerate(deaths):
        log = os.path.join(new_folder("log-"), str(number))
        pid = os.fork()
        if pid == 0:
            run = _Run(pushes, seed, death, log)
            try:
                found = run.tell(answer, iterations, path)
            except BaseException as error:
                found = run.became(raised=f"{type(error).__name__}: {error}")
            Path(log).write_bytes(pickle.dumps(found))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        told.append(pickle.loads(Path(log).read_bytes()) | {"died": os.WIFSIGNALED(status)})
    os.write(out, pickle.dumps(told))


class _Run:
    """One training run: what to pass to the answer, when to die, and the random numbers so far."""

    def __init__(self, pushes: list, seed: int, death: list, log: str):
        self.pushes, self.seed, self.death, self.log = np.array(pushes), seed, death, log
        self.drawn: list[tuple[int, int]] = []

    def became(self, weights: list[float] | str = "", raised: str = "", died: bool = False) -> Ran:
        """Return what became of this run."""
        return {"died": died, "raised": raised, "drawn": self.drawn, "weights": weights}

    def tell(self, answer: Callable, iterations: int, path: str) -> Ran:
        """Return what the answer returned, and the random numbers of its iterations."""
        policy = answer(self.make, self.iterate, iterations, Path(path))
        weights = policy.weight.detach().numpy().ravel().tolist() if hasattr(policy, "weight") else repr(policy)[:80]
        return self.became(weights)

    def make(self) -> tuple:
        """Return a policy, an optimizer with momentum, and a generator; seed PyTorch."""
        import torch

        torch.manual_seed(self.seed)
        policy = torch.nn.Linear(len(self.pushes[0]), 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(policy.weight)
        return policy, _Momentum(policy, self), np.random.default_rng(self.seed)

    def iterate(self, policy: Any, optimizer: Any, rng: np.random.Generator) -> None:
        """Take one step along two of the judge's pushes: NumPy's generator chooses the first, PyTorch's the second."""
        import torch

        if self.death == ["iterate", len(self.drawn) + 1]:
            self.die()
        first, second = int(rng.integers(len(self.pushes))), int(torch.randint(len(self.pushes), ()))
        self.drawn.append((first, second))
        push = self.pushes[first] + 2 * self.pushes[second]
        policy.weight.grad = torch.tensor(push)[None] + 0.1 * policy.weight.detach()
        optimizer.step()

    def saves(self) -> bool:
        """Return whether the process dies if it saves now."""
        return self.death == ["save", len(self.drawn)]

    def die(self) -> None:
        """Write the random numbers so far, and kill this process."""
        Path(self.log).write_bytes(pickle.dumps(self.became(died=True)))
        os.kill(os.getpid(), signal.SIGKILL)


class _Fatal:
    """Kills the process that pickles it, halfway through a file."""

    def __init__(self, run: _Run):
        self.run = run

    def __reduce__(self) -> tuple:
        self.run.die()
        return (bytearray, ())


class _Momentum:
    """Gradient descent with momentum. Not PyTorch's: that one imports its compiler in every copy of the process."""

    def __init__(self, policy: Any, run: _Run):
        self.policy, self.run, self.speed = policy, run, policy.weight.detach() * 0

    def step(self) -> None:
        """Move the weights along the last gradients, with momentum."""
        self.speed = 0.9 * self.speed + self.policy.weight.grad
        self.policy.weight.data -= 0.1 * self.speed

    def state_dict(self) -> dict:
        """Return what the next steps depend on, and if the process is to die, a part that kills it during the save."""
        return {"speed": self.speed} | ({"fatal": _Fatal(self.run)} if self.run.saves() else {})

    def load_state_dict(self, state: dict) -> None:
        """Continue from a state."""
        self.speed = state["speed"].clone()
