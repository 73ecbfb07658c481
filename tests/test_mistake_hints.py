"""A mistake made twice is answered by its own hint: a measured example that shows the effect and names no solution."""

import pytest
import ray

from coursekit.author.listings import PATHS
from coursekit.judging.exercise import AuthorError, load
from coursekit.learner import checks, mistake_hints, session, shell
from tests.chapters import CHAPTERS

HINTS = [(chapter, *place) for chapter in CHAPTERS for place in mistake_hints.mistake_hints(chapter)]
ON_THE_PATH = [
    (chapter, item.name)
    for chapter in CHAPTERS
    if int(chapter[2:4]) in PATHS["Distributed RL"][1]
    for item in load(chapter).values()
    if item.kind == "exercise"
]


@pytest.fixture
def began(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    session.begin("ch00_start")
    return session.current()


def late(tasks, seconds, workers):
    return (tasks // workers + 1) * seconds


def test_the_same_mistake_twice_gets_its_own_hint_first_and_then_the_general_ones(began, monkeypatch):
    own = mistake_hints.MistakeHint("A batch that is full needs no further round.", "print(6 // 3)\n")
    message = checks.check("best_seconds", late).message_id
    monkeypatch.setattr(checks, "mistake_hints", lambda chapter: {("best_seconds", message): own})
    assert checks.hint("best_seconds").title == "Hint 1 of 2 for best_seconds"
    checks.check("best_seconds", late)
    told = checks.hint()
    assert told.title == "About this mistake: best_seconds"
    assert told.text.startswith(own.text)
    assert told.code.endswith("#   2\n")
    assert checks.hint("best_seconds").title == "Hint 2 of 2 for best_seconds"
    checks.check("best_seconds", late)
    assert checks.hint("best_seconds", 1).title == "Hint 1 of 2 for best_seconds"
    again = checks.hint("best_seconds")  # the general ones are used up, and the mistake is still there
    assert again.title == "About this mistake: best_seconds"
    assert again.text.endswith('`hint("best_seconds", 1)`.')
    checks.check("best_seconds", lambda tasks, seconds, workers: tasks // workers * seconds)
    assert checks.hint("best_seconds").text.startswith(load("ch00_start")["best_seconds"].hints[-1])


def test_after_the_last_hint_the_solution_is_announced_or_open(began):
    assert checks.hint("best_seconds", 2).text.endswith(
        'After three attempts, or a pass, `solution("best_seconds")` shows ours.'
    )
    for _ in range(3):
        checks.check("best_seconds", late)
    assert checks.hint("best_seconds", 2).text.endswith('That was the last one. `solution("best_seconds")` shows ours.')


def test_two_mistakes_are_not_the_same_and_a_pass_lies_between(began, monkeypatch):
    monkeypatch.setattr(checks, "mistake_hints", lambda chapter: {each: "never shown" for each in every if each[1]})
    answers = [
        late,
        lambda tasks, seconds, workers: tasks // workers * seconds,
        late,
        lambda tasks, seconds, workers: -(-tasks // workers) * seconds,
        late,
    ]
    every = {("best_seconds", checks.check("best_seconds", answer).message_id) for answer in answers}
    assert len(every) == 3
    assert checks.hint("best_seconds").title == "Hint 1 of 2 for best_seconds"


@pytest.mark.parametrize(("chapter", "name"), ON_THE_PATH)
def test_every_exercise_of_distributed_rl_has_a_hint_for_a_mistake(chapter, name):
    assert any(exercise == name for exercise, _ in mistake_hints.mistake_hints(chapter))


@pytest.mark.parametrize(("chapter", "name", "message_id"), HINTS)
def test_a_hint_names_no_solution(chapter, name, message_id):
    hint = mistake_hints.mistake_hints(chapter)[name, message_id]
    assert name not in hint.code
    ours = {line.strip() for line in shell.solution_code(chapter, name).splitlines() if len(line.strip()) > 24}
    assert ours.isdisjoint(line.strip() for line in hint.code.splitlines())
    assert not [line for line in ours if line in hint.text]


def test_an_example_whose_tasks_would_never_start_is_not_run(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # a test before may have left one
    told = mistake_hints.MistakeHint("Two tasks.", "import ray\n\nprint(ray)\n").shown()
    assert told.endswith("# not run: it needs a Ray with two free CPUs")


@pytest.fixture(scope="module")
def four_cpus():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "name", "message_id"), HINTS)
def test_the_example_runs_and_prints_what_it_measured(chapter, name, message_id, four_cpus):
    hint = mistake_hints.mistake_hints(chapter)[name, message_id]
    assert "#   " in hint.shown()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "## best_seconds: No such message\n\nText.\n\n```python\nprint(1)\n```\n",
            "0 messages begin with 'No such message'",
        ),
        ("## nobody: T\n\nText.\n\n```python\nprint(1)\n```\n", "there is no exercise 'nobody'"),
        ("## best_seconds: crashed-TypeError\n\nOnly a text.\n", "without a text and one block of Python"),
    ],
)
def test_a_heading_that_fits_no_message_is_named(text, says, tmp_path, monkeypatch):
    (tmp_path / "hints").mkdir()
    (tmp_path / "hints/ch00_start.md").write_text(text)
    monkeypatch.setattr(mistake_hints, "EXERCISES", tmp_path)
    mistake_hints.mistake_hints.cache_clear()
    with pytest.raises(AuthorError, match=says):
        mistake_hints.mistake_hints("ch00_start")
