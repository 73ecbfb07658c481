"""The capstone's runner: a budget that counts every process, a judge outside, errors that help, a leaderboard that stays."""

import ast
import functools
import json
import linecache
import os
import pickle
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from coursekit.basics.paths import ROOT, SOLUTIONS
from coursekit.capstone import actor_killer, capstone_command, entry_process, leaderboard, referee
from coursekit.capstone.contestant import INSIDE, Contestant, Learned
from coursekit.capstone.entry import LARGEST, Entry, EntryFailed, read_entry
from coursekit.capstone.entry_run import run
from coursekit.capstone.lead_chart import APART, _frame, chart, ticks
from coursekit.capstone.leaderboard import Row
from coursekit.capstone.leaderboard_page import page
from coursekit.capstone.leagues import run_class
from coursekit.capstone.referee import Score
from coursekit.capstone.rules import DECIDING, Rules
from coursekit.capstone.usage_watch import POINTS, separated
from coursekit.cli import app
from coursekit.given import warehouse
from coursekit.given.cpu_budget import Budget, ClockBudget
from coursekit.given.cpu_clock import CpuClock
from coursekit.sandbox.nursery import Nursery, available
from tests.answers import ch20_capstone as answers

EXAMPLE = ROOT / "docs/example_entry.py"
BURN = "import time\nwhile time.process_time() < 0.4: pass\n"
real_sandbox = pytest.mark.skipif(bool(available()), reason=available())


@pytest.fixture(autouse=True)
def own_board(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))


def python(source: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-S", "-c", source])


# --- the budget


def test_a_budget_counts_what_its_process_computes():
    budget, until = Budget(10), time.process_time() + 0.3
    while time.process_time() < until:
        pass
    assert budget.spent() >= 0.29
    assert budget.left() == pytest.approx(10 - budget.spent(), abs=0.1)


def test_a_budget_counts_children_that_have_ended():
    budget = Budget(10)
    python(BURN).wait()
    time.sleep(0.15)  # between two looks
    assert budget.spent() >= 0.38


def test_a_budget_counts_no_second_of_before():
    python(BURN).wait()
    assert Budget(10).spent() < 0.2


def test_a_clock_counts_children_of_children_and_whom_nobody_waited_for():
    """The grandchild is killed while its parent ignores its end: its seconds are handed on to nobody."""
    source = f"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", {BURN + "time.sleep(100)"!r}])
sys.stdin.read(1)
child.kill()
sys.stdin.read(1)
"""
    clock = CpuClock(os.getpid())
    parent = subprocess.Popen([sys.executable, "-S", "-c", source], stdin=subprocess.PIPE)
    with parent:
        while clock.seconds() < 0.4:
            time.sleep(0.05)
        parent.stdin.write(b"k")
        parent.stdin.flush()
        time.sleep(0.3)
        assert clock.seconds() >= 0.4


def test_a_budget_keeps_the_curve_and_tells_each_point():
    told = []
    budget = Budget(10, tell=lambda *point: told.append(point))
    budget.report(1)
    budget.report(np.float32(2.5))
    assert [value for _, value in budget.curve] == [1.0, 2.5]
    assert told == budget.curve
    assert 0 <= told[0][0] <= told[1][0] < 10


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_budget_takes_no_point_that_cannot_be_drawn(value):
    with pytest.raises(ValueError, match="after the first episodes have ended"):
        Budget(10).report(value)


@pytest.mark.parametrize("value", [np.ones(3), [1.0, 2.0], None, "best"])
def test_a_budget_takes_one_number_and_says_so(value):
    with pytest.raises(TypeError, match="report their mean"):
        Budget(10).report(value)


def test_a_budget_says_where_it_belongs():
    with pytest.raises(TypeError, match="give your workers `budget.left\\(\\)`"):
        pickle.dumps(Budget(10))
    with pytest.raises(ValueError, match="more than 0"):
        Budget(0)


# --- an entry, looked at


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.py", None, "There is no .*missing.py. An entry is a Python file"),
        ("folder.py", "folder", "is a folder. Put your function in a file that ends in .py"),
        ("notebook.ipynb", b"{}", "is not a Python file"),
        ("latin.py", "# é".encode("latin-1"), "Save it as UTF-8"),
        ("weights.py", b"#" * (LARGEST + 1), "not weights that were learned before"),
    ],
)
def test_a_file_that_is_no_entry(tmp_path, name, content, says):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(EntryFailed, match=says):
        read_entry(path)


def test_an_entry_is_named_by_its_file_or_by_its_author(tmp_path):
    path = tmp_path / "two_workers.py"
    path.write_text("x = 1")
    assert read_entry(path).name == "two_workers"
    assert read_entry(path, "best \x1b[31mof all").name == "best  [31mof all"
    assert read_entry(path).fingerprint != Entry("two_workers", "two_workers.py", "x = 2").fingerprint


@pytest.fixture
def learned(monkeypatch) -> Callable[[str], str]:
    """Return a function that loads an entry and has it learn here, and returns why there is no policy, "" if there is one."""

    def learn(source: str) -> str:
        monkeypatch.setenv("COURSEKIT_QUICK", "1")
        entry_process.prepare(textwrap.dedent(source), "mine.py", 5.0, 3)
        entry_process.learn()
        return entry_process.result().get("failed", "")

    return learn


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def train(make_envs, budget)\n    pass", "not valid Python, line 1: expected ':': `def train"),
        ("x = 1\x00", "not valid Python"),
        ("import sister", "No module named 'sister', in line 1 .* An entry is one file"),
        ("x = 1\ny = x / 0", "ZeroDivisionError: division by zero, in line 2 .*: `y = x / 0` while it was loaded"),
        ("raise SystemExit", "SystemExit, in line 1"),
        ("def learn(make_envs, budget): ...", "no function `train`: write def train"),
        ("def trian(make_envs, budget): ...", "rename `trian` to `train`"),
        ("train = 7", "its `train` is an int, not a function"),
        ("def train(make_envs): ...", "cannot be called with two arguments"),
        ("def train(make_envs, budget, seed): ...", "missing a required argument: 'seed'"),
        ("def train(make_envs, budget):\n    x = 1", "returned None: end it with `return policy`"),
        ("def train(make_envs, budget):\n    return [1]", "returned a list, not a function"),
        (
            "def train(make_envs, budget):\n    x = []\n    return x[3]",
            "IndexError: .*, in line 3 .`train`.: `return x\\[3\\]`",
        ),
        (
            "import json\ndef train(make_envs, budget):\n    json.loads('{')",
            "its `train` ended with JSONDecodeError: .*, in line 3 .`train`.: `json.loads",
        ),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_with_its_line(learned, source, says):
    assert re.search(says, learned(source), re.DOTALL)


def test_a_good_entry_gets_environments_and_a_budget(learned):
    assert not learned("""
        from dataclasses import dataclass
        @dataclass
        class Constant:
            action: "int"
            def __call__(self, obs): return [self.action] * len(obs)
        def train(make_envs, budget):
            obs, _ = make_envs(3).reset(seed=1)
            assert obs.shape[0] == 3 and budget.seconds == 5
            return Constant(2)
    """)
    assert entry_process.decide(np.zeros((4, 2))) == {"actions": [2, 2, 2, 2]}


def test_an_exception_in_a_policy_is_said_with_its_line(learned):
    learned("def train(make_envs, budget):\n    def act(obs):\n        return obs['x']\n    return act")
    assert "in line 3 (`act`): `return obs['x']`" in entry_process.decide(np.zeros((4, 2)))["failed"]


# --- the judge


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        (None, "NoneType"),
        ({"a": 1}, "dict"),
        ("text", "str"),
        (3, r"shape \[\]"),
        (
            [1, 2],
            r"shape \[2\]. A policy returns one whole number from 0 to 9 per observation: an array of shape \[3\]",
        ),
        (np.zeros((3, 10)), r"shape \[3, 10\].*`scores.argmax\(axis=1\)`"),
        ([[1], [2, 3], []], "lists of different lengths"),
        (np.array([1.0, 2.0, 3.0]), r"array of float64.*`actions.astype\(int\)`"),
        (np.array([0.1, 0.2, 0.9]), r"array of float64. .*shape \[3\]\.$"),
        (np.array([1.0, np.nan, 3.0]), "NaN.*Look for NaN in the weights"),
        (np.array([True, False, True]), "array of bool"),
        (["1", "2", "3"], "array of <U1"),
        ([1, 2, 10], "action 10 for observation 2, which does not exist"),
        ([1, -1, 0], "action -1 for observation 1"),
        ([1, 2, 10**30], "array of object"),
    ],
)
def test_actions_that_are_none(actions, says):
    with pytest.raises(referee.NotActions, match=f"the policy returned .*{says}"):
        referee.checked(actions, 3)


@pytest.mark.parametrize(
    "actions", [[0, 9, 1], (0, 9, 1), np.array([0, 9, 1], np.uint8), np.array([0, 9, 1], np.int32)]
)
def test_actions_of_every_whole_kind_are_taken(actions):
    assert referee.checked(actions, 3).tolist() == [0, 9, 1]


def test_a_score_is_the_mean_with_its_interval():
    mean, low, high = referee.score(np.array([1.0, 2.0, 3.0]))
    assert mean == 2
    assert (mean - low, high - mean) == pytest.approx((1.96 / 3**0.5,) * 2)


# --- four entries: what looking at a world is worth


@functools.cache
def learned_in(world: warehouse.World) -> warehouse.Policy:
    """Return what the chapter's agent has learned in a world after 80 rounds: some ten CPU seconds."""
    torch.manual_seed(0)
    np.random.seed(0)
    envs = functools.partial(warehouse.make_envs, world=world)
    return answers.chapter().greedy(answers.alone(envs, Budget(1000), 80, goal=np.inf).weights())


@pytest.mark.slow
@pytest.mark.parametrize(("here", "elsewhere"), [(2, 5), (5, 2)])
def test_who_reads_or_fits_the_prices_or_brings_weights_along_loses_to_who_has_learned(here, elsewhere):
    world, other = warehouse.draw_world(here), warehouse.draw_world(elsewhere)
    envs = functools.partial(warehouse.make_envs, world=world)
    others = {
        "reads envs.prices": warehouse.paying(envs(1).prices),
        "fits the prices by least squares": warehouse.paying(answers.least_squares(envs)),
        "brings weights learned under other prices": learned_in(other),
        "baseline": warehouse.baseline,
    }
    ours = referee.judge(learned_in(world), world, 7)
    for name, policy in others.items():
        lead = referee.score(ours - referee.judge(policy, world, 7))
        print(f"world {here}: {name}: ours leads by {lead.signed()}")
        assert lead.low > 0, name


# --- what an entry tells


def test_points_are_told_from_what_was_printed():
    output = "hello\n\x1e1 10\x1f\nmore \x1e0.5 5\x1f\n\x1b[31mred"
    assert separated(output, 10) == ("hello\nmore  [31mred", [(0.5, 5.0), (1.0, 10.0)])


def test_points_that_cannot_be_true_are_left_out():
    forged = "\x1e11 1\x1f\x1e-1 1\x1f\x1enan 1\x1f\x1e1 inf\x1f\x1e1\x1f\x1ea b\x1f\x1e2 2\x1f"
    assert separated(forged, 10) == ("", [(2.0, 2.0)])


def test_of_too_many_points_some_are_kept_the_last_one_too():
    _, curve = separated("".join(f"\x1e{i} {i}\x1f\n" for i in range(10_000)), 20_000)
    assert POINTS / 2 < len(curve) <= POINTS
    assert curve[-1] == (9_999, 9_999)


# --- by the clock

PLAYS = """
import ray
@ray.remote
class Player:
    def __init__(self, make_envs):
        self.envs = make_envs(8)
        self.envs.reset(seed=0)
    def play(self):
        for _ in range(20): self.envs.step([0] * 8)
        return 1.0
def train(make_envs, budget):
    ray.init(num_cpus=2, include_dashboard=False)
    players, lost = [Player.remote(make_envs) for _ in range(2)], 0
    while not lost:
        for i, player in enumerate(players):
            try:
                budget.report(ray.get(player.play.remote()))
            except ray.exceptions.RayActorError:
                lost += 1
                {answer}
    print("lost", lost, "and played on", ray.get([player.play.remote() for player in players]))
    ray.shutdown()
    return lambda obs: obs[:, 0].astype(int) * 0
"""
BY_CLOCK = Rules(200, by_clock=True)


def test_a_slow_simulator_plays_the_same_and_keeps_its_caller_waiting(monkeypatch):
    waited = []
    monkeypatch.setattr(warehouse.time, "sleep", waited.append)
    slow = functools.partial(warehouse.make_envs, slow=True)
    assert np.array_equal(*(warehouse.evaluate(warehouse.baseline, 5, 1, envs) for envs in (slow, warehouse.make_envs)))
    assert waited == [5 * warehouse.WAIT] * warehouse.EPISODE_STEPS


def test_a_budget_by_the_clock_counts_sleep():
    budget = ClockBudget(10)
    time.sleep(0.2)
    budget.report(1)
    assert 0.2 <= budget.curve[0][0] == pytest.approx(10 - budget.left(), abs=0.2)


@real_sandbox
@pytest.mark.slow
def test_the_judge_kills_an_actor_and_an_entry_that_starts_another_goes_on(monkeypatch):
    monkeypatch.setattr(actor_killer, "BETWEEN", (0.0, 0.0))  # as soon as there is one
    with Nursery(BY_CLOCK.limits(), modules=[INSIDE]) as nursery, nursery.sandbox() as sandbox:
        contestant = Contestant(
            Entry("m", "m.py", PLAYS.replace("{answer}", "players[i] = Player.remote(make_envs)")),
            BY_CLOCK, sandbox, lambda spent: None,
        )  # fmt: skip
        learned = contestant.learn()
    assert learned.output.endswith("lost 1 and played on [1.0, 1.0]")
    assert "Player" in contestant.strike.victim


@real_sandbox
@pytest.mark.slow
def test_an_entry_that_does_not_expect_a_loss_is_told_what_happened(monkeypatch):
    monkeypatch.setattr(actor_killer, "BETWEEN", (0.0, 0.0))
    with Nursery(BY_CLOCK.limits(), modules=[INSIDE]) as nursery, nursery.sandbox() as sandbox:
        contestant = Contestant(
            Entry("m", "m.py", PLAYS.replace("{answer}", "raise")), BY_CLOCK, sandbox, lambda spent: None
        )
        with pytest.raises(EntryFailed, match=r"The judge had killed one of its actors, ray::.*: continue without it"):
            contestant.learn()


def test_by_the_clock_only_what_lived_through_a_loss_is_ranked():
    rows = [row("alone", 80, by_clock=True), row("lived", 60, by_clock=True, killed=True, spread=3.0)]
    ranked = leaderboard.leagues(rows)[2, True, 60.0]
    assert [each.name for each in ranked] == ["lived", "alone"]
    assert leaderboard.ranks(ranked) == [1, None]
    text = page(rows)
    assert "no actor to kill: not ranked" in text
    assert "an actor was killed, 2 cores, the baseline&#x27;s two runs 3.0 apart" in text


# --- the leaderboard


def row(name: str = "mine", mean: float = 50.0, **more: object) -> Row:
    score = Score(mean, mean - 2, mean + 2)
    some = {
        "file": f"{name}.py", "fingerprint": "0a0b0c0d", "when": "2026-01-02T03:04:05+00:00", "version": 2, "by_clock": False, "machine": "2 cores", "spread": 0.0, "killed": False, "budget": 60.0,
        "lead": Score(mean - 40, mean - 42, mean - 38), "baseline": Score(40, 38, 42), "informed": Score(45, 43, 47), "chance": Score(2, 1, 3), "cpu": 58.0, "wall": 33.0, "measured": "control group",
        "seed": 5, "chosen": False, "sandboxed": True, "curve": ((10.0, 5.0), (58.0, mean)),
    }  # fmt: skip
    return Row(**{"name": name, "score": score, **some, **more})


def test_rows_come_back_as_they_were_added():
    rows = [row("one"), row("two", 60, curve=(), chosen=True)]
    for each in rows:
        leaderboard.add(each)
    assert leaderboard.rows() == rows


def test_a_line_that_is_no_row_takes_no_other_with_it():
    leaderboard.add(row("one"))
    path = leaderboard.folder() / "board.jsonl"
    nan = json.loads(path.read_text()) | {"score": [float("nan")] * 3}
    with path.open("a") as file:
        file.write(f'{json.dumps(nan)}\n{{"name": "half"}}\n[1]\n{{"name": "cut o')
    leaderboard.add(row("two"))
    assert [each.name for each in leaderboard.rows()] == ["one", "two"]
    assert "cut o" in path.read_text()


def test_only_equal_budgets_and_versions_compete():
    rows = [row("a", 50), row("b", 70), row("c", 90, budget=20.0), row("d", 99, version=3, when="2027")]
    leagues = {league: [each.name for each in ranked] for league, ranked in leaderboard.leagues(rows).items()}
    assert leagues == {(3, False, 60.0): ["d"], (2, False, 60.0): ["b", "a"], (2, False, 20.0): ["c"]}
    assert next(iter(leagues)) == (3, False, 60.0)


def test_who_chose_the_seed_has_no_rank():
    ranked = leaderboard.leagues([row("knows", 99, chosen=True), row("a", 50), row("b", 70)])[2, False, 60.0]
    assert [(each.name, rank) for each, rank in zip(ranked, leaderboard.ranks(ranked), strict=True)] == [
        ("b", 1),
        ("a", 2),
        ("knows", None),
    ]


def test_the_lead_ranks_and_not_the_score_in_an_easy_world():
    easy = row("easy", 80, baseline=Score(75, 74, 76), lead=Score(5, 3, 7))
    assert [each.name for each in leaderboard.leagues([easy, row("hard", 60)])[2, False, 60.0]] == ["hard", "easy"]


def test_leads_that_could_be_equal_share_a_rank():
    ranked = leaderboard.leagues([row("a", 70), row("b", 67), row("c", 65), row("d", 50)])[2, False, 60.0]
    ranks = leaderboard.ranks(ranked)  # each interval has 2 to each side
    assert [leaderboard.spoken(rank, ranks) for rank in ranks] == ["1=", "1=", "3", "4"]


def test_the_picture_has_the_par_lines_and_keeps_their_names_apart():
    lines = dict(re.findall(r'y="([\d.]+)" text-anchor="end" class="">([a-z][a-z0-9, ]+)<', chart([row("one")])))
    assert set(lines.values()) == {"ours, 10 s", "prices known", "baseline", "random"}
    heights = sorted(map(float, lines))
    assert all(below - above >= APART for above, below in pairwise(heights))


def test_the_page_needs_nothing_else_and_knows_light_and_dark():
    text = page([row("one"), row("two", 60)])
    assert not re.search(r"https?:|<script|<link|src=|@import|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert text.count("<polyline") == 2


def test_the_page_shows_names_as_text():
    text = page([row("<script>alert(1)</script>", file="<b>.py", when="<i>")])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<b>.py" not in text
    assert "<i>" not in text


def test_the_page_says_what_a_reader_has_to_know_of_a_row():
    text = page([row(chosen=True, sandboxed=False, measured="processes", curve=())])
    for remark in ("seed chosen: not ranked", "without a sandbox", "CPU by process times", "no curve reported"):
        assert remark in text
    assert "coursekit capstone run" in page([])


def test_a_claim_from_the_moon_flattens_no_curve():
    honest, boaster = row("honest", 50), row("boaster", 3, curve=((1.0, 1e12), (2.0, -1e300)))
    frame = _frame([honest, boaster])
    assert -90 < frame.low < -37
    assert 45 < frame.high < 80
    heights = [float(y) for y in re.findall(r'cy="([-\d.]+)"', chart([honest, boaster]))]
    assert all(-100 < y < 500 for y in heights)


@pytest.mark.parametrize(
    ("low", "high", "wanted"), [(0, 60, [0, 20, 40, 60]), (-3, 3, [-2, 0, 2]), (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0])]
)
def test_ticks_are_round_numbers(low, high, wanted):
    assert ticks(low, high) == pytest.approx(wanted)


def test_one_entry_without_a_spread_can_be_drawn():
    same = Score(0, 0, 0)
    assert "<svg" in chart([row(score=same, baseline=same, chance=same, curve=())])


# --- the commands


def test_an_entry_that_fails_says_what_it_had_reached_and_leaves_the_board_alone(tmp_path, monkeypatch):
    leaderboard.add(row("earlier"))
    before = (leaderboard.folder() / "board.jsonl").read_bytes()

    def fails(*_):
        raise EntryFailed("mine.py: it used more than 66 of its 60 CPU seconds.", [(1.0, 8.0), (2.0, 7.0)])

    monkeypatch.setattr(capstone_command, "run", fails)
    (tmp_path / "mine.py").write_text("x = 1")
    said = CliRunner().invoke(app, ["capstone", "run", str(tmp_path / "mine.py"), "--no-sandbox"])
    assert said.exit_code == 1
    assert "Without a sandbox, the entry can read, change, and delete whatever you can." in said.output
    assert "used more than 66 of its 60 CPU seconds" in said.output
    assert (
        "It had reported 2 tests. The last one had a mean return of 7.0 at 2.0 CPU seconds, and the best one had 8.0."
        in said.output
    )
    assert (leaderboard.folder() / "board.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.py"], "There is no missing.py"),
        ([str(EXAMPLE), "--seconds", "0"], "give --seconds from 1 to 3600"),
        ([str(EXAMPLE), "--seconds", "nan"], "give --seconds from 1 to 3600"),
    ],
)
def test_a_mistake_at_the_command_line_is_said_in_plain_words(arguments, says):
    said = CliRunner().invoke(app, ["capstone", "run", *arguments])
    assert said.exit_code == 1
    assert says in said.output
    assert "Traceback" not in said.output


def test_without_a_sandbox_to_be_had_the_command_says_what_to_do(monkeypatch):
    monkeypatch.setattr(capstone_command, "available", lambda: "it takes Linux's namespaces, and this is darwin")
    said = CliRunner().invoke(app, ["capstone", "run", str(EXAMPLE)])
    assert said.exit_code == 1
    assert "this is darwin. Use Linux; or, for code that you trust, add --no-sandbox." in said.output


def test_the_board_is_written_where_the_command_says():
    leaderboard.add(row("one"))
    said = CliRunner().invoke(app, ["capstone", "board"])
    path = Path(re.search(r"wrote (.+board\.html) \(1 run\)", said.output.replace("\n", ""))[1])
    assert "<b>one</b>" in path.read_text()


# --- a class

RULE = """
from coursekit.given import warehouse
def train(make_envs, budget):
    budget.report(5)
    return warehouse.paying(make_envs(1).prices)
"""


def test_a_folder_without_entries_is_said(tmp_path):
    said = CliRunner().invoke(app, ["capstone", "class", str(tmp_path), "--no-sandbox"])
    assert said.exit_code == 1
    assert "There is no entry in" in said.output


@pytest.mark.slow
def test_a_class_plays_in_one_world_and_has_one_board_with_a_film_of_each(tmp_path):
    for name, source in {"ada": RULE, "bob": RULE, "eve": "x = 1"}.items():
        (tmp_path / f"{name}.py").write_text(source)
    said = []
    path = run_class(tmp_path, Rules(2, isolated=False, imports=False), said.append)
    text = path.read_text()
    assert said[0].removeprefix("ada") == said[1].removeprefix("bob")  # the same world, the same episodes
    assert text.count("data:image/gif;base64,") == 2
    assert text.count(">1=</td>") == 2
    assert re.search("No score. eve.py: it has no function `train`", text)
    assert not leaderboard.rows()  # a class's leaderboard is its own


def test_a_film_shows_the_episode_that_was_judged():
    world, seed = warehouse.draw_world(3), 11
    actions = []

    def policy(obs):
        actions.append(warehouse.baseline(obs))
        return actions[-1]

    returns = referee.judge(policy, world, seed)
    env = warehouse.Warehouse(world)
    env.reset(seed=seed + 4)
    assert sum(env.step(step[4])[1] for step in actions) == returns[4]


# --- in a real sandbox

BASELINE = """
from coursekit.given import warehouse
def train(make_envs, budget):
    print("hello from inside")
    budget.report(1)
    return warehouse.baseline
"""
SMALL = Rules(2, seed=7, imports=False, memory_mb=500, deciding_clock=60)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(SMALL.limits(), imports="plain", modules=[INSIDE]) as nursery:
        yield nursery


def contest(nursery: Nursery, source: str, rules: Rules = SMALL) -> tuple[Learned, np.ndarray, float]:
    """Return what came of an entry in a sandbox of its own: what learning cost, the returns, the CPU seconds of all."""
    entry = Entry("mine", "mine.py", textwrap.dedent(source))
    with nursery.sandbox() as sandbox:
        contestant = Contestant(entry, rules, sandbox, lambda spent: None)
        learned = contestant.learn()
        contestant.be_asked(learned)
        returns = referee.judge(contestant.decide, warehouse.draw_world(0), 7)
        return contestant.counted(learned), returns, contestant.watch.spent()


@real_sandbox
@pytest.mark.slow
def test_a_policy_in_a_sandbox_earns_what_it_earns_outside(nursery):
    learned, returns, spent = contest(nursery, BASELINE)
    assert np.array_equal(returns, warehouse.evaluate(warehouse.baseline, referee.EPISODES, 7))
    assert learned.output == "hello from inside"
    assert [value for _, value in learned.curve] == [1.0]
    assert learned.cpu <= spent


HOSTILE = {
    "stops the clocks and patches Budget": """
        import time
        from coursekit.given import cpu_budget, cpu_clock
        def train(make_envs, given):
            given.report(1.5)
            time.process_time = time.monotonic = time.time = time.perf_counter = lambda: 0.0
            cpu_clock.CpuClock.seconds = cpu_budget.Budget.spent = lambda self: 0.0
            while given.left() > 0: sum(range(10**5))
    """,
    "has a daemon compute": """
        import os, time
        def train(make_envs, given):
            given.report(1.5)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    while True: sum(range(10**5))
                os._exit(0)
            os.wait()
            while True: time.sleep(1)
    """,
    "has many children compute, one after the other": """
        import os, time
        def train(make_envs, given):
            given.report(1.5)
            while True:
                if os.fork() == 0:
                    while time.process_time() < 0.05: pass
                    os._exit(0)
                os.wait()
    """,
    "swallows every signal and exception": """
        import signal
        def train(make_envs, given):
            given.report(1.5)
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            while True:
                try:
                    while True: sum(range(10**5))
                except BaseException: pass
    """,
}


@real_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_more_than_the_budget_is_not_to_be_had(nursery, source):
    with pytest.raises(
        EntryFailed, match=r"more than 2.2 of its 2 CPU seconds, and was stopped. Stop sooner"
    ) as failed:
        contest(nursery, source)
    assert [value for _, value in failed.value.curve] == [1.5]


COMPUTES_LATER = {
    "when it is asked for its result": """
        import time
        def train(make_envs, budget):
            began = time.process_time()
            def result():
                while time.process_time() - began < 1: pass
                return {}
            get_ipython().user_ns["result"] = result
            return lambda obs: obs[:, 0].astype(int) * 0
    """,
    "when it is first asked for actions": """
        import time
        def train(make_envs, budget):
            began = time.process_time()
            def policy(obs):
                while time.process_time() - began < 1.5: pass
                return obs[:, 0].astype(int) * 0
            return policy
    """,
}


@real_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("source", COMPUTES_LATER.values(), ids=COMPUTES_LATER)
def test_what_is_computed_after_train_has_returned_counts_as_learning(nursery, monkeypatch, source):
    monkeypatch.setattr("coursekit.capstone.contestant.DECIDING", 0.5)
    learned, _, spent = contest(nursery, source)
    assert 0.9 <= learned.cpu <= spent


@real_sandbox
@pytest.mark.slow
def test_children_for_whom_nobody_waits_are_counted_where_there_are_control_groups(nursery):
    source = """
        import os, signal, time
        def train(make_envs, given):
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            while True:
                if os.fork() == 0:
                    while time.process_time() < 0.05: pass
                    os._exit(0)
                time.sleep(0.05)
    """
    with nursery.sandbox() as sandbox:
        how = Contestant(Entry("mine", "mine.py", ""), SMALL, sandbox, lambda spent: None).watch.how
    if how != "control group":
        pytest.skip("no control group counts CPU seconds here")
    with pytest.raises(EntryFailed, match=r"more than 2.2 of its 2 CPU seconds"):
        contest(nursery, source)


@real_sandbox
@pytest.mark.slow
def test_who_learns_on_while_it_is_judged_is_stopped(nursery):
    source = """
        import os, time
        def train(make_envs, budget):
            if os.fork() == 0:
                while True: sum(range(10**5))
            return lambda obs: time.sleep(1000)
    """
    with pytest.raises(EntryFailed, match=r"too slow: the judge's episodes took more than [67]\.?\d* CPU seconds"):
        contest(nursery, source, replace(SMALL, deciding_clock=240))
    assert DECIDING == 5


OF_ITS_OWN = r"it ended its own process \(exit code 3\). It has to return a policy and keep running"
ENDS = {
    "keep = []\n    while True: keep.append(bytes(10**7))": "more than 500 MB of memory. Use less",
    "__import__('os')._exit(3)": OF_ITS_OWN,
    "return lambda obs: __import__('os')._exit(3)": OF_ITS_OWN,
    "return lambda obs: object()": "its policy can't be asked for actions. .*object, which is not plain data",
    "import coursekit.judging.wire as w, msgpack as m; pack = m.packb; w._encode_array = lambda a: m.ExtType(3, pack(['f8' + ',' * 5000, [1], b'x' * 8])); "
    "return lambda obs: obs": "sent something that is not an answer",
    "return lambda obs: obs[:, 0]": "the policy returned an array of float32",
    "return lambda obs: 1 / 0": "its policy ended with ZeroDivisionError: division by zero, in line 3",
    "import coursekit.judging.answer as a; a.serve = lambda *_: b'junk'; return len": "sent something that is not an answer",
}
WAITS = [
    (
        "__import__('time').sleep(1000)",
        {"learning_clock": 3},  # time enough to report a point before
        "stopped after 3 s of wall-clock time, of which it computed for .* mostly waited",
    ),
    (
        "return lambda obs: __import__('time').sleep(1000)",
        {"deciding_clock": 1},
        "too slow: the judge's episodes took more than 1 s of wall-clock time",
    ),
]


def reason(nursery: Nursery, body: str, rules: Rules) -> str:
    with pytest.raises(EntryFailed) as failed:
        contest(nursery, f"def train(make_envs, budget):\n    budget.report(4)\n    {body}", rules)
    assert [value for _, value in failed.value.curve] == [4.0]
    return str(failed.value)


@real_sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("body", "says"), ENDS.items())
def test_whatever_ends_an_entry_is_said(nursery, body, says):
    assert re.search(says, reason(nursery, body, replace(SMALL, seconds=30)))


@real_sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("body", "clock", "says"), WAITS, ids=["learning", "deciding"])
def test_who_only_waits_is_stopped_by_the_clock(nursery, body, clock, says):
    assert re.search(says, reason(nursery, body, replace(SMALL, **clock)))


@pytest.mark.slow
def test_without_a_sandbox_an_entry_runs_too():
    ran = run(Entry("mine", "mine.py", BASELINE), Rules(2, seed=7, isolated=False, imports=False))
    assert ran.row.score == ran.row.baseline
    assert ran.row.lead.mean == 0
    assert (ran.row.sandboxed, ran.row.chosen, ran.row.seed) == (False, True, 7)


@real_sandbox
@pytest.mark.slow
def test_the_example_learns_with_ray_in_a_sandbox_and_lands_on_the_board():
    said = CliRunner().invoke(app, ["capstone", "run", str(EXAMPLE), "--seconds", "12", "--name", "evolution"])
    assert said.exit_code == 0, said.output
    assert re.search(r"rank +1 of 1", said.output)
    (found,) = leaderboard.rows()
    assert (found.name, found.chosen, found.sandboxed, found.budget) == ("evolution", False, True, 12)
    assert found.curve[-1][0] == pytest.approx(
        found.cpu, abs=2
    )  # both counted Ray's workers, from inside and from outside
    assert 1 < found.cpu <= 13.2
    CliRunner().invoke(app, ["capstone", "board"])
    assert "<polyline" in (leaderboard.folder() / "board.html").read_text()


def file_of_the_last_chapter() -> Path:
    """Return the file that chapter 20 writes at its end: its cells that define something are run, none that learns."""
    names: dict = {"agent": True}
    for number, cell in enumerate(nbformat.read(SOLUTIONS / "ch20_capstone.ipynb", as_version=4).cells):
        writes = "write_entry(" in cell.source
        if cell.cell_type != "code" or ("demo" in cell.metadata.get("tags", []) and not writes):
            continue
        kinds = (ast.FunctionDef, ast.ClassDef, ast.ImportFrom)
        if writes or any(isinstance(part, kinds) for part in ast.parse(cell.source).body):
            file = f"<cell {number}>"
            linecache.cache[file] = (len(cell.source), None, cell.source.splitlines(keepends=True), file)
            exec(compile(cell.source, file, "exec"), names)
    (path,) = (leaderboard.home() / "capstone").glob("*.py")
    return path


@real_sandbox
@pytest.mark.slow
def test_the_file_that_the_last_chapter_writes_learns_in_a_sandbox(monkeypatch):
    monkeypatch.setattr("coursekit.begin", lambda chapter: None)
    path = file_of_the_last_chapter()
    soon = "train = partial(beats_baseline, goal=0.01)"  # its first test ends it, as a rule: the budget has room
    source = path.read_text()
    assert source.endswith("train = beats_baseline\n")
    path.write_text(source.replace("train = beats_baseline", soon))
    said = CliRunner().invoke(app, ["capstone", "run", str(path), "--seconds", "20"])
    assert said.exit_code == 0, said.output
    (found,) = leaderboard.rows()
    assert found.name == "my_entry"
    assert found.curve
