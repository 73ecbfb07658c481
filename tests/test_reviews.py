"""What was passed comes back after 1, 7 and 30 days, or the day after a miss: in five minutes, and in nobody's way."""

import json
import multiprocessing
import random
import re
import statistics
from collections import defaultdict
from datetime import date
from itertools import islice, pairwise

import pytest
import ray
from typer.testing import CliRunner

from coursekit.cli import app
from coursekit.judging.declared import declared
from coursekit.judging.exercise import Exercise, load
from coursekit.judging.result import Result
from coursekit.learner import progress, review_schedule, reviews, shell
from coursekit.learner.review_schedule import AT_ONCE, DAYS, Item, answered, due_items, questions, today
from coursekit.learner.reviews import review
from coursekit.learner.session import begin
from coursekit.learner.small_exercises import small_exercises
from coursekit.ray_bridge import rendezvous
from tests.chapters import CHAPTERS

DAY = 86400
QUIZ, OTHER = Item("ch01_tasks", "order_of_get"), Item("ch01_tasks", "tiny_tasks")
SMALL = Item("ch00_start", "best_seconds")


class Clock:
    """The time of a test: noon of a day, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000 // DAY * DAY + DAY / 2

    def __call__(self) -> float:
        return self.seconds

    def next(self, days: int = 1) -> None:
        self.seconds += days * DAY


@pytest.fixture(autouse=True)
def clock(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("coursekit.machine.learners_folder.ROOT", tmp_path)  # in whose work/ no language is chosen
    monkeypatch.setattr(progress, "now", found := Clock())
    return found


def passes(*items: Item) -> None:
    for item in items:
        progress.save(Result(*item, "quiz", "passed", 1))


def due() -> list[Item]:
    return list(due_items())


def letter(item: Item, right: bool = True) -> str:
    """Return today's letter of a question's right option, or of a wrong one."""
    key = questions(item.chapter)[item.name][2]
    return next(shown for shown, own in reviews._options(item).items() if (own == key) == right)


def half_year(clock: Clock, most: int | None = None) -> tuple[list[int], dict[Item, list[tuple[date, bool]]]]:
    """Return what a half-year asks each day, and each question's days, the first when it was passed.

    The learner passes three on each weekday while the course has any, answers four of five right, and at most `most` a day.
    """
    draw, loads, days = random.Random(0), list[int](), defaultdict[Item, list[tuple[date, bool]]](list)
    left = [Item(chapter, name) for chapter in CHAPTERS for name in questions(chapter)]
    for _ in range(182):
        asked = list(islice(due_items(), most))
        loads.append(len(asked))
        for item in asked:
            days[item].append((today(), right := draw.random() < 0.8))
            answered(item, right)
        assert not asked or not {*asked} & {*due()}
        if today().weekday() < 5:
            passed, left = left[:3], left[3:]
            passes(*passed)
            for item in passed:
                days[item].append((today(), True))
        clock.next()
    return loads, days


@pytest.mark.slow
def test_in_half_a_year_each_question_comes_back_on_its_days(clock):
    loads, days = half_year(clock)
    assert (max(loads), round(statistics.mean(loads), 1)) == (13, 2.3)
    for dates in days.values():
        went_well = 0
        for (before, was_right), (day, right) in pairwise(dates):
            assert (day - before).days == (DAYS[went_well] if was_right else 1)
            went_well += right
        assert went_well == len(DAYS)


@pytest.mark.slow
def test_one_review_a_day_gets_through_all_of_them_in_half_a_year(clock):
    loads, days = half_year(clock, AT_ONCE)
    assert max(loads) == AT_ONCE
    assert all(len({day for day, _ in dates}) == len(dates) for dates in days.values())
    assert all(sum(right for _, right in dates[1:]) == len(DAYS) for dates in days.values())


def test_it_comes_back_after_1_7_and_30_days_and_then_no_more(clock):
    passes(QUIZ)
    assert due() == []
    for wait, said in zip(DAYS, ["in 7 days", "in 30 days", "last review"], strict=True):
        clock.next(wait - 1)
        assert due() == []
        clock.next()
        assert due() == [QUIZ]
        assert said in answered(QUIZ, True)
        assert due() == []
    clock.next(400)
    assert due() == []


def test_a_miss_comes_back_tomorrow_and_keeps_what_went_well(clock):
    passes(QUIZ)
    clock.next()
    answered(QUIZ, True)
    clock.next(7)
    assert answered(QUIZ, False) == "It comes back tomorrow."
    assert due() == []
    clock.next()
    assert "in 30 days" in answered(QUIZ, True)


def test_a_second_answer_on_the_same_day_changes_nothing(clock):
    passes(QUIZ)
    clock.next()
    answered(QUIZ, True)
    assert "in 7 days" in answered(QUIZ, False)
    assert "in 7 days" in answered(QUIZ, True)


def test_what_was_passed_before_times_were_kept_is_due_after_the_rest(clock):
    passes(QUIZ, OTHER, SMALL)
    path = progress.home() / "progress.json"
    saved = json.loads(path.read_text())
    del saved["chapters"][SMALL.chapter][SMALL.name]["passed"]
    path.write_text(json.dumps(saved))
    assert due() == [SMALL]
    clock.next()
    assert due() == [QUIZ, OTHER, SMALL]


def test_what_is_no_longer_in_the_course_and_large_exercises_do_not_come_back(clock):
    passes(Item("ch01_tasks", "bounded_map"), Item("ch01_tasks", "gone"), Item("ch99_gone", "gone"))
    clock.next()
    assert due() == []


@pytest.mark.parametrize("text", ["{", '{"items": 3}', '{"items": {"a/b": {"step": "x"}}}', '{"items": {"a": {}}}'])
def test_a_damaged_file_is_set_aside_and_said(clock, text):
    passes(QUIZ)
    clock.next()
    (progress.home() / "review.json").write_text(text)
    assert "Your review file was damaged" in answered(QUIZ, True)
    (aside,) = progress.home().glob("review.damaged-*.json")
    assert aside.read_text() == text
    assert due() == []


def answer_many(chapter: str) -> None:
    """Answer the questions of a chapter, as a notebook would in a process of its own."""
    progress.now = Clock()
    progress.now.next()
    for name in questions(chapter):
        answered(Item(chapter, name), True)


@pytest.mark.slow
def test_two_notebooks_at_once_lose_no_answer(clock):
    items = [Item(chapter, name) for chapter in ("ch01_tasks", "ch02_objects") for name in questions(chapter)]
    passes(*items)
    clock.next()
    assert sorted(due()) == sorted(items)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=answer_many, args=(chapter,)) for chapter in ("ch01_tasks", "ch02_objects")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert due() == []


def test_a_notebook_shows_what_is_due_of_other_chapters_and_takes_letters(clock):
    passes(QUIZ, OTHER, SMALL, Item("ch02_objects", next(iter(questions("ch02_objects")))))
    clock.next()
    begin("ch02_objects")
    card = str(review())
    assert "1. " in card
    assert "(Chapter 1)" in card
    assert "Chapter 2" not in card
    assert 'review("a b")' in card
    assert "Write `best_seconds` of Chapter 0 again" in card
    assert "2 letters" in str(review("a"))
    assert "has the options a, b" in str(review("a z"))
    said = str(review(f"{letter(QUIZ)} {letter(OTHER, right=False)}".upper()))
    assert said.startswith("1 of 2 right\n1. You call `ray.get([a, b, c])`")
    assert "a, b, c: the order of the list.\n✔ order_of_get: " in said
    assert "There is no particular order" not in said
    assert "It comes back in 7 days." in said
    assert "✘ tiny_tasks: " in said
    assert due()[0] == SMALL
    assert str(review("a b")).startswith("No question is due\nWrite `best_seconds` of Chapter 0 again")


def test_what_was_not_shown_in_this_notebook_is_shown_and_not_judged(clock):
    passes(QUIZ)
    clock.next()
    begin("ch02_objects")
    assert "From earlier chapters" in str(review("b"))
    assert due() == [QUIZ]


def test_a_dash_is_a_miss_and_names_the_chapter(clock):
    passes(QUIZ)
    clock.next()
    begin("ch02_objects")
    review()
    assert "✘ order_of_get: Chapter 1 explains it. It comes back tomorrow." in str(review("-"))


def test_options_come_in_another_order_on_another_day(clock):
    orders = set()
    for _ in range(20):
        orders.add(tuple(reviews._options(QUIZ).values()))
        clock.next()
    assert len(orders) > 3
    assert {frozenset(order) for order in orders} == {frozenset(questions(QUIZ.chapter)[QUIZ.name][1])}


def as_task(function):
    return function


def best_seconds(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each


def test_an_exercise_is_written_again_in_a_new_cell_and_stays_due_until_it_passes(clock, monkeypatch):
    below = list[str]()
    monkeypatch.setattr(shell, "put_below", below.append)
    passes(SMALL)
    clock.next()
    begin("ch02_objects")
    assert "Write `best_seconds`, which takes the number of tasks" in str(review("best_seconds"))
    assert re.fullmatch(r"def best_seconds\((.|\n)+NotImplementedError(.|\n)+\n\nreview\(best_seconds\)", below[0])
    names: dict = {"review": review}
    exec(below[0].replace("\nreview(", "\nsaid = review("), names)
    assert str(names["said"]).startswith("… best_seconds: not attempted")
    names["best_seconds"].__code__ = (lambda tasks, seconds_each, workers: 3).__code__
    assert "It stays due until it passes." in str(review(names["best_seconds"]))
    assert due() == [SMALL]
    assert "passed\nIt comes back in 7 days." in str(review(best_seconds))
    assert "best_seconds is not due" in str(review(best_seconds))


def test_an_exercise_gets_other_inputs_each_day(clock, monkeypatch):
    drawn = []
    monkeypatch.setattr(reviews, "result_of", lambda item, answer, seed: drawn.append(seed) or Result.of(item, "wrong"))
    passes(SMALL)
    begin("ch02_objects")
    for _ in range(3):
        clock.next()
        review(best_seconds)
    assert len(set(drawn)) == 3


def test_an_exercise_whose_names_mean_something_else_in_a_notebook_is_not_asked_there(clock):
    rollout = Item("ch07_environments", "rollout")
    passes(rollout)
    clock.next()
    begin("ch08_rollouts")
    assert str(review()) == str(reviews.NOTHING_DUE)
    begin("ch09_dqn")
    assert "Write `rollout` of Chapter 7 again" in str(review())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_comes_back_fits_any_notebook_and_any_order(chapter):
    exercises = {name: item for name, item in load(chapter).items() if isinstance(item, Exercise)}
    read = declared(review_schedule.PACKAGE / f"exercises/{chapter}.py")
    assert {name: tuple(said) for name, said in read.items()} == {
        name: (item.minutes, item.needs) for name, item in exercises.items()
    }
    shown = [text for _, options, _ in questions(chapter).values() for option in options.values() for text in option]
    assert [text for text in shown if re.search(r"\b[a-d]\)|\b([Oo]ption|[Aa]nswer) [a-d]\b|of the above", text)] == []
    for name, small in small_exercises(chapter).items():
        assert exercises[name].minutes <= 10
        assert f"`{name}`" in small.task
        exec(compile(small.cell(), "<cell>", "exec"), names := {})
        assert callable(names[name])


def ours(item: Item) -> object:
    """Return our solution of a small exercise, made of nothing but its own cell and its imports."""
    imports = "\n".join(filter(None, small_exercises(item.chapter)[item.name].binds.values()))
    source = f"{imports}\n{shell.solution_code(*item)}"
    exec(compile(source, "<cell>", "exec"), names := {"__name__": "__main__"})  # so that Ray sends its functions along
    return names[item.name]


def passes_on_other_days(item: Item) -> bool:
    days = (740000, 740001)
    return all(reviews.result_of(load(item.chapter)[item.name], ours(item), day).status == "passed" for day in days)


SMALL_ONES = [Item(chapter, name) for chapter in CHAPTERS for name in small_exercises(chapter)]
WITH_A_CLUSTER = Item("ch06_cluster", "submit_rest")  # its check starts one
WITH_RAY = [item for item in SMALL_ONES if small_exercises(item.chapter)[item.name].needs]
ALONE = [item for item in SMALL_ONES if item not in [WITH_A_CLUSTER, *WITH_RAY]]


def test_no_task_speaks_of_cells_where_a_review_has_one():
    assert [item for item in SMALL_ONES if re.search(r"\bcells\b", small_exercises(item.chapter)[item.name].task)] == []


@pytest.mark.parametrize("item", [*ALONE, pytest.param(WITH_A_CLUSTER, marks=pytest.mark.slow)], ids="-".join)
def test_our_solution_of_a_small_exercise_passes_alone_without_ray_and_with_the_inputs_of_other_days(item):
    assert passes_on_other_days(item)
    assert not ray.is_initialized()


@pytest.mark.slow
def test_with_a_ray_of_any_chapter_so_do_those_that_need_one():
    with ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False):
        rendezvous.set_patience(60)  # a busy machine must not turn a right answer
        rendezvous.warm_up(4)
        assert WITH_RAY
        assert [item for item in WITH_RAY if not passes_on_other_days(item)] == []


def test_what_needs_ray_is_asked_where_one_runs(clock, monkeypatch):
    passes(task := Item("ch01_tasks", "as_task"))
    clock.next()
    begin("ch10_actor_learner")
    assert str(review()) == str(reviews.NOTHING_DUE)
    said = str(review(as_task))
    assert "none is running" in said
    assert "It stays due" in said
    monkeypatch.setattr(reviews, "missing", lambda needs: None)
    assert "Write `as_task` of Chapter 1 again" in str(review())
    assert due() == [task]


def test_the_course_has_small_exercises_enough():
    assert len(SMALL_ONES) >= 35


def test_a_terminal_asks_one_question_after_the_other(clock):
    passes(QUIZ, OTHER)
    clock.next()
    shown = CliRunner().invoke(app, ["review"], input=f"z\n{letter(QUIZ)}\n\n")
    assert shown.exit_code == 0
    assert "The options are a, b" in shown.output
    assert "✔ order_of_get: " in shown.output
    assert "✘ tiny_tasks: Chapter 1 explains it. It comes back tomorrow." in shown.output
    assert "Nothing is due" in CliRunner().invoke(app, ["review"]).output


def test_in_a_terminal_what_was_not_answered_stays_due(clock):
    passes(QUIZ)
    clock.next()
    assert CliRunner().invoke(app, ["review"], input="").exit_code == 0
    assert due() == [QUIZ]


def test_a_review_earns_nothing_and_tells_the_room_nothing(clock, monkeypatch):
    monkeypatch.setattr("coursekit.learner.workshop.outbox.tell", lambda event: pytest.fail("the room heard of it"))
    monkeypatch.setattr("coursekit.learner.workshop.connection.joined", lambda: True)
    passes(QUIZ, SMALL)
    clock.next()
    before = progress.load()
    begin("ch02_objects", quizzes=False)
    review()
    assert "1 of 1 right" in str(review(letter(QUIZ)))
    review(best_seconds)
    assert progress.load() == before
