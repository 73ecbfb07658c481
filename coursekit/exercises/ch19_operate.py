"""The judge's side of chapter 19."""

from typing import Any

from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch19_operate as given

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
        ("The stage with the most seconds has the most actors to share them.", many, c),
        ("The stage that limits has two methods, and each of its actors has to do both.", split, f),
        ("One stage takes six items in a call, so its calls are the longest.", batches, h),
    ]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Four actors of a class that work two seconds each are done after two seconds. How busy is *one* actor of each class?",
        "Add up `ended - started` for each class, count the different `actor_id`s of each, and divide.",
        'The class is the part of the name before the dot: `call["name"].split(".")[0]`. Being born is not work: look at `kind`.',
    ],
)
def find_the_bottleneck(answer: Answer, rng: Generator) -> None:
    """The busiest actor sets the pace: seconds in calls, divided by the number of actors that share them."""
    for special, stages, slow in _programs(rng):
        calls = _run(rng, stages, items=24)
        got = answer(calls)
        known = [stage["name"] for stage in stages]
        answer.tried = f"find_the_bottleneck(the {len(calls)} records of a program with {', '.join(known)})"
        expect(isinstance(got, str), f"The name of a class was asked for, as text; {type(got).__name__} came back.")
        expect(got in known, f"{got!r} is none of the classes {', '.join(known)}.")
        busy = {each["name"]: f"{each['workers']} × {each['name']}" for each in stages}
        born = [each["name"] for each in stages if each["birth"] > 10]
        if got in born:
            special = (
                f"{got} took long to be made (its record of the kind 'actor_creation'), and has little to do in calls."
            )
        expect_equal(
            got, slow, f"{special} The program has {', '.join(busy.values())}; {got} is not what the others wait for."
        )


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
)
def per_second(answer: Answer, rng: Generator) -> None:
    """A counter's growth is what counts: series by series, from scrape to scrape, and from 0 after a new start."""
    name = f"ray_{rng.choice(['played', 'learned', 'sent'])}_{rng.integers(100, 999)}_total"
    begin, gaps = float(rng.uniform(1.7e9, 1.8e9)), rng.choice([2.0, 4.0, 5.0, 8.0], size=4)
    times = [begin, *(begin + gaps.cumsum()).tolist()]
    high, low, late = (int(number) for number in rng.integers([300, 40, 50], [900, 90, 120]))
    more, less = (int(number) for number in rng.integers(20, 40, size=2))
    steady = [high, high, high + less, high + less + more, high + less + 2 * more]
    again = [low + 200, low + 210, less, less + more, less + more + 5]  # its process was started again before the third
    newly = [None, None, None, late, late + more]
    stories: dict[str, tuple[list, float]] = {
        "One worker, two scrapes; the page has other metrics too, and some of their names begin alike.": (
            [{"w0": high}, {"w0": high + more}],
            more,
        ),
        "One worker; between some scrapes it counted nothing.": ([{"w0": value} for value in steady], less + 2 * more),
        "Two workers count; each has a series of its own.": (
            [{"w0": value, "w1": value + less} for value in steady],
            2 * (less + 2 * more),
        ),
        "One worker counts two games: it has a series for each, and a tag tells them apart.": (
            [{"w0/pong": value, "w0/chess": value + less} for value in steady],
            2 * (less + 2 * more),
        ),
        "A worker that is new comes with a series of its own, which begins at 0.": (
            [{"w0": a} | ({} if b is None else {"w9": b}) for a, b in zip(steady, newly, strict=True)],
            less + 2 * more + late + more,
        ),
        "A process was started again: its counter began at 0 once more.": (
            [{"w0": a, "w1": b} for a, b in zip(steady, again, strict=True)],
            less + 2 * more + 10 + less + more + 5,
        ),
    }
    for story, (values, grown) in stories.items():
        pages = [[moment, _page(name, each, rng)] for moment, each in zip(times, values, strict=False)]
        got = answer(pages, name)
        seen = [
            [round(moment - begin, 1), list(each.values())] for (moment, _), each in zip(pages, values, strict=True)
        ]
        answer.tried = f"per_second({len(pages)} scrapes, {name!r}); seconds and values: {seen}"
        expect(isinstance(got, int | float), f"{story} A number was asked for; {type(got).__name__} came back.")
        expect_close(
            got, grown / (pages[-1][0] - begin), f"{story} That is not how much it grew in a second.", rtol=1e-6
        )


WORDS = ("arguments", "actor", "nowhere", "queue", "locked")


def _cluster(rng: Generator) -> tuple[list[dict], list[dict], list[tuple[str, dict, str]]]:
    """Return nodes, holders, and the pending tasks: what is special, the row, and the right word."""
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
    wait = "PENDING_NODE_ASSIGNMENT"
    cases = [
        ("Its arguments are not there yet, and it would fit.", ("PENDING_ARGS_AVAIL", {"CPU": 1}, False), "arguments"),
        (
            "Its arguments are not there yet; no node matters before.",
            ("PENDING_ARGS_AVAIL", {"CPU": 99}, False),
            "arguments",
        ),
        (
            "Its arguments are not there yet: it has not reached the actor.",
            ("PENDING_ARGS_AVAIL", {}, True),
            "arguments",
        ),
        ("It is a call to an actor.", ("SUBMITTED_TO_WORKER", {}, True), "actor"),
        ("It is a call to an actor that is not there yet.", (wait, {}, True), "actor"),
        ("Only a dead node has a robot.", (wait, {"robot": 1}, False), "nowhere"),
        ("Only all nodes together have so many CPUs.", (wait, {"CPU": cpus + 1}, False), "nowhere"),
        ("No node has both.", (wait, {"GPU": 1, "licence": 1}, False), "nowhere"),
        ("It fits where only those who work must end.", (wait, {"CPU": cpus}, False), "queue"),
        ("A part of a CPU is enough.", (wait, {"CPU": 0.5}, False), "queue"),
        ("What is left beside those who wait is just enough.", (wait, {"GPU": 1}, False), "queue"),
        ("Beside what idle actors hold, just enough is left.", (wait, {"camera": 0.25}, False), "queue"),
        ("Idle actors hold what it lacks, and nobody ends them.", (wait, {"camera": 0.5}, False), "locked"),
        ("One who waits holds all licences but one.", (wait, {"licence": 1}, False), "queue"),
        ("One who waits holds what it lacks.", (wait, {"licence": licences}, False), "locked"),
        (
            "One who waits holds a part, and only one resource of the two is free.",
            (wait, {"CPU": 1, "GPU": 1}, False),
            "locked",
        ),
        ("Both GPUs are asked for, and one belongs to somebody who waits.", (wait, {"GPU": 2}, False), "locked"),
    ]
    rows = []
    for special, (state, asks, is_call), word in cases:
        actor = rng.bytes(6).hex() if is_call else None
        rows.append(
            (special, {"id": rng.bytes(6).hex(), "name": "t", "state": state, "asks": asks, "actor": actor}, word)
        )
    return nodes, holders, rows


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Four questions, in this order: does it wait for arguments? Is it a call to an actor? Would it fit on some empty living node? And "
        "would it fit there once all who work have ended?",
        "For the last question, take the node's resources and subtract what those of its holders keep that are idle or wait.",
        "All resources must fit on the same node: `any(all(... for name, amount in asks.items()) for node in living)`.",
    ],
)
def explain_pending(answer: Answer, rng: Generator) -> None:
    """Ask for arguments, then for the actor; then compare with empty nodes; then with nodes where only those who work have ended."""
    nodes, holders, rows = _cluster(rng)
    others = [
        {"id": rng.bytes(6).hex(), "name": "t", "state": state, "asks": {"CPU": 1}, "actor": None}
        for state in ("RUNNING", "RUNNING")
    ]
    tasks = [row for _, row, _ in rows] + others
    tasks = [tasks[place] for place in rng.permutation(len(tasks))]
    nodes, holders = ([each[place] for place in rng.permutation(len(each))] for each in (nodes, holders))
    got = answer(tasks, nodes, holders)
    answer.tried = f"explain_pending({len(tasks)} tasks, {len(nodes)} nodes, {len(holders)} holders)"
    expect(isinstance(got, dict), f"A dict from task ids to words was asked for; {type(got).__name__} came back.")
    running = [row["id"] for row in others if row["id"] in got]
    expect(not running, "There is a word for a task that is RUNNING: only those that are not should have one.")
    for special, row, word in rows:
        said = got.get(row["id"])
        answer.got = f"{said!r} for the task {_told(row)}"
        expect(row["id"] in got, f"There is no word for a task in the state {row['state']}.")
        expect(said in WORDS, f"{said!r} is none of the words {', '.join(WORDS)}.")
        expect(said != "actor" or row["actor"], "It is no call to an actor: its `actor` is None.")
        expect(said != "arguments" or word == said, f"It does not wait for its arguments: its state is {row['state']}.")
        where = f"The living nodes: {_nodes(nodes, True)}; dead: {_nodes(nodes, False)}.\nHeld: {_held(holders)}."
        expect_equal(said, word, f"{special}\n{where}")
    extra = [each for each in got if each not in {row["id"] for row in tasks}]
    expect(not extra, f"There are words for tasks that do not exist: {extra[:3]}.")


def _told(row: dict) -> str:
    kind = "a call to an actor" if row["actor"] else "a task"
    return f"in state {row['state']}, {kind}, asks for {row['asks'] or 'nothing'}"


def _nodes(nodes: list[dict], alive: bool) -> str:
    return ", ".join(f"{node['id'][:4]} {node['resources']}" for node in nodes if node["alive"] == alive)


def _held(holders: list[dict]) -> str:
    return ", ".join(f"{each['node'][:4]} {each['holds']} by one who {_verb(each)}" for each in holders)


def _verb(holder: dict) -> str:
    return "is idle" if holder["doing"] == "idle" else holder["doing"]


@exercise(
    points=5,
    minutes=20,
    hints=[
        "One file for each step of each run, named after both. Is it there? Then its value is the step's, and the function is not called.",
        "Write to another name, close the file, then `os.replace(new, path)`: a file that has its right name is always whole.",
        "The key must be the same at every attempt, and another one for every step and every run: what do you know that is so?",
        "A result may be None, 0 or an empty list. Ask whether the file exists, not what the value is worth.",
    ],
)
def durable_pipeline(answer: Answer, rng: Generator) -> None:
    """A result that has its final name is whole and never computed again; a key made of run and step makes a repeated effect harmless."""
    first, last = rng.integers(100, 1000, size=2).tolist()
    returns: list[Any] = [{"fragments": [first, 7]}, None, 0, [], f"report {last}"]
    run, other = (f"night{number}" for number in rng.choice(range(100, 1000), size=2, replace=False))
    plain = [{"run": each, "folder": "shared", "kill": 0} for each in (run, run, other)]
    before, after = ([run[-1] + name for name in _steps(returns)], [name + run[0] for name in _steps(returns)])
    alike = [plain[0] | {"run": run[:-1], "names": before}, plain[0] | {"run": run[1:], "names": after}]
    broken = {"run": run, "folder": "broken", "kill": 0}
    raising = [broken | {"fails": "s3"}, broken | {"new_python": True}]
    seen = _rehearsed(answer, plain + alike + raising, returns)
    _judge_calm(seen[:3], returns)
    for end, names in zip(seen[3:5], (before, after), strict=True):
        _judge_alike(end, names, run)
    _judge_error(seen[5:], returns)
    deaths = [
        {"run": run, "folder": "deaths", "kill": 0, "repeat": True, "fresh": True},
        {"run": other, "folder": "again", "kill": 0, "repeat": True},
    ]
    seen = _rehearsed(answer, deaths, returns)
    _judge_deaths([each for each in seen if each["run"] == run], returns)
    _judge_chain([each for each in seen if each["run"] == other], returns)


def _rehearsed(answer: Answer, plan: list[dict], returns: list) -> list[dict]:
    """Return what came of a plan, all of whose attempts have an end."""
    ends = answer.probe(given.rehearse, plan, returns)
    for end in ends:
        begun = [row[0] for row in end["begins"]]
        expect(end["end"] != "endless", f"A call had not ended after 30 s. The steps that it called: {begun[:20]}.")
        expect(
            end["end"] != "again",
            f"One call of the pipeline called the step {end['value']} more than {begun.count(end['value'])} times. "
            "In one call a step is called once at most; one that raises ends the call with its error.",
        )
    return ends


def _steps(returns: list) -> list[str]:
    return [f"s{place}" for place in range(len(returns))]


def _judge_value(end: dict, returns: list, what: str) -> None:
    expect(end["end"] != "error", f"{what} It ended with {end['value']}.")
    expect_equal(
        end["value"], returns[-1], f"{what} It returned {end['value']!r}; the last step returned {returns[-1]!r}."
    )


def _judge_inputs(begins: list, returns: list, what: str) -> None:
    """Each step gets what the one before has returned, also where that came from a file."""
    for step, value in begins:
        place = int(step[1:])
        before = returns[place - 1] if place else None
        expect_equal(
            value, before, f"{what} Step {place} was called with {value!r}; the step before it had returned {before!r}."
        )


def _judge_calm(ends: list[dict], returns: list) -> None:
    """Nobody dies: a run, the same run again, and another run in the same folder."""
    what = f"A run of {len(returns)} steps, which return {returns}; nobody was killed."
    one, again, other = ends
    _judge_value(one, returns, what)
    expect_equal(
        [row[0] for row in one["begins"]],
        _steps(returns),
        f"{what} The steps called were {[row[0] for row in one['begins']]}.",
    )
    _judge_inputs(one["begins"], returns, what)
    keys = [key for _, key in one["effects"]]
    expect(
        len(keys) == len(returns), f"{what} Only {len(keys)} of {len(returns)} effects happened: steps shared a key."
    )
    what = "The same run was called a second time, after it had finished."
    expect(not again["begins"], f"{what} It called {[row[0] for row in again['begins']]} once more.")
    _judge_value(again, returns, what)
    what = "Another run, with the same steps and the same folder, came after that."
    expect(
        other["begins"], f"{what} It called none of its steps: it took for its own what the other run had left there."
    )
    expect_equal(
        [row[0] for row in other["begins"]], _steps(returns), f"{what} It called {[row[0] for row in other['begins']]}."
    )
    expect_equal(
        [row[0] for row in other["effects"]],
        _steps(returns),
        f"{what} Only {len(other['effects'])} of {len(returns)} effects happened: the world had seen the other keys in the first run.",
    )
    _judge_value(other, returns, what)


def _judge_alike(end: dict, names: list[str], first: str) -> None:
    """The names of a run and its steps, written one after the other without a gap, may be those of another run and its steps."""
    what = (
        f"After a run {first} with the steps s0, s1, … came a run {end['run']} with the steps {names[0]}, {names[1]}, …"
    )
    begun, effects = ([row[0] for row in end[kind]] for kind in ("begins", "effects"))
    expect_equal(begun, names, f"{what} Of these it called {begun or 'none'}.")
    expect_equal(
        effects,
        names,
        f"{what} {len(effects)} of their {len(names)} effects happened: the world had seen the other keys before.",
    )


def _judge_error(ends: list[dict], returns: list) -> None:
    """A step that raises is not done: the caller hears of it, and the next call, in another process, goes on there."""
    failed, again = ends
    what = "The fourth step, s3, had its effect, and raised a ConnectionError."
    expect(failed["end"] == "error", f"{what} The pipeline returned {failed['value']!r} as if all were well.")
    expect("ConnectionError" in failed["value"], f"{what} What the caller saw was {failed['value']}.")
    begun = [row[0] for row in failed["begins"]]
    expect_equal(begun, _steps(returns)[:4], f"{what} The steps called were {begun}.")
    what += " Then the same run was called again by a Python that was started anew, and nothing failed."
    begun = [row[0] for row in again["begins"]]
    expect_equal(begun, _steps(returns)[3:], f"{what} The steps called were {begun}.")
    _judge_inputs(again["begins"], returns, what)
    _judge_value(again, returns, what)
    _judge_effects(ends, returns, what)


def _judge_deaths(ends: list[dict], returns: list) -> None:
    """Killed at every moment in turn: each time, one more call finishes the run, with every effect once."""
    expect(len(ends) >= 2 * len(returns) + 1, "Fewer deaths than steps: the pipeline did not call its steps.")
    for killed, after in zip(ends[:-1:2], ends[1::2], strict=True):
        what = f"The process was killed when it had just {killed['moment']}, and the run called again."
        _judge_value(after, returns, what)
        done = {row[0] for row in killed["begins"][:-1]}
        repeated = [row[0] for row in after["begins"] if row[0] in done]
        expect(not repeated, f"{what} {', '.join(repeated)} had ended before, and was called again.")
        _judge_inputs(after["begins"], returns, what)
        _judge_effects([killed, after], returns, what)


def _judge_chain(ends: list[dict], returns: list) -> None:
    """Killed again and again, each attempt a moment later in its life, until one survives."""
    what = f"One run was killed {len(ends) - 1} times, each attempt a moment later in its life."
    _judge_value(ends[-1], returns, what)
    _judge_effects(ends, returns, what)


def _judge_effects(ends: list[dict], returns: list, what: str) -> None:
    effects = [row for end in ends for row in end["effects"]]
    for step in _steps(returns):
        keys = [key for name, key in effects if name == step]
        expect(keys, f"{what} The effect of step {step} never happened.")
        expect(
            len(keys) == 1,
            f"{what} The effect of step {step} happened {len(keys)} times, with the keys {', '.join(keys)}.",
        )


quiz(
    "which_stage",
    """
    Three samplers need 0.3 s for a fragment, one preparer 0.12 s, one learner 0.05 s. All work side by side. What do you mend first?

    a) The sampler: its calls are the longest.
        Three of them finish a fragment every 0.1 s between them.
    *b) The preparer.
        Right: it can take one fragment every 0.12 s, the samplers together bring one every 0.1 s, and the learner waits.
    c) All three a little.
        Whatever you save in the two others becomes waiting: the program is as fast as its slowest stage.
    """,
)

quiz(
    "what_idle_costs",
    """
    An actor with `num_cpus=1` sleeps all night in a cluster that you pay by the hour. What does it cost?

    a) Nothing: it does not compute.
        Its CPU is reserved, so nobody else gets it, and no autoscaler gives the node back.
    *b) As much as one that computes all night.
        Right: what is reserved is paid. An idle actor is ended, or reserves less.
    c) Only its memory.
        Memory too; but its CPU stays reserved until the actor ends, and the node stays rented.
    """,
)

quiz(
    "nothing_pending",
    """
    A program hangs. `ray status` shows free CPUs and no pending demands. What follows?

    a) It is not hung, only slow.
        It may be; but an idle cluster with work left to do is not slow, it waits.
    b) A node is missing.
        Then a request would be waiting for it, and stand under the pending demands.
    *c) What it waits for is no resource: look at the calls that are running, and at their stacks.
        Right: a call that waits in `ray.get` for an actor that waits for it asks for nothing that a node could give.
    """,
)

quiz(
    "between_effect_and_checkpoint",
    """
    A step sends a mail, and its process dies before the checkpoint is written. What saves you from a second mail?

    a) The checkpoint.
        It says that the step is not done: the step runs again, and sends again.
    *b) The key that goes with the mail: the receiver has seen it.
        Right: the step runs twice, and the effect happens once, because both attempts carry the same key.
    c) Writing the checkpoint before the mail.
        Then a death between the two leaves a step that counts as done, and no mail at all.
    """,
)
