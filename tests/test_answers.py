"""Every check can fail, and does not fail a right answer: it meets wrong answers by name, and right ones that are not ours."""

import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module

import pytest
import ray

from coursekit.judging.exercise import PUBLIC_SEED, find, judge, load
from coursekit.learner.checks import local
from tests import forked
from tests.answers import Sample, samples
from tests.chapters import CHAPTERS

MODULES = {chapter: import_module(f"tests.answers.{chapter}") for chapter in CHAPTERS}


def needs_ray(chapter: str, sample: Sample) -> bool:
    """Return whether an answer is judged beside a Ray: a right one only where its exercise says that it needs one."""
    return hasattr(MODULES[chapter], "RAY") and bool(not sample.right or load(chapter)[sample.exercise].needs)


ALL = [
    pytest.param(
        chapter,
        sample,
        id=f"{chapter}-{sample.exercise}-{sample.mistake}",
        marks=[pytest.mark.canary] * sample.right,
    )
    for chapter in CHAPTERS
    for sample in sorted(samples(chapter), key=lambda sample: needs_ray(chapter, sample))
]
EXERCISES = [(chapter, item) for chapter in CHAPTERS for item in load(chapter).values() if item.kind == "exercise"]


@pytest.fixture(scope="module")
def ray_of() -> Iterator:
    """Yield a function that starts the Ray a chapter's answers need, one at a time, or sees to it that none runs."""
    started: list[tuple[str, bool]] = []

    def start(chapter: str, with_ray: bool = True) -> None:
        from coursekit.ray_bridge import rendezvous

        if (chapter, with_ray) in started:
            return
        ray.shutdown()
        stop_others()
        started[:] = [(chapter, with_ray)]
        if with_ray:
            forked.fork_rays()
            settings = MODULES[chapter].RAY  # a dict, or a function that starts a cluster and returns how to join it
            settings = settings() if callable(settings) else settings
            ray.init(include_dashboard=False, log_to_driver=False, **settings)
            rendezvous.warm_up(min(4, int(ray.cluster_resources()["CPU"])))

    def stop_others() -> None:
        for other, _ in started:
            getattr(MODULES[other], "STOP", lambda: None)()  # what a chapter's probes started beside Ray

    yield start
    ray.shutdown()
    stop_others()


def wait_for_an_empty_store() -> None:
    """Return once Ray, which frees memory in batches, has freed what an answer held on to: the next one would get the room."""
    from coursekit.given.object_store import store

    until = time.monotonic() + 15
    while store()["bytes"] and time.monotonic() < until:
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "sample"), ALL)
def test_check_tells_right_from_wrong(chapter, sample: Sample, ray_of, record_property):
    with_ray = needs_ray(chapter, sample)
    ray_of(chapter, with_ray)
    if with_ray:
        from coursekit.ray_bridge import rendezvous

        rendezvous.set_patience(60 if sample.right else 2)  # a busy machine must not turn a right answer
    result = judge(find(chapter, sample.exercise, "exercise"), local(sample.exercise, sample.answer), PUBLIC_SEED + 1)
    if kept := getattr(MODULES[chapter], "KEPT", None):
        kept.clear()
        wait_for_an_empty_store()
    if sample.right:
        assert (result.status, result.message) == ("passed", ""), result.message
        assert ray.is_initialized() == with_ray, f"{sample.exercise} starts a Ray by itself: say what it `needs`."
    else:
        assert result.status in ("wrong", "crashed")
        assert len(result.message) > 15
        assert sample.says in result.message
        record_property("mistake", (chapter, sample.exercise, result.message_id, sample.mistake))


@pytest.mark.slow
@pytest.mark.parametrize("chapter", ["ch04_scheduling"])
def test_half_a_gpu_that_is_still_held_turns_no_right_answer(chapter, ray_of):
    """Beside a half there is room for a share or two: the others would land on the other GPU, and leave the learner none."""
    from coursekit.ray_bridge import rendezvous

    ray_of(chapter)
    rendezvous.set_patience(60)
    holder = ray.remote(num_gpus=0.5)(type("Holder", (), {"nap": lambda self, seconds: time.sleep(seconds)})).remote()
    ray.get(holder.nap.remote(0))
    holder.nap.remote(1)
    del holder  # it ends after its nap
    answer = local("learn_and_play", MODULES[chapter].samplers_first_and_a_list)
    assert judge(find(chapter, "learn_and_play", "exercise"), answer, PUBLIC_SEED + 1).message == ""


@pytest.mark.parametrize(("chapter", "item"), EXERCISES, ids=lambda value: getattr(value, "name", value))
def test_exercise_has_answers_hints_and_an_idea(chapter, item):
    counts = Counter(sample.right for sample in samples(chapter) if sample.exercise == item.name)
    assert counts[False] >= 3
    assert counts[True] >= 1
    assert len(item.hints) >= 2
    assert item.points >= 1
    assert item.minutes >= 1
    assert item.idea.endswith(".")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_sample_belongs_to_an_exercise(chapter):
    names = {item.name for item in load(chapter).values() if item.kind == "exercise"}
    assert {sample.exercise for sample in samples(chapter)} == names


QUIZZES = [item for chapter in CHAPTERS for item in load(chapter).values() if item.kind == "quiz"]


@pytest.mark.parametrize("item", QUIZZES, ids=lambda item: f"{item.chapter}-{item.name}")
def test_every_option_of_a_quiz_answers_back_and_only_the_key_passes(item):
    results = {letter: judge(item, local(item.name, letter)) for letter in item.options}
    assert [letter for letter, result in results.items() if result.status == "passed"] == [item.key]
    assert all(len(result.message) > 15 for result in results.values())
    assert len({result.message for result in results.values()}) == len(results)
