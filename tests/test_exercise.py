"""A check answers in a few ways, explains itself, and never raises at a learner."""

import io
import sys
from dataclasses import replace

import numpy as np
import pytest

from coursekit.basics import versions
from coursekit.basics.cards import prose
from coursekit.judging import exercise
from coursekit.judging.exercise import find, judge
from coursekit.judging.failure import STUB_TEXT, describe
from coursekit.judging.result import MIME
from coursekit.learner import shell, surroundings
from coursekit.learner.checks import NotPassed, check, hint, local, passed, quiz, solution
from coursekit.learner.progress import load
from coursekit.learner.session import begin

CHAPTER = "ch00_start"


@pytest.fixture(autouse=True)
def begun(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    begin(CHAPTER)


def right(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each


def wrong(tasks, seconds_each, workers):
    return tasks * seconds_each


def stub(tasks, seconds_each, workers):
    raise NotImplementedError(STUB_TEXT)


def crashes(tasks, seconds_each, workers):
    return tasks / 0


def interrupted(*args):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (right, "passed"),
        (wrong, "wrong"),
        (stub, "todo"),
        (..., "todo"),
        (crashes, "crashed"),
        (3, "wrong"),
        (interrupted, "interrupted"),
    ],
)
def test_the_outcomes(answer, status):
    assert check("best_seconds", answer).status == status


@pytest.mark.parametrize(
    ("ray", "note"), [("2.61.0", "This is Ray 2.61.0; the course was tested with 2.60"), ("2.60.7", "")]
)
def test_begin_says_when_the_ray_is_not_the_tested_one(ray, note, monkeypatch):
    monkeypatch.setattr(versions, "installed", {"ray": ray}.get)
    monkeypatch.setattr(surroundings, "warnings", lambda chapter: [])
    assert begin(CHAPTER).note.partition(",")[0] == note


def test_a_wrong_answer_hears_what_was_tried_and_what_came_back_but_not_the_answer():
    result = check("best_seconds", wrong)
    assert result.tried == "best_seconds(12, 0.5, 4)"
    assert result.got == "6.0"
    assert "1.5" not in str(result)


def test_a_missing_return_is_pointed_out():
    assert "either a `return` is missing" in str(check("best_seconds", lambda *args: None))


def test_a_crash_names_the_exception():
    assert "ZeroDivisionError: division by zero" in check("best_seconds", crashes).message


def test_a_crash_in_a_comprehension_is_found_by_the_function_around_it():
    names = {}
    exec(compile("def crashes(*args):\n    return [arg / 0 for arg in args[:1]]\n", "<cell of ours>", "exec"), names)
    assert check("best_seconds", names["crashes"]).where == "line 2 of the cell with `crashes`"
    worker = 'File "<cell of ours>", line 8, in sample\n...\nFile "<cell of ours>", line 9, in <listcomp>\n...'
    assert describe(RuntimeError(worker))["where"] == "line 9 of the cell with `sample`"


def test_a_crash_in_a_worker_is_found_there_and_not_where_its_result_was_gotten():
    names = {"error": RuntimeError('File "<cell of ours>", line 5, in pay\nTypeError: no list')}
    exec(compile("def bank():\n    raise error\n", "<cell of ours>", "exec"), names)
    with pytest.raises(RuntimeError) as caught:
        names["bank"]()
    assert describe(caught.value)["where"] == "line 5 of the cell with `pay`"


def test_an_answer_that_exits_the_process_is_a_crash():
    assert check("best_seconds", lambda *args: sys.exit(3)).status == "crashed"


def test_an_answer_that_is_not_plain_data_is_wrong_and_named():
    result = check("best_seconds", lambda *args: object())
    assert (result.status, "object" in result.message) == ("wrong", True)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_whole_number_that_no_float_holds_is_wrong_and_named(sign):
    result = check("best_seconds", lambda *args: sign * 10**400)
    assert (result.status, "a whole number of 401 digits" in result.message) == ("wrong", True)
    assert check("best_seconds", lambda *args: sign * 10**306).status == "wrong"


def test_a_long_array_is_shown_in_a_line_with_its_shape():
    assert check("best_seconds", lambda *args: np.zeros((3, 40))).got.endswith("..., 0., 0., 0.]], shape (3, 40))")
    assert check("best_seconds", lambda *args: np.array([1.5, 2])).got == "array([1.5, 2. ])"


def test_a_result_is_text_and_html_and_a_record():
    bundle = check("best_seconds", right)._repr_mimebundle_()
    assert bundle["text/plain"] == "✔ best_seconds: passed, 1 of 1 point"
    assert "best_seconds: passed" in bundle["text/html"]
    assert bundle[MIME]["earned"] == 1


def test_words_between_stars_are_emphasised_and_code_and_arithmetic_are_left_alone():
    assert prose("the *last* report of `*args*`") == "the <em>last</em> report of <code>*args*</code>"
    assert prose("2 * 3 * 4, **kwargs, a*b*c, γ*λ*δ") == "2 * 3 * 4, **kwargs, a*b*c, γ*λ*δ"
    assert prose("die *nächste Zeile*") == "die <em>nächste Zeile</em>"
    assert prose("这是*最后*一行") == "这是<em>最后</em>一行"


def test_html_of_a_result_is_escaped():
    html = check("best_seconds", lambda *args: "<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others():
    def inputs(seed):
        calls = []
        judge(
            find(CHAPTER, "best_seconds", "exercise"),
            local("x", lambda *args: calls.append(args) or right(*args)),
            seed,
        )
        return calls

    assert inputs(1) == inputs(1)
    assert inputs(1) != inputs(2)


def test_hints_come_one_at_a_time():
    first, second, third = (hint("best_seconds").text for _ in range(3))
    assert first != second
    assert second == third
    assert "last" in second


def test_a_hint_is_of_the_exercise_that_was_checked_last_unless_one_is_named_and_its_number_chooses_one():
    check("best_seconds", wrong)
    quiz("what_distribution_costs", "a")
    assert hint().title == "Hint 1 of 2 for best_seconds"
    assert hint("best_seconds", 1) == hint("best_seconds", -3)
    assert hint("best_seconds", 9).title == "Hint 2 of 2 for best_seconds"
    assert "what_distribution_costs" in solution().title


@pytest.mark.parametrize("call", [hint, solution, check, quiz])
def test_what_names_no_exercise_and_follows_no_check_hears_what_to_type(call):
    with pytest.raises(LookupError, match=rf'in quotes: {call.__name__}\("(best_seconds|what_distribution_costs)"\)'):
        call()


@pytest.mark.parametrize("given", [("best_seconds",), (right,), (right, right)])
def test_a_check_takes_the_notebooks_own_answer_by_its_name_or_as_it_is(given, monkeypatch):
    monkeypatch.setattr(shell, "names", lambda: {"best_seconds": right, "what_distribution_costs": "c"})
    assert check(*given).status == "passed"
    assert quiz("what_distribution_costs").status == "passed"
    assert check().name == "best_seconds"
    assert hint(right).title.endswith("best_seconds")


def test_a_check_of_an_answer_that_does_not_exist_says_what_to_do():
    result = check("best_seconds")
    assert (result.status, "run that cell" in result.message) == ("todo", True)


def test_an_answer_in_the_place_of_a_name_hears_what_to_type():
    with pytest.raises(LookupError, match=r'no quiz \'c\'.* Type quiz\("what_distribution_costs"\)'):
        quiz("c")


def test_solution_opens_after_three_attempts():
    assert "Not yet" in solution("best_seconds").title
    for _ in range(3):
        check("best_seconds", stub)
    assert "Not yet" in solution("best_seconds").title
    for _ in range(3):
        check("best_seconds", wrong)
    assert "rounds * seconds_each" in solution("best_seconds").code


def test_solution_opens_after_a_pass():
    check("best_seconds", right)
    assert "def best_seconds" in solution("best_seconds").code


def test_solution_says_so_where_the_copy_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr("coursekit.learner.shell.SOLUTIONS", tmp_path)
    check("best_seconds", right)
    assert "no solutions/" in solution("best_seconds").text


def test_passed_is_true_only_after_a_pass_in_this_notebook(capsys):
    assert not passed("best_seconds")
    assert "best_seconds" in capsys.readouterr().out
    check("best_seconds", wrong)
    assert not passed("best_seconds")
    check("best_seconds", right)
    assert passed("best_seconds")


@pytest.mark.parametrize(
    ("choice", "status"),
    [("c", "passed"), (" C ", "passed"), ("a", "wrong"), ("z", "todo"), (3, "todo"), (..., "todo")],
)
def test_a_quiz_answers_back(choice, status):
    assert quiz("what_distribution_costs", choice).status == status


def test_a_wrong_choice_is_shown_as_your_answer():
    assert quiz("what_distribution_costs", " A ").details() == [("Your answer", "a")]


def test_an_option_that_does_not_exist_hears_the_options_there_are():
    assert "a, b, c, d" in quiz("what_distribution_costs", "z").message


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: check("best_second", right), "best_seconds"),
        (lambda: hint("bestseconds"), 'Type hint("best_seconds")'),
        (lambda: hint("what_distribution_costs"), "which has no hints"),
        (lambda: passed("best"), "best_seconds"),
        (lambda: quiz("what_distribution", "a"), "what_distribution_costs"),
        (lambda: check("what_distribution_costs", "a"), "is a quiz: call quiz("),
        (lambda: quiz("best_seconds", right), "check("),
        (lambda: begin("ch77_nothing"), "ch77_nothing"),
    ],
)
def test_an_unknown_name_hears_the_near_ones(call, near):
    with pytest.raises(LookupError) as error:
        call()
    assert near in str(error.value)


def test_a_check_before_begin_says_what_to_run(monkeypatch):
    monkeypatch.setattr(sys.modules["coursekit.learner.session"], "_session", None)
    with pytest.raises(RuntimeError, match="first cell"):
        check("best_seconds", right)


@pytest.mark.parametrize("answer", [wrong, stub, crashes, interrupted])
def test_under_nbgrader_a_check_that_is_not_passed_raises(answer, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotPassed, match="best_seconds"):
        check("best_seconds", answer)
    assert check("best_seconds", right).status == "passed"


def test_what_an_answer_writes_to_stderr_reaches_the_reader_on_stdout(capsys):
    def chatty(*args):
        print("thinking", file=sys.stderr)
        return right(*args)

    assert check("best_seconds", chatty).status == "passed"
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "thinking" in captured.out


def test_of_many_printed_lines_the_first_and_the_last_are_shown(capsys):
    def chatty(*args):
        for number in range(10_000):
            print("line", number, file=[sys.stdout, sys.stderr][number % 2])
        print("x" * 10**6, end="")

    assert check("best_seconds", chatty).status == "wrong"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:20] == [f"line {number}" for number in range(20)]
    assert lines[20] == "… 9,971 lines are left out here …"
    assert lines[21:-1] == [f"line {number}" for number in range(9991, 10_000)]
    assert lines[-1] == "x" * 500 + " …"


def test_what_kept_a_checks_stream_can_write_to_it_later(capsys):
    kept = []
    check("best_seconds", lambda *args: kept.append(sys.stdout))
    print("later", file=kept[0])
    assert capsys.readouterr().out == "later\n"


def test_what_kept_a_checks_stream_closes_no_other(capsys):
    kept = []
    check("best_seconds", lambda *args: kept.append(sys.stderr))
    kept[0].close()
    print("still open")
    assert capsys.readouterr().out == "still open\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([1.5] * 5_000_000, "a check reads up to 20,000 items of lists or 1,200,000 numbers of arrays"),
        (np.zeros(5_000_000), "a check reads up to 20,000 items of lists or 1,200,000 numbers of arrays"),
        (np.zeros(200_000_000), "it takes 1525 MB, and a check reads up to 256 MB"),
    ],
    ids=["list", "array", "gigabytes"],
)
def test_an_answer_that_is_too_large_is_refused_in_words(answer, reason):
    result = check("best_seconds", lambda *args: answer)
    assert (result.status, result.got) == ("wrong", "")
    assert result.message.startswith("What came back is too large")
    assert reason in result.message


@pytest.mark.filterwarnings("error")
def test_an_async_function_is_named_and_nobody_warns_of_a_coroutine():
    async def answer(*args):
        return right(*args)

    result = check("best_seconds", answer)
    assert (result.status, "write `def` instead of `async def`" in result.message) == ("wrong", True)


class Ends(BaseException):
    pass


class HasNoText(Ends):
    def __str__(self):
        raise SystemExit


@pytest.mark.parametrize("kind", [Ends, HasNoText, SystemExit, GeneratorExit])
def test_what_is_raised_past_exception_is_a_crash(kind):
    def raises(*args):
        raise kind

    result = check("best_seconds", raises)
    assert (result.status, kind.__name__ in result.message) == ("crashed", True)
    assert not result.message.endswith(": ")


def test_an_interrupted_check_records_nothing():
    check("best_seconds", right)
    before = load()
    assert check("best_seconds", interrupted).headline == "■ best_seconds: interrupted"
    assert passed("best_seconds")
    assert load() == before


def test_an_interrupt_outside_an_answer_shows_no_line_of_the_check(monkeypatch):
    def checks(answer, rng):
        expected = 41
        raise KeyboardInterrupt(expected)

    item = replace(find(CHAPTER, "best_seconds", "exercise"), check=checks)
    monkeypatch.setitem(exercise.REGISTRY[CHAPTER], "best_seconds", item)
    text = str(check("best_seconds", right))
    assert "the check was waiting for what your code had started" in text
    assert "41" not in text + check("best_seconds", right)._repr_html_()


def test_stderr_is_back_after_a_check():
    stream = sys.stderr
    check("best_seconds", crashes)
    assert sys.stderr is stream
    assert not isinstance(sys.stderr, io.StringIO)


REFERENCES = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))


@pytest.mark.parametrize("text", ["a0: &a0 {x: 1}\n" + REFERENCES, "[" * 10_000_000], ids=["references", "megabytes"])
def test_a_file_that_takes_days_to_read_is_not_read(text):
    result = judge(find("ch24_deploy", "cluster_yaml", "exercise"), local("cluster_yaml", lambda *args: text))
    assert (result.status, "it is not read" in result.message) == ("wrong", True)
