from itertools import count
from types import SimpleNamespace

import pytest

from coursekit import track
from coursekit.learner.timing import Comparison, budget, compare_times, ratio_interval


@pytest.mark.parametrize(("value", "expected"), [(None, 40), ("", 40), ("0", 40), ("1", 2), ("yes", 2)])
def test_budget_is_quick_only_where_the_environment_says_so(monkeypatch, value, expected):
    monkeypatch.delenv("COURSEKIT_QUICK", raising=False)
    if value is not None:
        monkeypatch.setenv("COURSEKIT_QUICK", value)
    assert budget(full=40, quick=2) == expected


def test_functions_are_called_in_turn_and_every_second_round_backwards_after_the_warm_up():
    calls = []
    compare_times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, clock=count(1).__next__)
    assert "".join(calls) == "ba" + "ab" + "ba" + "ab"


def test_the_warm_up_is_not_counted():
    compared = compare_times({"a": int, "b": int}, repeats=2, warmup=3, clock=count(1).__next__)
    assert compared.times == {"a": [1, 1], "b": [1, 1]}


def test_a_machine_that_grows_slower_hits_both_alike():
    now = 0.0
    ticks = count()

    def slowing_clock() -> float:
        nonlocal now
        now += 1 + 0.01 * next(ticks)
        return now

    compared = compare_times({"a": int, "b": int}, repeats=8, warmup=0, clock=slowing_clock)
    assert sum(compared.times["a"]) == pytest.approx(sum(compared.times["b"]))


def test_the_ratio_is_that_of_the_medians_whatever_one_hiccup_does():
    assert ratio_interval([3, 3, 3, 3, 90], [2, 2, 2, 2, 2]).ratio == 1.5


def test_the_interval_lies_around_the_ratio_and_the_same_times_give_the_same_one():
    slow, fast = [2.0, 2.2, 1.9, 2.1, 2.05, 1.95, 2.15], [1.0, 1.1, 0.9, 1.02, 1.04, 0.97, 1.06]
    ratio, low, high = ratio_interval(slow, fast)
    assert 1.8 < low < ratio < high < 2.3
    assert ratio_interval(slow, fast) == (ratio, low, high)


def test_drift_that_hits_both_of_a_round_leaves_the_interval_narrow():
    machine = [1, 2, 4, 8, 16, 32, 64]
    paired = ratio_interval([3 * each for each in machine], [2 * each for each in machine])
    assert (paired.ratio, paired.low, paired.high) == (1.5, 1.5, 1.5)


def test_more_confidence_is_a_wider_interval():
    slow, fast = [2.0, 2.2, 1.9, 2.1, 2.05, 1.95, 2.15], [1.0, 1.1, 0.9, 1.02, 1.04, 0.97, 1.06]
    narrow, wide = ratio_interval(slow, fast, confidence=0.5), ratio_interval(slow, fast, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_too_few_rounds_give_no_interval_and_say_how_many_it_takes():
    compared = Comparison({"loop": [2.0], "tasks": [1.0]})
    assert (compared.ratio, compared.interval) == (0.5, None)
    assert "tasks took 0.50 of the time of loop. For an interval, measure at least 5 rounds, not 1." in str(compared)


@pytest.mark.parametrize(("above", "below"), [([1, 2], [1]), ([], []), ([0, 1], [1, 1])])
def test_times_that_are_no_pairs_are_refused(above, below):
    with pytest.raises(ValueError, match=r"one time of each kind|more than 0"):
        ratio_interval(above, below)


def test_the_words_say_the_ratio_its_interval_and_whether_it_shows_anything():
    faster = Comparison({"loop": [2.0] * 5, "tasks": [0.82] * 5})
    assert faster.sentences() == ["tasks took 0.41 of the time of loop (95 % interval 0.41 to 0.41, 5 rounds)."]
    same = Comparison({"loop": [1.0] * 5, "tasks": [1.0] * 5})
    assert "these rounds do not show which is faster" in same.sentences()[0]


def test_the_ratio_of_three_compares_the_last_with_the_first_and_ratios_has_all():
    compared = Comparison({"a": [1.0] * 5, "b": [2.0] * 5, "c": [4.0] * 5})
    assert compared.ratio == 4
    assert {name: each.ratio for name, each in compared.ratios.items()} == {"b": 2, "c": 4}


def test_a_result_in_place_of_a_function_is_named():
    with pytest.raises(TypeError, match="`loop` is 3, not a function"):
        compare_times({"loop": 3, "tasks": int})


def test_measuring_writes_nothing_outside_a_terminal(capfd):
    compare_times({"a": int, "b": int}, repeats=5, clock=count(1).__next__)
    assert capfd.readouterr() == ("", "")


def test_a_loop_that_is_tracked_shows_in_a_notebook_how_far_it_is_and_leaves_nothing(monkeypatch):
    shown = []
    monkeypatch.setattr("coursekit.basics.progress_bar.in_notebook", lambda: True)
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/html"]))
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: handle)
    assert list(track(["a", "b"], "training <PPO>")) == ["a", "b"]
    assert ["value='1' max='2'" in shown[0], "value='2' max='2'" in shown[1], shown[2]] == [True, True, ""]
    assert "training &lt;PPO&gt;" in shown[0]


def test_the_plot_has_every_time_and_draws_on_the_axes_it_is_given():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert Comparison({"loop": [2.0] * 5, "tasks": [1.0] * 5}).plot(ax) is ax
    points = [tuple(point) for dots in ax.collections if len(dots.get_offsets()) == 5 for point in dots.get_offsets()]
    assert points == [(0, 2)] * 5 + [(1, 1)] * 5
    assert [label.get_text() for label in ax.get_xticklabels()] == ["loop", "tasks"]


def test_the_table_is_html_in_a_notebook_and_names_are_escaped():
    html = Comparison({"<b>": [2.0] * 5, "tasks": [1.0] * 5})._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
