"""What a learner reads is in the language of their copies, as far as it is translated; what programs read stays English."""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import nbformat
import polib
import pytest
from nbclient import NotebookClient

from coursekit.author import translatable
from coursekit.basics import readers_language, translations
from coursekit.basics.cards import Note
from coursekit.basics.dates import due_line
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import take_up, taken_up, told, told_in_plot
from coursekit.basics.translated_cells import in_language
from coursekit.basics.translations import INTERFACE, Translations, translated
from coursekit.cli import app
from coursekit.judging.message_ids import FRAMEWORK, said
from coursekit.judging.result import MIME, Result
from coursekit.learner import checks, overview, puzzles, reviews, session, surroundings
from coursekit.learner.checks import check, hint, passed, quiz, solution
from coursekit.learner.predictions import measured, predict
from coursekit.learner.review_schedule import Item
from coursekit.learner.session import ENGLISH, begin
from coursekit.learner.timing import compare_times
from coursekit.machine import learners_folder
from coursekit.machine.doctor import examine
from coursekit.machine.facts import Facts
from tests import kernels
from tests.chapters import CHAPTERS

CHAPTER, EXERCISE, QUIZ = "ch00_start", "best_seconds", "what_distribution_costs"
VALUE = re.compile(r"\{([^{}]+)\}")


def shouted(source: str) -> str:
    """Return what stands for a translation: nothing else shows a text between these marks."""
    return source.replace(source.strip(), f"«{source.strip()}»")


def write(root: Path, name: str, entries: dict[tuple[str, str], str]) -> None:
    file = polib.POFile(wrapwidth=0)
    file.extend([polib.POEntry(msgctxt=at, msgid=text, msgstr=said) for (at, text), said in entries.items()])
    path = root / f"locale/de/{name}.po"
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save(str(path))
    translated.cache_clear()


def test_what_cannot_be_read_leaves_english_and_is_said(tmp_path, capsys):
    (tmp_path / "work/.course").mkdir(parents=True)
    (tmp_path / "work/.course/language").write_bytes("de".encode("utf-16"))
    write(tmp_path, INTERFACE, {("cli", "Stop."): "Halt."})
    with taken_up(tmp_path):
        assert told("Stop.") == "Stop."
    (tmp_path / "work/.course/language").write_text("de\n")
    with taken_up(tmp_path):
        assert told("Stop.") == "Halt."
    file = tmp_path / f"locale/de/{INTERFACE}.po"
    file.write_text("<<<<<<< HEAD\n" + file.read_text())
    translated.cache_clear()
    with taken_up(tmp_path):
        assert told("Stop.") == "Stop."
    assert f"The translations in {file} can't be read, so you see English: " in capsys.readouterr().err


def test_what_stands_in_backticks_is_code_and_stays():
    entries = [
        polib.POEntry(
            msgctxt="message abc", msgid="Not `{name}` but {name}.", msgstr="Nicht `{name}`, sondern {name}."
        ),
        polib.POEntry(msgctxt="judging/form", msgid="network", msgstr="Netz"),
    ]
    said = Translations("de", entries).message("abc", {"name": "network"}, "Not `network` but network.")
    assert said.text == "Nicht `network`, sondern Netz."


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """Return a learner's folder whose language is chosen, with a translation that shouts each text of two chapters."""
    root = tmp_path_factory.mktemp("learner")
    for name in (INTERFACE, CHAPTER, "ch01_tasks"):
        entries = {(each.context, each.source): shouted(each.source) for each in translatable.texts(name)}
        nouns = {key: key[1].upper() for key in entries if key[0] == translations.NOUN}
        write(root, name, entries | nouns)
    (root / "work/.course").mkdir(parents=True)
    (root / "work/.course/language").write_text("de\n")
    (root / "notebooks").mkdir()
    return root


@pytest.fixture(autouse=True)
def english_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    yield
    take_up(None)


@pytest.fixture
def begun(course, monkeypatch) -> None:
    monkeypatch.chdir(course / "work")
    begin(CHAPTER)


def right(tasks, seconds_each, workers):
    return -(-tasks // workers) * seconds_each


def wrong(tasks, seconds_each, workers):
    return tasks * seconds_each


def crashes(tasks, seconds_each, workers):
    return 1 / 0


@pytest.fixture(scope="module")
def interface() -> Translations:
    found = [(each.context, each.source) for each in translatable.texts(INTERFACE)]
    return Translations("de", [polib.POEntry(msgctxt=at, msgid=text, msgstr=shouted(text)) for at, text in found])


def test_every_sentence_of_a_program_is_found_by_its_look_with_its_values(interface):
    lost = []
    for text in translatable.texts(INTERFACE):
        if text.context.partition("/")[0] not in ("cli", "judging", "learner", "machine", "basics", "ray_bridge"):
            continue
        said = VALUE.sub(_value, text.source)
        found = interface.told(said)
        if found == said or found.replace("«", "").replace("»", "") != said:
            lost.append((text.context, said, found))
    assert lost == []


def _value(place: re.Match[str]) -> str:
    """Return something that may stand in a place for a value."""
    counted = re.fullmatch(r"plural\(.+, '(.+)'\)", place[1])
    return (
        f"3 {counted[1]}s"
        if counted
        else "12"
        if re.match(r"len|int|sum|max|min|round|_of|_shown", place[1])
        else "abc"
    )


def test_a_text_is_told_whole_or_by_sentence_and_keeps_its_values(tmp_path):
    with taken_up(tmp_path):
        assert told("Nothing is due") == "Nothing is due"
    write(
        tmp_path,
        INTERFACE,
        {
            ("learner/a", "The solution opens after {left}, or when you pass."): "Noch {left}.",
            ("noun", "more attempt"): "Versuch",
            ("noun", "more attempts"): "Versuche",
            ("learner/a", "It was {_shown(was)}"): "Gemessen: {_shown(was)}",
            ("learner/a", "{name}, in "): "{name} in ",
            ("picture ch10", "minibatches"): "Minibatches",
            ("learner/a", " It is over."): " Es ist vorbei.",
            ("learner/a", " at `{place}`"): " an der Stelle `{place}`",
            ("learner/a", "{name!r} is {article}: call {right}()."): "{name!r} ist {article}: Ruf {right}() auf.",
            ("judging/result", "quiz"): "Quiz",
            ("judging/result", "a quiz"): "ein Quiz",
        },
    )
    say = translated("", "de", tmp_path).told
    assert say("The solution opens after 2 more attempts, or when you pass.") == "Noch 2 Versuche."
    assert say("The solution opens after 1 more attempt, or when you pass.") == "Noch 1 Versuch."
    assert say("Nobody knows this. It is over.\nNor this.") == "Nobody knows this. Es ist vorbei.\nNor this."
    assert say("It was 0.5") == "Gemessen: 0.5"
    assert say("It was 1,480") == "Gemessen: 1\N{NARROW NO-BREAK SPACE}480"
    assert say("It was -1.5") == "Gemessen: -1.5"
    assert say("It was 2e-05") == "Gemessen: 2e-05"
    assert Translations("zh", [])._value("", "1,480") == "1,480"
    assert say("It was called 2 times.") == "It was called 2 times."
    assert say("first_k, in ") == "first_k in "
    assert say("minibatches, in ") == "minibatches in "  # an exercise has the name of something in a diagram
    assert say(" at `the sums[1]`") == " an der Stelle `the sums[1]`"
    assert say("'f' is a quiz: call quiz().") == "'f' ist ein Quiz: Ruf quiz() auf."


@pytest.mark.parametrize(("fonts", "drawn"), [([], "too low"), (["a font", "DejaVu Serif"], "偏低")])
def test_a_plot_keeps_the_english_of_what_no_font_can_draw(fonts, drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(readers_language, "_CHINESE_FONTS", fonts)
    readers_language._draw_chinese.cache_clear()
    write(tmp_path, INTERFACE, {("learner/a", "too high"): "zu groß", ("learner/a", "too low"): "偏低"})
    (tmp_path / "work/.course").mkdir(parents=True)
    (tmp_path / "work/.course/language").write_text("de\n")
    before = matplotlib.rcParams["font.family"]
    with taken_up(tmp_path), matplotlib.rc_context():
        assert [told("too low"), told_in_plot("too low"), told_in_plot("too high")] == ["偏低", drawn, "zu groß"]
        assert matplotlib.rcParams["font.family"] == [*before, *fonts[1:]]
    readers_language._draw_chinese.cache_clear()


def test_between_chinese_sentences_no_blank_is_left(tmp_path):
    write(tmp_path, INTERFACE, {("learner/a", "It is over."): "结束了。", ("learner/a", "Try again."): "再试一次。"})
    assert translated("", "de", tmp_path).told("It is over. Try again. Or not.") == "结束了。再试一次。Or not."


def test_the_card_of_a_wrong_answer_is_told_and_its_record_stays(begun):
    result = check(EXERCISE, wrong)
    take_up(None)
    english, record = str(result), result.as_dict()
    assert "«" not in english + json.dumps(record) + result._repr_html_()
    begin(CHAPTER)
    assert "«" not in english
    headline, *lines = str(result).splitlines()
    assert headline == f"✘ {EXERCISE}: «wrong», «0 of 1 POINT»"
    assert lines[0] == f"  «{result.message.splitlines()[0]}" + ("»" if "\n" not in result.message else "")
    assert [line.strip().partition(":")[0] for line in lines if "«" in line][-3:] == ["«Tried»", "«Came back»"] + [
        f'«Stuck?» hint("{EXERCISE}")'
    ]
    assert result._repr_mimebundle_()[MIME] == record
    assert "«Stuck? Type <code>" in result._repr_html_()


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (right, "✔ best_seconds: «passed», «1 of 1 POINT»"),
        (crashes, "  «Your code raised ZeroDivisionError: division by zero»"),
        (..., "  «Write your answer in the cell above, run that cell, then run this one again.»"),
        (3, "  «You handed over «3, which is `int`». The check calls your answer, so hand over the function"),
        (lambda *_: object(), "which is not plain data: return numbers, strings, lists, dicts or arrays.»"),
    ],
)
def test_what_the_framework_says_is_told(answer, shown, begun):
    assert shown in str(check(EXERCISE, answer))


def test_what_the_framework_says_in_other_words_since_it_was_translated_is_english(tmp_path):
    write(
        tmp_path,
        INTERFACE,
        {
            ("message todo", "Write your answer."): "Schreib deine Antwort.",
            ("message crashed", FRAMEWORK["crashed"]): "Dein Code warf {error}",
        },
    )
    (tmp_path / "work/.course").mkdir(parents=True)
    (tmp_path / "work/.course/language").write_text("de\n")
    words = said("todo"), said("crashed", "KeyError", error="KeyError: 3")
    with taken_up(tmp_path):
        assert [
            Result(CHAPTER, EXERCISE, "exercise", "todo", 1, each.text, each.id, each.values).shown_message()
            for each in words
        ] == [FRAMEWORK["todo"], "Dein Code warf KeyError: 3"]


def test_the_forms_of_values_and_places_are_told_within_a_sentence(begun):
    for words, shown in (
        (
            said("returns", wanted="a list of whole numbers", place=" at `[0]`", got="nothing (None)"),
            "«The check needs «a list of «whole numbers»» «at `[0]`», but it got «nothing (None)».»",
        ),
        (
            said("interrupted", where="line 2 of the cell with `f`: `x`"),
            "«Interrupted: your code was still in «line 2 of the cell with `f`: `x`». Nothing was recorded.»",
        ),
        (said("not-plain", problem="What came back is not an answer."), "«What came back is not an answer.»"),
    ):
        assert (
            Result(CHAPTER, EXERCISE, "exercise", "wrong", 1, words.text, words.id, words.values).shown_message()
            == shown
        )


def test_the_feedback_of_a_quiz_is_told_and_no_letter_gets_the_frameworks_message(begun):
    feedback = {letter: str(quiz(QUIZ, letter)).splitlines()[1] for letter in "abc"}
    replies = reviews.questions(CHAPTER)[QUIZ][1]
    assert feedback == {letter: f"  «{replies[letter][1]}»" for letter in "abc"}
    assert "«Answer with one of the letters a, b, c" in str(quiz(QUIZ, 3))


def test_all_help_is_told(begun):
    notes = [hint(EXERCISE), hint(EXERCISE), solution(EXERCISE), puzzles.puzzle(EXERCISE), predict("eight_sleeps", ...)]
    notes += [predict("eight_sleeps", 2), measured("eight_sleeps", 4), reviews.review(), checks.no_solution(EXERCISE)]
    for note in notes:
        for text in (str(note), note._repr_html_()):
            assert "«" in text
        assert all("«" in line or not re.search("[A-Z]", line) for line in str(note).splitlines()), str(note)


def test_the_last_hint_says_what_opens(begun):
    hint(EXERCISE)
    last = str(hint(EXERCISE, 9))
    assert "«That was the last one.» «After three attempts, or a pass, `solution(" in last


def test_a_question_of_another_chapter_is_told_in_a_review(begun):
    assert reviews._question(1, Item("ch01_tasks", "tiny_tasks"), {"a": "b"}).count("«") == 3


def test_contents_overview_and_doctor_are_told(begun):
    contents = overview.progress(CHAPTER)
    assert f"○ {EXERCISE}: 1 POINT, " in str(contents)
    assert "«2 POINTS in this chapter»" in contents._repr_html_()
    assert "«In all: 0 of " in str(overview.progress())
    assert "«Chapter 1 · " in overview.progress()._repr_html_()
    report = examine(Facts(memory_free=0, versions=(("ray", "", ""),)))
    assert "«Not ready: fix the 2 PROBLEMS above.»" in report.text()
    assert "✘ «Packages»" in report.text()


def test_a_chapter_without_a_translation_says_so_where_it_begins_and_in_the_overview(begun):
    assert ENGLISH not in str(begin(CHAPTER))
    card = begin("ch04_scheduling")
    assert f"«{ENGLISH}»" in str(card).splitlines()
    assert html.escape(f"«{ENGLISH}»") in card._repr_html_()
    found = overview.progress()
    lines = str(found).splitlines()
    rows = lines[: len(CHAPTERS)]
    assert [row[:2] for row in rows if " EN  " in row] == [f"{number:<2}" for number in range(2, len(CHAPTERS))]
    assert {len(row) for row in rows} == {overview.WIDTH}
    assert lines.count(f"«{overview.LEGEND}»") == 1
    assert found._repr_html_().count("<sup>EN</sup>") == len(CHAPTERS) - 2
    assert found._repr_html_().count(html.escape(overview.LEGEND)) == 1
    take_up(None)
    assert "EN" not in str(found) + found._repr_html_()


def test_the_overview_reads_each_file_of_translations_once(begun, monkeypatch):
    read = []
    monkeypatch.setattr(translations, "_entries", lambda file: read.append(file.stem) or [])
    translated.cache_clear()
    str(overview.progress())
    assert sorted(read) == [CHAPTER, "ch01_tasks", INTERFACE]
    translated.cache_clear()


def test_a_check_before_begin_is_told_too(course, monkeypatch):
    monkeypatch.setattr(session, "_session", None)
    monkeypatch.chdir(course / "work")
    with pytest.raises(RuntimeError, match="^No chapter has begun") as raised:
        check(EXERCISE, wrong)
    assert raised.value.__notes__ == [f"«{raised.value}»"]


def test_what_the_course_raises_is_english_in_the_record_and_told_on_the_card_and_in_a_traceback(begun):
    def measures(tasks, seconds_each, workers):
        return compare_times({"loop": 3})

    result = check(EXERCISE, measures)
    english = "`loop` is 3, not a function: pass the function itself, without calling it."
    assert result.message == f"Your code raised TypeError: {english}"
    assert "«" not in json.dumps(result.as_dict())
    assert f"«Your code raised TypeError: «{english}»»" in str(result)
    with pytest.raises(TypeError) as raised:
        measures(1, 1, 1)
    assert (str(raised.value), raised.value.__notes__) == (english, [f"«{english}»"])
    take_up(None)
    with pytest.raises(TypeError) as raised:
        measures(1, 1, 1)
    assert not hasattr(raised.value, "__notes__")


def test_each_ray_that_runs_is_told_with_its_memory(begun, monkeypatch):
    monkeypatch.setattr(surroundings, "other_rays", lambda: {"a.ipynb": 1.0, "b.ipynb": 2.0})
    (line,) = surroundings.warnings(CHAPTER)
    assert "«a.ipynb (1.0 GB of memory)», «b.ipynb (2.0 GB of memory)»" in line


def test_what_a_cell_needs_first_is_told(begun, capsys):
    assert not passed(EXERCISE)
    assert "«This cell builds on best_seconds»" in capsys.readouterr().out


def test_a_due_date_is_told(begun):
    line = told(due_line("2020-01-31T12:00:00+00:00"))
    assert line.startswith("«Due ««Friday» 31 «January» 2020, 12:00 (UTC+00:00)»: ")
    assert line.endswith(" DAYS ago.»")


@pytest.mark.parametrize(("folder", "graded"), [("notebooks", False), ("work", True), (".", False)])
def test_elsewhere_and_where_it_is_graded_a_notebook_speaks_english(folder, graded, course, monkeypatch):
    monkeypatch.chdir(course / folder)
    if graded:
        monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    begin(CHAPTER)
    assert str(Note("Nothing is due", "")) == "Nothing is due"


def test_without_another_language_nothing_of_translations_is_loaded(tmp_path, course):
    program = f"""
import os, sys
from coursekit import begin, check, quiz
from coursekit.learner.checks import NotPassed
os.environ["COURSEKIT_HOME"] = {str(tmp_path)!r}
print(begin({CHAPTER!r}), check({EXERCISE!r}, ...), quiz({QUIZ!r}, "a"))
os.environ["NBGRADER_EXECUTION"] = "autograde"
os.chdir({str(course / "work")!r})
begin({CHAPTER!r})
try:
    check({EXERCISE!r}, ...)
except NotPassed as said:
    print(said)
print("polib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.endswith("False\n"), done.stdout + done.stderr
    assert "«" not in done.stdout


@pytest.fixture
def terminal(course, monkeypatch, capsys):
    """Return what runs a command in the learner's folder and returns what it printed."""
    monkeypatch.setattr("coursekit.cli.ROOT", course)
    monkeypatch.setattr(learners_folder, "learners_folder", lambda: course)
    monkeypatch.setattr(learners_folder, "link_to_course", lambda folder: folder)

    def run(*arguments: str) -> str:
        app(args=arguments, standalone_mode=False)
        return capsys.readouterr().out

    return run


def test_commands_for_learners_are_told_with_their_help_and_those_for_instructors_are_not(terminal):
    assert "«In all: 0 of " in terminal("progress")
    assert "«Nothing is due»" in terminal("review")
    assert "«Show your points in every chapter" in terminal("--help")
    assert "«The language of your notebooks" in " ".join(terminal("lab", "--help").split())
    assert "«" not in terminal("bill", CHAPTER)


def test_help_is_the_courses_own_and_not_that_of_the_folder_where_one_stands(course, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "of somebody"
    shutil.copytree(course / "locale", folder / "locale")
    (folder / "work/.course").mkdir(parents=True)
    (folder / "work/.course/language").write_text("de\n", encoding="utf-8")
    monkeypatch.setattr(learners_folder, "FROM_WHEEL", True)
    monkeypatch.chdir(folder)
    app(args=["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "«" not in shown
    assert translated(INTERFACE, "de").told("Take the course") in shown


def test_an_update_takes_the_language_as_lab_does_and_speaks_it(terminal, course):
    def plain(*arguments: str) -> str:
        return " ".join(terminal("update", *arguments).split())

    (course / "pyproject.toml").write_text('[project]\nversion = "1"\n')
    (course / f"notebooks/{CHAPTER}.ipynb").write_text((ROOT / f"notebooks/{CHAPTER}.ipynb").read_text())
    assert plain(
        "--in", "en"
    ) == "The text of your notebooks is now in en. Copied 1 notebook into work/, your own folder:" + (
        " the course never overwrites what you write there."
    )
    assert plain("--in", "de").startswith(
        "«The text of your notebooks is now in de; what is marked EN isn't translated"
    )
    assert "«Your notebooks already have the course's text, version 1" in plain()


@pytest.mark.slow
def test_a_german_copy_speaks_german_in_a_notebook(tmp_path):
    """The real translation of a chapter, in a kernel: a wrong answer, its help, a right one, and both ends of a quiz."""
    work = tmp_path / "learner/work"
    (work / ".course").mkdir(parents=True)
    (work / ".course/language").write_text("de\n")
    (work.parent / "locale").symlink_to(ROOT / "locale")
    notebook = nbformat.read(ROOT / f"notebooks/{CHAPTER}.ipynb", as_version=4)
    start = next(cell for cell in in_language(notebook.cells, CHAPTER, "de", ROOT) if "begin(" in cell.source)
    sources = [start.source, f"def {EXERCISE}(tasks, seconds_each, workers):\n    return tasks * seconds_each"]
    sources += [f'check("{EXERCISE}")', "hint()", f"def {EXERCISE}(*_):\n    return 1 / 0", f'check("{EXERCISE}")']
    sources += [f'quiz("{QUIZ}", "{letter}")' for letter in "ac"] + ["missing_name", "progress()"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = NotebookClient(
        notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(work)}}, config=kernels.config()
    )
    with client.setup_kernel(env=kernels.environment() | {"COURSEKIT_HOME": str(tmp_path / "home")}):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    shown = ["\n".join(_text(output) for output in cell.outputs) for cell in notebook.cells]
    say, (_, options, _) = translated(CHAPTER, "de"), reviews.questions(CHAPTER)[QUIZ]
    exercise = checks.exercise.load(CHAPTER)[EXERCISE]
    assert say.told("wrong") != "wrong"
    assert f"✘ {EXERCISE}: {say.told('wrong')}, {say.told('0 of 1 point')}" in shown[2]
    assert say(f"hint {EXERCISE}", exercise.hints[0]).text in shown[3]
    for letter, feedback in zip("ac", shown[6:8], strict=True):
        assert say(f"quiz {QUIZ} {letter} reply", options[letter][1]).text in feedback
    english = " ".join(shown)
    for sentence in ("Stuck?", "Your code raised", "Came back", "does not exist", "In all", options["a"][1]):
        assert sentence not in english
    records = [
        output.data[MIME] for cell in notebook.cells for output in cell.outputs if MIME in output.get("data", {})
    ]
    assert [record["status"] for record in records] == ["wrong", "crashed", "wrong", "passed"]
    assert records[1]["message"] == "Your code raised ZeroDivisionError: division by zero"


def _text(output: nbformat.NotebookNode) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain") or "\n".join(output.get("traceback", [])))
