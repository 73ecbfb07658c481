"""The judge's side of chapter 19."""

from numpy.random import Generator

from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_close, expect_equal

NAMES = [
    *("Reader", "Simulator", "Cutter", "Judge", "Packer", "Mixer"),
    *("Filter", "Scorer", "Writer", "Trainer", "Loader", "Ranker"),
]


def _run(rng: Generator, stages: list[dict], items: int) -> list[dict]:
    """Return the records of a program whose items pass through stages of actors, each with `workers` and `methods` (seconds by name).

    A stage takes items in order, `batch` of them at a time, on its workers round-robin; the first may be `slower`.
    """
    calls: list[dict] = []
    ready = [0.0] * items
    start, first_pid = 1.7e9 + float(rng.uniform(0, 1e6)), int(rng.integers(1000, 30_000))
    for stage in stages:
        workers = [rng.bytes(8).hex() for _ in range(stage["workers"])]
        free = dict.fromkeys(workers, 0.0)
        pids = {worker: first_pid + len(calls) + place for place, worker in enumerate(workers)}
        for worker in workers:
            created = {
                "kind": "actor_creation",
                "created": start - 60,
                "started": start - 50,
                "ended": start - 50 + stage["birth"],
            }
            calls.append(_call(stage, "__init__", worker, pids[worker]) | created)
        for turn, first in enumerate(range(0, items, stage["batch"])):
            members = range(first, min(first + stage["batch"], items))
            worker = workers[turn % len(workers)]
            factor = stage["slower"] if worker == workers[0] else 1.0
            now = max(free[worker], *(ready[item] for item in members))
            for method, seconds in stage["methods"].items():
                took = factor * seconds * len(members) * float(rng.uniform(0.97, 1.03))
                times = {
                    "kind": "actor_call",
                    "created": start - 1,
                    "started": start + now,
                    "ended": start + now + took,
                }
                calls.append(_call(stage, method, worker, pids[worker]) | times)
                now += took + 0.0005
            free[worker] = now
            for item in members:
                ready[item] = now
    order = sorted(calls, key=lambda call: (call["created"], call["started"]))
    return [order[place] for place in rng.permutation(len(order))]


def _call(stage: dict, method: str, worker: str, pid: int) -> dict:
    return {"name": f"{stage['name']}.{method}", "actor_id": worker, "worker_pid": pid, "state": "FINISHED"}


def _one_more(calls: list[dict], stage: str) -> list[dict]:
    """Return the calls and a short last one of an actor of this stage, which did nothing for a while before it."""
    ended = max(call["ended"] for call in calls)
    one = next(call for call in calls if call["kind"] == "actor_call" and call["name"].startswith(f"{stage}."))
    return [*calls, one | {"started": ended + 3, "ended": ended + 3.01}]


def _programs(rng: Generator) -> list[tuple[str, list[dict], str]]:
    """Return programs: what is special about each, its stages, and the class of its busiest actor."""
    names = [str(name) for name in rng.permutation(NAMES)]
    unit = float(rng.uniform(0.8, 1.2))

    def stage(workers: int, batch: int = 1, birth: float = 1.0, slower: float = 1.0, **methods: float) -> dict:
        scaled = {method: seconds * unit for method, seconds in methods.items()}
        kind = {"workers": workers, "batch": batch, "birth": birth, "slower": slower}
        return kind | {"name": names.pop(), "methods": scaled}

    many = [stage(4, sample=2.4), stage(1, birth=60, cut=0.3), stage(1, prepare=1.0), stage(1, learn=0.25, report=0.2)]
    split = [stage(1, read=0.7), stage(1, fetch=0.5, update=0.5), stage(3, write=1.8)]
    batches = [stage(2, sample=2.0), stage(1, batch=6, score=0.6), stage(1, birth=60, write=0.2)]
    straggler = [stage(4, slower=4.0, sample=1.0), stage(1, prepare=0.7)]
    return [
        ("the stage with the most seconds in total has the most actors", many, many[2]["name"]),
        ("the busiest actor has two methods", split, split[1]["name"]),
        ("one stage takes six items per call, so its calls are the longest", batches, batches[0]["name"]),
        ("the first actor of a stage is slower than the others", straggler, straggler[0]["name"]),
    ]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "An actor runs one call at a time. Which actor is busy the longest if you add up all of its calls?",
        "Add up `ended - started` in a dict with `actor_id` as the key, and record each actor's class in another.",
        'The class is the part of the name before the dot: `call["name"].split(".")[0]`. Creating an actor isn\'t a call, so look at `kind`.',
    ],
    returns=str,
    spare=['            seconds[call["actor_id"]] = call["ended"] - call["started"]'],
)
def find_the_bottleneck(answer: Answer, rng: Generator) -> None:
    """A program can't finish before its busiest actor has done all of its calls, so that actor sets the pace."""
    # Long: the judge makes the records of four programs, call by call.
    for special, stages, slow in _programs(rng):
        calls = _one_more(_run(rng, stages, items=24), stages[0]["name"])
        sizes = ", ".join(f"{each['workers']} × {each['name']}" for each in stages)
        with answer.case(f"{len(calls)} records of a program with {sizes}: {special}"):
            got = answer(calls)
            births = {each["name"]: each["birth"] for each in stages}
            classes = ", ".join(births)
            expect(got in births, f"{got!r} is not one of the classes {classes}.")
            expect(
                births[got] < 10,
                f"{got} took long to create (its record of the kind 'actor_creation'), but its calls take fewer seconds than those of another actor.",
            )
            expect_equal(got, slow, f"{got} is not the class of the busiest actor.")


def _series(name: str, labels: dict[str, str], value: float) -> str:
    quoted = {key: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()}
    inside = ",".join(f'{key}="{text}"' for key, text in quoted.items())
    return f"{name}{{{inside}}} {value if value < 1e4 else f'{value:e}'}"


def _page(name: str, values: dict[str, float], rng: Generator) -> str:
    """Return a page as Ray's agent publishes it: the counter `name`, one series per worker (or worker/tag), among others."""
    stem, extra = name.removesuffix("_total"), float(rng.integers(10_000, 90_000))
    lines = [f"# HELP {name} What {name} counts, per worker.", f"# TYPE {name} counter"]
    for whose, value in values.items():
        worker, _, game = whose.partition("/")
        labels = {"WorkerId": worker, "Name": f'sample(seed={{{worker}}}, "a b") 17'} | ({"Game": game} if game else {})
        lines.append(_series(name, labels, value))
    lines += [f"# TYPE {name}_reward gauge", _series(f"{name}_reward", {"WorkerId": "w0"}, extra)]
    lines += [f"# TYPE {stem}_lost_total counter", _series(f"{stem}_lost_total", {"WorkerId": "w0"}, extra)]
    lines += [f"# TYPE {stem}_seconds histogram", _series(f"{stem}_seconds_bucket", {"le": "+Inf"}, extra)]
    lines += [_series(f"{stem}_seconds_sum", {}, extra * 2), _series(f"{stem}_seconds_count", {}, extra)]
    lines += ["# TYPE ray_resources gauge", _series("ray_resources", {"Name": "CPU", "State": "USED"}, 2.0)]
    return "\n".join(lines) + "\n"


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`text_string_to_metric_families(text)` yields families; a family has `samples`, and a sample has `name`, `labels`, and `value`.",
        "For each scrape, build a dict from the labels to the value; `tuple(sorted(sample.labels.items()))` can be a key.",
        "Go from each scrape to the next. A series that wasn't in the previous scrape started at 0, and one that has fallen was "
        "restarted at 0.",
    ],
    returns=float,
    spare=["            grown += value - last"],
)
def per_second(answer: Answer, rng: Generator) -> None:
    """Add up the growth of each series from scrape to scrape, and start from 0 after a restart."""
    # Long: six stories of a counter, and the pages on which Ray's agent would publish it among others.
    name = f"ray_{rng.choice(['sampled', 'learned', 'sent'])}_{rng.integers(100, 999)}_total"
    gaps = rng.permutation([2.0, 4.0, 5.0, 8.0])
    moments = [0.0, *gaps.cumsum().tolist()]
    begin = float(rng.uniform(1.7e9, 1.8e9))
    for story, scraped, grown in _stories(rng):
        pages = [[begin + moment, _page(name, each, rng)] for moment, each in zip(moments, scraped, strict=False)]
        values = [[moment, *each.values()] for moment, each in zip(moments, scraped, strict=False)]
        with answer.case(f"scrapes, each as its time in seconds and its values: {values}; {story}"):
            seconds, last = pages[-1][0] - begin, sum(scraped[-1].values())
            got = answer(pages, name)
            expect_close(
                got,
                grown / seconds,
                f"You returned {got:.6g}, but that isn't how much the counter grew per second.",
                rtol=1e-6,
                mistakes={
                    "You returned how much the counter grew in all, not how much it grew per second.": grown,
                    "You divided the last scrape's values by the seconds, but the counter wasn't at 0 in the first scrape.": last
                    / seconds,
                },
            )


def _stories(rng: Generator) -> list[tuple[str, list[dict], int]]:
    """Return what happened, the values of each worker (or worker/tag) in each scrape, and by how much they grew in all."""
    high, low, late = (int(number) for number in rng.integers([300, 40, 50], [900, 90, 120]))
    more, less = (int(number) for number in rng.integers(20, 40, size=2))
    steady = [high, high, high + less, high + less + more, high + less + 2 * more]
    grown = less + 2 * more
    again = [low + 200, low + 210, less, less + more, less + more + 5]  # its process restarted before the third
    newly: list[dict] = [{}, {}, {}, {"w9": late}, {"w9": late + more}]
    return [
        (
            "the page also has other metrics, and some of their names start with the same words",
            [{"w0": high}, {"w0": high + more}],
            more,
        ),
        (
            "the scrapes aren't evenly spaced, and between two of them, the worker counted nothing",
            [{"w0": value} for value in steady],
            grown,
        ),
        ("two workers count", [{"w0": value, "w1": value + less} for value in steady], 2 * grown),
        (
            "one worker counts two games, each with its own tag",
            [{"w0/pong": value, "w0/chess": value + less} for value in steady],
            2 * grown,
        ),
        (
            "a new worker adds its own series, which started at 0",
            [{"w0": value} | each for value, each in zip(steady, newly, strict=True)],
            grown + late + more,
        ),
        (
            "a process restarted, and its counter started at 0 again",
            [{"w0": a, "w1": b} for a, b in zip(steady, again, strict=True)],
            grown + 10 + less + more + 5,
        ),
    ]


OWN = ("train.py", "replay.py")
LIBRARY = (
    ("wait", "threading.py", 331),
    ("get_objects", "worker.py", 980),
    ("sleep", "clock.py", 12),
    ("put", "queue.py", 140),
)


def _stack(*own: tuple[str, str, int], inside: int = 0) -> list[dict]:
    """Return frames, the innermost first: some of a library, the program's own, and those of the worker that calls it."""
    frames = (*LIBRARY[:inside], *own, ("main_loop", "worker.py", 1012), ("<module>", "default_worker.py", 320))
    return [{"function": function, "file": file, "line": line} for function, file, line in frames]


def _programs_seen(rng: Generator) -> list[tuple[str, list[tuple[bool, list[dict]]], tuple[str, str]]]:
    """Return single processes: what is special about each, its samples (active, frames), and what is to be said about it."""
    names = rng.choice(["put", "score", "keep", "lookup", "merge", "pack", "share", "order"], size=4, replace=False)
    a, b, c, d = (str(name) for name in names)
    line = int(rng.integers(20, 200))

    def at(name: str, file: str = "replay.py", more: int = 0) -> tuple[str, str, int]:
        return (name, file, line + more)

    outer = at(d, "train.py")
    idle, nothing = (False, _stack(at(a), outer, inside=2)), (False, _stack(inside=1))
    hot = [(True, _stack(at(b, more=step % 3), outer)) for step in range(6)]
    hot += [(True, _stack(at(c, more=step), outer, inside=step % 3)) for step in range(4)]
    naps = [(False, _stack(at(b, more=9), outer, inside=3))] * 5 + [(False, _stack(at(c), outer, inside=3))] * 3
    lines = [(False, _stack(at(a, more=step), outer, inside=1)) for step in range(7)]
    deep = [(True, _stack(at(b), outer, inside=2))] * 4 + [(True, _stack(outer, inside=2))] * 3
    return [
        ("it computes, most often in one of its functions", hot, ("slow", b)),
        ("it computes nothing, and every stack is the same", [idle] * 8, ("waiting", a)),
        ("it waits in different functions of its own, always inside the same function of a library", naps, ("slow", b)),
        ("it waits in one function, on changing lines", lines, ("slow", a)),
        (
            "it computed in one of the samples, and all stacks are the same",
            [*[idle] * 3, (True, idle[1]), *[idle] * 3],
            ("slow", a),
        ),
        ("it computed in all of the samples, and all stacks are the same", [(True, idle[1])] * 6, ("slow", a)),
        ("most of the time, it's in a library that one of its own functions calls", deep, ("slow", b)),
        ("in most samples, none of its own functions is on the stack", [*[nothing] * 5, *hot[:3]], ("slow", b)),
    ]


def _chains(rng: Generator) -> list[tuple[str, list[str], dict[str, str], list[str]]]:
    """Return programs of several processes: what is special, which ones are slow, who waits for whom, and which ones hang."""
    a, b, c, d = (str(name) for name in rng.permutation(["actor", "buffer", "critic", "driver"]))
    return [
        ("the chain of waits ends at a process that works", [c], {a: b, b: c}, []),
        ("the chain of waits ends at a process that waits for something else", [], {a: b, b: c}, []),
        ("two processes wait for each other, and a third waits for one of them", [d], {a: b, b: c, c: b}, [a, b, c]),
        ("three processes wait in a circle, but one of them still moves", [a], {a: b, b: c, c: a}, []),
        ("one process waits for itself, and the others wait for nobody", [], {a: a}, [a]),
    ]


@exercise(
    points=4,
    minutes=20,
    hints=[
        "A process is slow if any sample is active, or if any stack differs from the first one, lines included.",
        "For the chain, use `while name in waits_for and not is_slow(name)`, go to `waits_for[name]`, and keep a set of the names that you've "
        "visited: if you come to one of them again, it's a circle.",
        "For the function, go through the frames of a sample from the front, and stop at the first one whose file is in `own`. "
        "`Counter(names).most_common(1)` has the name that comes up most often.",
    ],
    returns=dict,
)
def diagnose(answer: Answer, rng: Generator) -> None:
    """A waiting process hangs if its chain of waits runs into a circle, because then the result can never come."""
    # Long: eight processes whose stacks differ in kind, and five programs whose waits do.
    for special, seen, wanted in _programs_seen(rng):
        order = [0, *(1 + rng.permutation(len(seen) - 2)), len(seen) - 1]  # what is alone is neither first nor last
        samples = [{"active": seen[place][0], "frames": seen[place][1]} for place in order]
        with answer.case(
            f"{len(seen)} samples of one process, which waits for no other; own files {', '.join(OWN)}: {special}"
        ):
            got = answer({"worker": samples}, {}, list(OWN))
            verdict, function = _said_of("worker", got)
            expect_equal(verdict, wanted[0], f"{verdict!r} is not the verdict for these samples.")
            own = sorted({frame["function"] for _, frames in seen for frame in frames if frame["file"] in OWN})
            listed = ", ".join(own)
            expect(
                isinstance(function, str),
                f"As the function, you returned {function!r}; it should be the name of a function, a string.",
            )
            expect(function in own, f"{function!r} is not a function of the program's own files: {listed}.")
            expect_equal(
                function,
                wanted[1],
                f"{function!r} is a function of the program's own files. Among the innermost such functions, one from each sample, another one comes up more often.",
            )
    for special, moving, waits_for, hung in _chains(rng):
        names = [str(name) for name in rng.permutation(["actor", "buffer", "critic", "driver"])]
        shown = {
            name: [{"active": name in moving, "frames": _stack((name, OWN[1], 7), inside=1)}] * 3 for name in names
        }
        working = ", ".join(name for name in names if name in moving) or "nobody"
        with answer.case(f"processes {', '.join(names)}; computing: {working}; waits_for {waits_for}: {special}"):
            got = answer(shown, waits_for, list(OWN))
            for name in names:
                verdict, _ = _said_of(name, got)
                wanted_here = "slow" if name in moving else "hung" if name in hung else "waiting"
                expect_equal(verdict, wanted_here, f"{verdict!r} is not the verdict for {name}.")


def _said_of(name: str, got: dict) -> tuple:
    """Return what an answer says about a process: a verdict and a function."""
    listed = ", ".join(map(str, got)) or "nothing"
    expect(name in got, f"Your dict lacks the process {name}; it has {listed}.")
    said = got[name]
    expect(
        isinstance(said, tuple | list) and len(said) == 2,
        f"For {name}, you returned {said!r}, which isn't a pair (verdict, function).",
    )
    expect(said[0] in ("slow", "waiting", "hung"), f"{said[0]!r} is not one of the verdicts slow, waiting, hung.")
    return said[0], said[1]


WORDS = ("arguments", "actor", "nowhere", "queue", "locked")


def _cluster(rng: Generator) -> tuple[list[dict], list[dict], int, int]:
    """Return nodes, holders, and the numbers of CPUs and licenses of the largest node."""
    ids = {name: rng.bytes(6).hex() for name in ("large", "small", "gpu", "dead")}
    cpus, licenses = int(rng.integers(4, 9)), int(rng.integers(2, 5))
    resources = {
        "large": {"CPU": cpus, "license": licenses},
        "small": {"CPU": cpus - 1, "camera": 1},
        "gpu": {"CPU": 1, "GPU": 2},
        "dead": {"CPU": cpus, "license": licenses, "robot": 8},  # it would have room
    }
    nodes = [{"id": ids[name], "alive": name != "dead", "resources": each} for name, each in resources.items()]
    holders = [
        {"who": "train", "node": ids["large"], "holds": {"CPU": cpus - 2}, "doing": "works"},
        {"who": "Coach", "node": ids["large"], "holds": {"license": licenses - 1}, "doing": "waits"},
        {"who": "Old", "node": ids["small"], "holds": {"CPU": 1.5, "camera": 0.5}, "doing": "idle"},
        {"who": "Old", "node": ids["small"], "holds": {"CPU": 0.5, "camera": 0.25}, "doing": "idle"},
        {"who": "step", "node": ids["small"], "holds": {"CPU": cpus - 3}, "doing": "works"},
        {"who": "Server", "node": ids["gpu"], "holds": {"GPU": 1, "CPU": 1}, "doing": "waits"},
        {"who": "render", "node": ids["gpu"], "holds": {"GPU": 1}, "doing": "works"},
    ]
    return nodes, holders, cpus, licenses


def _pending(cpus: int, licenses: int) -> list[tuple[str, str, dict, bool, str]]:
    """Return tasks: what is special about each, its state, its request, whether it is an actor call, and the right word."""
    waits, early = "PENDING_NODE_ASSIGNMENT", "PENDING_ARGS_AVAIL"
    return [
        ("its arguments don't exist yet, and it would fit", early, {"CPU": 1}, False, "arguments"),
        ("its arguments don't exist yet, so no node matters so far", early, {"CPU": 99}, False, "arguments"),
        ("its arguments don't exist yet, so it hasn't reached the actor", early, {}, True, "arguments"),
        ("it's a call to an actor", "SUBMITTED_TO_WORKER", {}, True, "actor"),
        ("it's a call to an actor that hasn't started", waits, {}, True, "actor"),
        ("only a dead node has a robot", waits, {"robot": 1}, False, "nowhere"),
        ("only all nodes together have enough CPUs", waits, {"CPU": cpus + 1}, False, "nowhere"),
        ("no node has both", waits, {"GPU": 1, "license": 1}, False, "nowhere"),
        ("it fits once holders that work have finished", waits, {"CPU": cpus}, False, "queue"),
        ("a fraction of a CPU is enough", waits, {"CPU": 0.5}, False, "queue"),
        ("what the waiting holders leave free is exactly enough", waits, {"GPU": 1}, False, "queue"),
        ("what the idle actors leave free is exactly enough", waits, {"camera": 0.25}, False, "queue"),
        ("idle actors hold what's missing, and nothing stops them", waits, {"camera": 0.5}, False, "locked"),
        ("a waiting holder has all licenses but one, and one license is enough", waits, {"license": 1}, False, "queue"),
        ("a holder that waits has what's missing", waits, {"license": licenses}, False, "locked"),
        (
            "a holder that waits has one of the two resources, and the other is free",
            waits,
            {"CPU": 1, "GPU": 1},
            False,
            "locked",
        ),
        ("it asks for both GPUs, and a holder that waits has one", waits, {"GPU": 2}, False, "locked"),
    ]


def _row(rng: Generator, state: str, asks: dict, is_call: bool) -> dict:
    actor = rng.bytes(6).hex() if is_call else None
    return {"id": rng.bytes(6).hex(), "name": "t", "state": state, "asks": asks, "actor": actor}


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Ask four questions in this order. Does it wait for arguments? Is it an actor call? Would it fit on some empty live node? And "
        "would it fit there once all holders that work have finished?",
        "For the last question, take the node's resources, and subtract what its idle and waiting holders hold.",
        "All resources must fit on the same node: `any(all(... for name, amount in asks.items()) for node in live)`.",
    ],
    returns=dict,
    spare=['        return any(room.get(name, 0) >= amount for name, amount in task["asks"].items())'],
)
def explain_pending(answer: Answer, rng: Generator) -> None:
    """Look at the arguments, then at the actor, then at empty nodes, and then at nodes whose working holders have finished."""
    # Long: a cluster with seventeen pending tasks, each of them PENDING for a reason of its own.
    nodes, holders, cpus, licenses = _cluster(rng)
    cases = [
        (special, _row(rng, state, asks, is_call), word)
        for special, state, asks, is_call, word in _pending(cpus, licenses)
    ]
    running = [_row(rng, "RUNNING", {"CPU": 1}, False) for _ in range(2)]
    tasks = [row for _, row, _ in cases] + running
    shuffled = [[each[place] for place in rng.permutation(len(each))] for each in (tasks, nodes, holders)]
    with answer.case(f"{len(tasks)} tasks, {len(nodes)} nodes, {len(holders)} holders"):
        got = answer(*shuffled)
        expect(
            not any(row["id"] in got for row in running),
            "Your dict has a word for a task that is RUNNING. Only the other tasks get one.",
        )
        extra = [each for each in got if each not in {row["id"] for row in tasks}][:3]
        expect(not extra, f"Your dict has words for tasks that don't exist: {extra}.")
    for special, row, word in cases:
        with answer.case(f"{_told(row)}: {special}; {_where(nodes, holders)}"):
            _judge_word(answer, got, row, word)


def _judge_word(answer: Answer, got: dict, row: dict, word: str) -> None:
    said = got.get(row["id"])
    answer.got = repr(said) if row["id"] in got else ""
    expect(row["id"] in got, f"Your dict has no word for a task in the state {row['state']}.")
    is_word, words = isinstance(said, str) and said in WORDS, ", ".join(WORDS)
    expect(is_word, f"{said!r} is not one of the words {words}.")
    expect(said != "actor" or row["actor"], "This task isn't a call to an actor: its `actor` is None.")
    expect(
        said != "arguments" or word == said, f"This task doesn't wait for its arguments: its state is {row['state']}."
    )
    expect_equal(said, word, f"Of the table's rows that fit this task, the first one has another word than {said!r}.")


def _told(row: dict) -> str:
    kind = "a call to an actor" if row["actor"] else "a task"
    return f"{kind} in the state {row['state']} that requests {row['asks'] or 'nothing'}"


def _where(nodes: list[dict], holders: list[dict]) -> str:
    live, dead = (
        ", ".join(f"{node['id'][:4]} {node['resources']}" for node in nodes if node["alive"] is alive)
        for alive in (True, False)
    )
    held = ", ".join(f"{each['node'][:4]} {each['holds']} by a holder that {_verb(each)}" for each in holders)
    return f"live nodes: {live}; dead: {dead}; held: {held}"


def _verb(holder: dict) -> str:
    return "is idle" if holder["doing"] == "idle" else holder["doing"]


question(
    "which_stage",
    """
    Each of three samplers takes 0.3 s for a fragment, one preparer takes 0.12 s, and one learner takes 0.05 s. All of them work at the same time. What do you fix first?

    a) The samplers, because their calls are the longest.
        Together, the three samplers finish a fragment every 0.1 s, so they aren't the slowest stage.
    *b) The preparer.
        Right: it takes 0.12 s per fragment, and the samplers together deliver one every 0.1 s, so fragments pile up in front of it.
    c) All three, a little.
        Whatever you save in the other two stages turns into waiting, because the program is as fast as its slowest stage.
    """,
)

question(
    "what_idle_costs",
    """
    An actor with `num_cpus=1` does nothing all night, in a cluster that you pay for by the hour. What does it cost?

    a) Nothing, because it doesn't compute.
        Its CPU is reserved, so no other task gets it, and no autoscaler removes the node.
    *b) As much as an actor that computes all night.
        Right: you pay for what is reserved. Stop an idle actor, or let it reserve less.
    c) Only its memory.
        It costs its memory, too. But its CPU also stays reserved until the actor exits, and you keep paying for the node.
    """,
)

question(
    "nothing_pending",
    """
    A program makes no progress. `ray status` shows free CPUs and no pending demands. What do you conclude?

    a) It isn't hung, only slow.
        It may be slow, if a call that reserves no CPU is computing, but `ray status` can't tell you: it shows what is reserved, not what runs.
    b) The cluster needs another node.
        Then `ray status` would list the waiting request under the pending demands.
    *c) It isn't waiting for a resource, so look at the running calls and their stacks.
        Right: a call that waits in `ray.get`, for example for an actor that waits for it, requests nothing that a node could give it.
    """,
)
