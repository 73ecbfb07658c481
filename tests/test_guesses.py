"""Guesses against measurements: what was predicted before the first measurement counts, in all chapters."""

import pytest

from coursekit.learner.guesses import Guess, guesses
from coursekit.learner.overview import progress
from coursekit.learner.predictions import measured, predict
from coursekit.learner.session import begin


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))


def guessed(chapter: str, name: str, said: object, was: object, options: tuple[str, ...] = ()) -> None:
    begin(chapter)
    predict(name, said, options)
    measured(name, was)


def test_the_farthest_off_comes_first_with_its_direction():
    guessed("ch00_start", "seconds", 2, 3)
    guessed("ch01_tasks", "overhead", 1, 0.01)
    assert guesses().numbers == [
        Guess("ch01_tasks", "overhead", 1, 0.01),
        Guess("ch00_start", "seconds", 2, 3),
    ]
    first, second, *said = str(progress("guesses")).splitlines()
    assert first.endswith("██████████│")
    assert second.endswith("│█")
    assert said == ["2 predictions: half are within a factor of 51.", "Too high: 1. Too low: 1."]
    assert max(map(len, (first, second))) <= 80


def test_a_number_with_a_decimal_comma_is_asked_for_again():
    begin("ch00_start")
    for options in (4, 0):  # predict("seconds", 0,4) has three arguments
        assert f"a number, such as `0.5`, in place of `0, {options}`" in predict("seconds", 0, options).text
    assert measured("seconds", 0.4).text.startswith("You made no prediction")


def test_a_prediction_after_the_measurement_is_no_guess():
    guessed("ch00_start", "seconds", 2, 3)
    guessed("ch00_start", "seconds", 3, 3.1)
    assert guesses().numbers == [Guess("ch00_start", "seconds", 2, 3)]


def test_words_are_counted_and_numbers_that_no_logarithm_has_are_left_out():
    guessed("ch00_start", "zero", 0, 3)
    guessed("ch00_start", "below", -1, 3)
    guessed("ch00_start", "which", "left", "left", ("left", "right"))
    guessed("ch00_start", "where", "left", "right", ("left", "right"))
    assert str(guesses()) == "Of 2 choices among words, 1 were right."
    assert guesses()._repr_png_() is None


def test_what_was_never_measured_is_no_guess():
    begin("ch00_start")
    predict("seconds", 2)
    assert "no guesses yet" in str(guesses())


def test_a_notebook_shows_a_plot_with_the_diagonal_and_the_farthest_named():
    from matplotlib.figure import Figure

    for number in range(1, 7):
        guessed("ch01_tasks", f"guess_{number}", 1, 10**number)
    axes = guesses().plot(Figure().subplots())
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [each.get_text().strip() for each in axes.texts][:4] == ["guess_6", "guess_5", "guess_4", "guess_3"]
    assert axes.get_xlim() == axes.get_ylim()
    assert (progress("guesses")._repr_png_() or b"").startswith(b"\x89PNG")
