"""The judge's side of chapter 19."""

from typing import Any

from numpy.random import Generator

from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_close, expect_equal

NAMES = ("Reader", "Simulator", "Cutter", "Judge", "Packer", "Mixer", "Filter", "Scorer", "Writer", "Trainer")


def _run(rng: Generator, stages: list[dict], items: int) -> list[dict]:
    """Return the records of a program whose items pass through stages of actors, each with `workers` and `methods` (seconds by name).

    A stage takes items in order, `batch` of them at a time, on the worker that is free first.
    """
    calls, ready = [], [0.0] * items
    start = 1.7e9 + float(rng.uniform(0, 1e6))
    for stage in stages:
        free = {rng.bytes(8).hex(): 0.0 for _ in range(stage["workers"])}
        pids = {worker: int(rng.integers(1000, 60_000)) for worker in free}
        for worker in free:
            created = {
                "kind": "actor_creation",
                "created": start - 60,
                "started": start - 50,
                "ended": start - 50 + stage["birth"],
            }
            calls.append(_call(stage, "__init__", worker, pids[worker]) | created)
        for first in range(0, items, stage["batch"]):
            members = range(first, min(first + stage["batch"], items))
            worker = min(free, key=free.__getitem__)
            now = max(free[worker], *(ready[item] for item in members))
            for method, seconds in stage["methods"].items():
                took = seconds * len(members) * float(rng.uniform(0.97, 1.03))
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


def _programs(rng: Generator) -> list[tuple[str, list[dict], str]]:
    """Return programs: what is special about each, its stages, and the name of the one that limits it."""
    names = [str(name) for name in rng.choice(NAMES, size=10, replace=False)]
    unit = float(rng.uniform(0.8, 1.2))

    def stage(name: str, workers: int, batch: int = 1, birth: float = 1.0, **methods: float) -> dict:
        scaled = {method: seconds * unit for method, seconds in methods.items()}
        return {"name": name, "workers": workers, "batch": batch, "birth": birth, "methods": scaled}

    a, b, c, d = names[:4]
    many = [
        stage(a, 4, play=2.4),
        stage(b, 1, birth=25, cut=0.3),
        stage(c, 1, prepare=1.0),
        stage(d, 1, learn=0.25, tell=0.2),
    ]
    e, f, g = names[4:7]
    split = [stage(e, 1, read=0.7), stage(f, 1, fetch=0.5, update=0.5), stage(g, 3, write=1.8)]
    h, i, j = names[7:]
    batches = [stage(h, 2, play=2.0), stage(i, 1, batch=6, score=0.6), stage(j, 1, birth=25, write=0.2)]
    return [
        ("the stage with the most seconds has the most actors to share them", many, c),
        ("the stage that limits has two methods, and each of its actors does both", split, f),
        ("one stage takes six items in a call, so its calls are the longest", batches, h),
    ]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Four actors of a class that work two seconds each are done after two seconds. How busy is one actor of each class?",
        "Add up `ended - started` for each class, count the different `actor_id`s of each, and divide.",
        'The class is the part of the name before the dot: `call["name"].split(".")[0]`. Creating an actor is not a call: look at `kind`.',
    ],
    returns=str,
)
def find_the_bottleneck(answer: Answer, rng: Generator) -> None:
    """The busiest actor sets the pace: seconds in calls, divided by the number of actors that share them."""
    # Long: the judge makes the records of three programs, call by call.
    for special, stages, slow in _programs(rng):
        calls = _run(rng, stages, items=24)
        sizes = ", ".join(f"{each['workers']} × {each['name']}" for each in stages)
        with answer.case(f"{len(calls)} records of a program with {sizes}: {special}"):
            got = answer(calls)
            births = {each["name"]: each["birth"] for each in stages}
            classes = ", ".join(births)
            expect(got in births, f"{got!r} is not one of the classes {classes}.")
            expect(
                births[got] < 10,
                f"{got} took long to be made (its record of the kind 'actor_creation'), and has little to do in calls.",
            )
            expect_equal(got, slow, f"{got} is not the stage that sets the pace.")


def _series(name: str, labels: dict[str, str], value: float) -> str:
    quoted = {key: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()}
    inside = ",".join(f'{key}="{text}"' for key, text in quoted.items())
    return f"{name}{{{inside}}} {value if value < 1e4 else f'{value:e}'}"


def _page(name: str, values: dict[str, float], rng: Generator) -> str:
    """Return a page as Ray's agent shows it: the counter `name`, one series for each worker (or worker/tag), among others."""
    stem, extra = name.removesuffix("_total"), float(rng.integers(10_000, 90_000))
    lines = [f"# HELP {name} What {name} counts, by worker.", f"# TYPE {name} counter"]
    for whose, value in values.items():
        worker, _, game = whose.partition("/")
        labels = {"WorkerId": worker, "Name": f'play(seed={{{worker}}}, "a b") 17'} | ({"Game": game} if game else {})
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
        "`text_string_to_metric_families(text)` gives families; a family has `samples`, and a sample `name`, `labels` and `value`.",
        "Keep a dict for each scrape, from the labels to the value: `tuple(sorted(sample.labels.items()))` can be a key.",
        "Go from one scrape to the next. A series that was not there before started at 0; one that has become smaller started "
        "again at 0.",
    ],
    returns=float,
)
def per_second(answer: Answer, rng: Generator) -> None:
    """A counter's growth is what counts: series by series, from scrape to scrape, and from 0 after a new start."""
    # Long: six stories of a counter, and the pages on which Ray's agent would show it among others.
    name = f"ray_{rng.choice(['played', 'learned', 'sent'])}_{rng.integers(100, 999)}_total"
    gaps = rng.choice([2.0, 4.0, 5.0, 8.0], size=4)
    moments = [0.0, *gaps.cumsum().tolist()]
    begin = float(rng.uniform(1.7e9, 1.8e9))
    for story, scraped, grown in _stories(rng):
        pages = [[begin + moment, _page(name, each, rng)] for moment, each in zip(moments, scraped, strict=False)]
        values = [[moment, *each.values()] for moment, each in zip(moments, scraped, strict=False)]
        with answer.case(f"scrapes, each with its second and its values: {values}; {story}"):
            wanted = grown / (pages[-1][0] - begin)
            expect_close(answer(pages, name), wanted, "That is not how much the counter grew per second.", rtol=1e-6)


def _stories(rng: Generator) -> list[tuple[str, list[dict], int]]:
    """Return what happened, the values of each worker (or worker/tag) in each scrape, and by how much they grew in all."""
    high, low, late = (int(number) for number in rng.integers([300, 40, 50], [900, 90, 120]))
    more, less = (int(number) for number in rng.integers(20, 40, size=2))
    steady = [high, high, high + less, high + less + more, high + less + 2 * more]
    grown = less + 2 * more
    again = [low + 200, low + 210, less, less + more, less + more + 5]  # its process was started again before the third
    newly: list[dict] = [{}, {}, {}, {"w9": late}, {"w9": late + more}]
    return [
        (
            "the page has other metrics too, and some of their names begin alike",
            [{"w0": high}, {"w0": high + more}],
            more,
        ),
        ("between some scrapes the worker counted nothing", [{"w0": value} for value in steady], grown),
        ("two workers count", [{"w0": value, "w1": value + less} for value in steady], 2 * grown),
        (
            "one worker counts two games, which a tag tells apart",
            [{"w0/pong": value, "w0/chess": value + less} for value in steady],
            2 * grown,
        ),
        (
            "a new worker comes with a series of its own, which begins at 0",
            [{"w0": value} | each for value, each in zip(steady, newly, strict=True)],
            grown + late + more,
        ),
        (
            "a process was started again, and its counter began at 0 once more",
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
    """Return programs: what is special about each, its samples (active, frames), and what is to be said of it."""
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
        ("it computes nothing, and every stack is the same", [idle] * 8, ("hung", a)),
        ("it waits, now in one place and now in another, always in the same function of a library", naps, ("slow", b)),
        ("it waits in one function, whose lines change", lines, ("slow", a)),
        ("it computed in one of the samples, and all stacks are the same", [idle] * 6 + [(True, idle[1])], ("slow", a)),
        ("it computed in all of the samples, and all stacks are the same", [(True, idle[1])] * 6, ("slow", a)),
        ("it works for a library most of the time, and one function of its own calls that", deep, ("slow", b)),
        ("in most samples none of its own functions is running", [*[nothing] * 5, *hot[:3]], ("slow", b)),
    ]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "A hang is two things at once: nothing is computed in any sample, and all stacks are the same, with lines and all.",
        "For the function, walk through the frames of a sample from the front, and stop at the first whose file is in `own`.",
        "`Counter(names).most_common(1)` has the function that came most often; a sample without a frame of yours gives no name.",
    ],
    returns=tuple[str, Any],
)
def diagnose(answer: Answer, rng: Generator) -> None:
    """Where it stands says little; that it stands still, and computes nothing, says that it hangs."""
    for special, samples, wanted in _programs_seen(rng):
        order = rng.permutation(len(samples))
        seen = [{"active": samples[place][0], "frames": samples[place][1]} for place in order]
        with answer.case(f"{len(seen)} samples of a program, own files {', '.join(OWN)}: {special}"):
            verdict, function = answer(seen, list(OWN))
            expect(verdict in ("slow", "hung"), f"{verdict!r} is not one of the verdicts slow, hung.")
            expect_equal(verdict, wanted[0], f"{verdict!r} is not the verdict for these samples.")
            own = sorted({frame["function"] for each in seen for frame in each["frames"] if frame["file"] in OWN})
            is_own, listed = isinstance(function, str) and function in own, ", ".join(own)
            expect(is_own, f"{function!r} is not a function of the program's own files: {listed}.")
            expect_equal(function, wanted[1], f"{function!r} is not where the program was most often.")


WORDS = ("arguments", "actor", "nowhere", "queue", "locked")


def _cluster(rng: Generator) -> tuple[list[dict], list[dict], int, int]:
    """Return nodes, holders, the largest node's number of CPUs, and its number of licences."""
    ids = {name: rng.bytes(6).hex() for name in ("large", "small", "gpu", "dead")}
    cpus, licences = int(rng.integers(4, 9)), int(rng.integers(2, 5))
    resources = {
        "large": {"CPU": cpus, "licence": licences},
        "small": {"CPU": cpus - 1, "camera": 1},
        "gpu": {"CPU": 1, "GPU": 2},
        "dead": {"CPU": 1, "robot": 8},
    }
    nodes = [{"id": ids[name], "alive": name != "dead", "resources": each} for name, each in resources.items()]
    holders = [
        {"who": "train", "node": ids["large"], "holds": {"CPU": cpus - 2}, "doing": "works"},
        {"who": "Coach", "node": ids["large"], "holds": {"licence": licences - 1}, "doing": "waits"},
        {"who": "Old", "node": ids["small"], "holds": {"CPU": 1.5, "camera": 0.5}, "doing": "idle"},
        {"who": "Old", "node": ids["small"], "holds": {"CPU": 0.5, "camera": 0.25}, "doing": "idle"},
        {"who": "step", "node": ids["small"], "holds": {"CPU": cpus - 3}, "doing": "works"},
        {"who": "Server", "node": ids["gpu"], "holds": {"GPU": 1, "CPU": 1}, "doing": "waits"},
        {"who": "render", "node": ids["gpu"], "holds": {"GPU": 1}, "doing": "works"},
    ]
    return nodes, holders, cpus, licences


def _pending(cpus: int, licences: int) -> list[tuple[str, str, dict, bool, str]]:
    """Return tasks: what is special about each, its state, what it asks for, whether it is a call to an actor, and the right word."""
    waits, early = "PENDING_NODE_ASSIGNMENT", "PENDING_ARGS_AVAIL"
    return [
        ("its arguments are not there yet, and it would fit", early, {"CPU": 1}, False, "arguments"),
        ("its arguments are not there yet; no node matters before", early, {"CPU": 99}, False, "arguments"),
        ("its arguments are not there yet: it has not reached the actor", early, {}, True, "arguments"),
        ("it is a call to an actor", "SUBMITTED_TO_WORKER", {}, True, "actor"),
        ("it is a call to an actor that is not there yet", waits, {}, True, "actor"),
        ("only a dead node has a robot", waits, {"robot": 1}, False, "nowhere"),
        ("only all nodes together have enough CPUs", waits, {"CPU": cpus + 1}, False, "nowhere"),
        ("no node has both", waits, {"GPU": 1, "licence": 1}, False, "nowhere"),
        ("it fits where only holders that work must end", waits, {"CPU": cpus}, False, "queue"),
        ("a part of a CPU is enough", waits, {"CPU": 0.5}, False, "queue"),
        ("what is left beside holders that wait is just enough", waits, {"GPU": 1}, False, "queue"),
        ("beside what idle actors hold, just enough is left", waits, {"camera": 0.25}, False, "queue"),
        ("idle actors hold what it lacks, and nothing ends them", waits, {"camera": 0.5}, False, "locked"),
        ("a holder that waits has all licences but one", waits, {"licence": 1}, False, "queue"),
        ("a holder that waits has what it lacks", waits, {"licence": licences}, False, "locked"),
        (
            "a holder that waits has one resource of the two, the other is free",
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
        "Four questions, in this order: does it wait for arguments? Is it a call to an actor? Would it fit on some empty living node? And "
        "would it fit there once all holders that work have ended?",
        "For the last question, take the node's resources and subtract what its idle and waiting holders keep.",
        "All resources must fit on the same node: `any(all(... for name, amount in asks.items()) for node in living)`.",
    ],
    returns=dict,
)
def explain_pending(answer: Answer, rng: Generator) -> None:
    """Look at arguments, then at the actor; then at empty nodes; then at nodes where the holders that work have ended."""
    # Long: a cluster with seventeen pending tasks, each of which is PENDING for another reason.
    nodes, holders, cpus, licences = _cluster(rng)
    cases = [
        (special, _row(rng, state, asks, is_call), word)
        for special, state, asks, is_call, word in _pending(cpus, licences)
    ]
    running = [_row(rng, "RUNNING", {"CPU": 1}, False) for _ in range(2)]
    tasks = [row for _, row, _ in cases] + running
    shuffled = [[each[place] for place in rng.permutation(len(each))] for each in (tasks, nodes, holders)]
    with answer.case(f"{len(tasks)} tasks, {len(nodes)} nodes, {len(holders)} holders"):
        got = answer(*shuffled)
        expect(
            not any(row["id"] in got for row in running),
            "There is a word for a task that is RUNNING. Only the other tasks should have one.",
        )
        extra = [each for each in got if each not in {row["id"] for row in tasks}][:3]
        expect(not extra, f"There are words for tasks that do not exist: {extra}.")
    for special, row, word in cases:
        with answer.case(f"{_told(row)}: {special}; {_where(nodes, holders)}"):
            _judge_word(answer, got, row, word)


def _judge_word(answer: Answer, got: dict, row: dict, word: str) -> None:
    said = got.get(row["id"])
    answer.got = repr(said) if row["id"] in got else ""
    expect(row["id"] in got, f"There is no word for a task in the state {row['state']}.")
    is_word, words = isinstance(said, str) and said in WORDS, ", ".join(WORDS)
    expect(is_word, f"{said!r} is not one of the words {words}.")
    expect(said != "actor" or row["actor"], "It is not a call to an actor: its `actor` is None.")
    expect(said != "arguments" or word == said, f"It does not wait for its arguments: its state is {row['state']}.")
    expect_equal(said, word, f"{said!r} is not what this task waits for.")


def _told(row: dict) -> str:
    kind = "a call to an actor" if row["actor"] else "a task"
    return f"{kind} in the state {row['state']} that asks for {row['asks'] or 'nothing'}"


def _where(nodes: list[dict], holders: list[dict]) -> str:
    living, dead = (
        ", ".join(f"{node['id'][:4]} {node['resources']}" for node in nodes if node["alive"] is alive)
        for alive in (True, False)
    )
    held = ", ".join(f"{each['node'][:4]} {each['holds']} by one that {_verb(each)}" for each in holders)
    return f"living nodes: {living}; dead: {dead}; held: {held}"


def _verb(holder: dict) -> str:
    return "is idle" if holder["doing"] == "idle" else holder["doing"]


question(
    "which_stage",
    """
    Three samplers need 0.3 s each for a fragment, one preparer 0.12 s, one learner 0.05 s. All work side by side. What do you fix first?

    a) The sampler: its calls are the longest.
        Three of them finish a fragment every 0.1 s between them.
    *b) The preparer.
        Right: it can take one fragment every 0.12 s, the samplers together bring one every 0.1 s, and the learner waits.
    c) All three a little.
        Whatever you save in the other two turns into waiting: the program is as fast as its slowest stage.
    """,
)

question(
    "what_idle_costs",
    """
    An actor with `num_cpus=1` sleeps all night in a cluster that you pay by the hour. What does it cost?

    a) Nothing: it does not compute.
        Its CPU is reserved, so no other task gets it, and no autoscaler gives the node back.
    *b) As much as one that computes all night.
        Right: you pay for what is reserved. End an idle actor, or let it reserve less.
    c) Only its memory.
        Memory too; but its CPU stays reserved until the actor ends, and the node stays rented.
    """,
)

question(
    "nothing_pending",
    """
    A program hangs. `ray status` shows free CPUs and no pending demands. What follows?

    a) It is not hung, only slow.
        Perhaps; but an idle cluster with work left to do is not slow, it waits.
    b) A node is missing.
        Then `ray status` would list the waiting request under the pending demands.
    *c) What it waits for is no resource: look at the calls that are running, and at their stacks.
        Right: a call that waits in `ray.get` for an actor that waits for it asks for nothing that a node could give.
    """,
)
