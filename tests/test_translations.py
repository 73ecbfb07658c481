"""What there is to translate is found, block by block; what translators wrote is kept, and only what still fits is shown."""

import shutil
from pathlib import Path

import polib
import pytest
from typer.testing import CliRunner

from coursekit.author import translatable, translation_files
from coursekit.basics.errors import CommandError
from coursekit.basics.markdown_blocks import blocks, rebuilt
from coursekit.basics.paths import ROOT
from coursekit.basics.translated_cells import in_picture
from coursekit.basics.translations import Shown, flowing, languages, translated
from coursekit.cli import app
from coursekit.judging import message_ids
from tests.browser import chromium
from tests.chapters import CHAPTERS

PARAGRAPH = "Many processes can work as one program."
MARKDOWN = """\
## Read `code`

Two lines
of one text, with $x_1$.
- an item
  of two lines

  1. a number

| a name | `b` |
|---|---|
| a row | 3 |

$$\\text{no words}$$
> a quotation
> of two lines

```python
print("no words")
```

<!-- no
words -->
`only_code`"""
TEXTS = [
    ("heading", "Read `code`"),
    ("paragraph", "Two lines\nof one text, with $x_1$."),
    ("item", "an item\nof two lines"),
    ("item", "a number"),
    ("row", "| a name | `b` |"),
    ("row", "| a row | 3 |"),
    ("paragraph", "a quotation\nof two lines"),
]


def test_markdown_is_split_into_texts_without_code_formulas_and_html():
    assert [(block.kind, block.text) for block in blocks(MARKDOWN) if block.kind] == TEXTS


def test_a_longer_translation_keeps_the_places_of_its_block():
    text = rebuilt("- one\n  two\n\n> three", lambda block: f"{block.text}\nund\nmehr")
    assert text == "- one\n  two\n  und\n  mehr\n\n> three\nund\nmehr"


@pytest.mark.parametrize("folder", ["chapters/*.py", "docs/**/*.md", "coursekit/exercises/hints/*.md", "*.md"])
def test_the_blocks_of_all_texts_make_the_same_text_again(folder):
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob(folder)]
    assert pages
    assert [rebuilt(page, lambda block: block.text) for page in pages] == pages


@pytest.fixture
def course(tmp_path) -> Path:
    """Return a course of one chapter, of which one sentence is translated into German."""
    for name in ("chapters/ch00_start.py", "coursekit/exercises/ch00_start.py", "img/ch00_cluster.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    translation_files.update("de", ["ch00_start"], tmp_path)
    write(tmp_path, PARAGRAPH, "Viele Prozesse können wie ein Programm arbeiten.")
    return tmp_path


def german(course: Path) -> polib.POFile:
    return polib.pofile(str(course / "locale/de/ch00_start.po"), wrapwidth=0)


def entry(course: Path, beginning: str) -> polib.POEntry:
    return next(each for each in german(course) if each.msgid.startswith(beginning))


def write(course: Path, source: str, translation: str) -> None:
    file = german(course)
    next(each for each in file if each.msgid == source).msgstr = translation
    file.save()
    translation_files.update("de", ["ch00_start"], course)


def edit(course: Path, old: str, new: str) -> None:
    chapter = course / "chapters/ch00_start.py"
    assert old in (text := chapter.read_text(encoding="utf-8"))
    chapter.write_text(text.replace(old, new), encoding="utf-8")
    translation_files.update("de", ["ch00_start"], course)


def shown(course: Path, source: str) -> Shown:
    translated.cache_clear()
    return translated("ch00_start", "de", course)("paragraph", source)


def test_a_chapters_file_has_its_text_notes_hints_questions_messages_pictures_and_run_sheet_in_this_order():
    found = translatable.texts("ch00_start")
    contexts = list(dict.fromkeys(text.context.split()[0] for text in found))
    assert contexts == ["heading", "paragraph", "item", "notes", "solution", "row"] + [
        *("hint", "idea", "message", "quiz", "mistake", "picture", "run")
    ]
    by_context = {text.context: text.source for text in found}
    assert by_context["quiz what_distribution_costs a reply"] == "That gets easier: every node has cores to use."
    assert by_context["picture ch00_cluster"] == "the network carries tasks and objects, but not your variables"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_message_of_a_chapter_can_be_translated(chapter):
    found = {text.context: text.source for text in translatable.texts(chapter)}
    templates = message_ids.templates(str(ROOT / f"coursekit/exercises/{chapter}.py"))
    worded = {f"message {key}": text for key, text in templates.items() if f"message {key}" in found or " " in text}
    assert worded
    assert worded.items() <= found.items()


def test_the_interface_has_what_commands_cards_and_the_framework_say():
    found = {text.source for text in translatable.texts("interface")}
    assert found >= {
        "Show your points in every chapter, how many you can earn, and what comes next.",
        "Nothing came back: either a `return` is missing, or your code ended without reaching one.",
        message_ids.FRAMEWORK["todo"],
        "After you tried: our solution",
    }


def test_the_pages_are_those_of_learners():
    contexts = {text.context for text in translatable.texts("pages")}
    assert contexts == {*translatable.LEARNERS_PAGES, "picture learners_map", "heading"}  # of the run sheets for days


def test_a_second_run_changes_nothing(course):
    before = (course / "locale/de/ch00_start.po").read_bytes()
    assert translation_files.update("de", ["ch00_start"], course) == []
    assert (course / "locale/de/ch00_start.po").read_bytes() == before


def test_without_names_a_run_brings_up_what_has_begun_and_begins_nothing(course):
    chapter = course / "chapters/ch00_start.py"
    chapter.write_text(chapter.read_text(encoding="utf-8").replace(PARAGRAPH, f"{PARAGRAPH} Really."), encoding="utf-8")
    assert translation_files.update("de", [], course) == [course / "locale/de/ch00_start.po"]
    assert [path.name for path in course.glob("locale/*/*")] == ["ch00_start.po"]
    with pytest.raises(CommandError, match="what to begin with: coursekit translate fr interface ch00_start"):
        translation_files.update("fr", [], course)
    assert languages(course) == ["de"]


def test_what_is_translated_is_shown_and_the_rest_in_english(course):
    assert shown(course, PARAGRAPH) == ("Viele Prozesse können wie ein Programm arbeiten.", False)
    assert shown(course, "Start here:") == ("Start here:", True)
    assert translated("ch00_start", "en", course)("paragraph", "Start here:") == ("Start here:", False)


def test_a_changed_sentence_is_fuzzy_shows_english_and_comes_back(course):
    changed = "Many processes can work as one large program."
    edit(course, PARAGRAPH, changed)
    assert (entry(course, changed).fuzzy, entry(course, changed).previous_msgid) == (True, PARAGRAPH)
    assert shown(course, changed) == (changed, True)
    edit(course, changed, twice := "Many processes can work as one very large program.")
    assert entry(course, twice).previous_msgid == PARAGRAPH
    edit(course, twice, PARAGRAPH)
    assert not shown(course, PARAGRAPH).stale


def test_a_sentence_that_only_moved_to_another_kind_of_block_stays_translated(course):
    edit(course, PARAGRAPH, f"- {PARAGRAPH}")
    assert entry(course, PARAGRAPH).msgctxt == "item"
    assert entry(course, PARAGRAPH).translated()


def test_what_was_translated_is_kept_when_it_leaves_the_text_and_is_there_when_it_returns(course):
    edit(course, PARAGRAPH, "")
    assert entry(course, PARAGRAPH).obsolete
    assert translation_files.update("de", ["ch00_start"], course) == []
    edit(course, "\n\n\n\n*About", f"\n\n{PARAGRAPH}\n\n*About")
    assert entry(course, PARAGRAPH).translated()


def test_a_translators_comment_and_head_stay(course):
    file = german(course)
    file.metadata["Last-Translator"] = "Ada"
    next(each for each in file if each.msgid == PARAGRAPH).tcomment = "nach dem Glossar"
    file.save()
    edit(course, PARAGRAPH, "Many processes can work as one large program.")
    assert german(course).metadata["Last-Translator"] == "Ada"
    assert entry(course, "Many processes can work as one large").tcomment == "nach dem Glossar"


def test_the_status_counts_what_changed_since_the_last_run(course):
    chapter = course / "chapters/ch00_start.py"
    chapter.write_text(chapter.read_text(encoding="utf-8").replace(PARAGRAPH, f"{PARAGRAPH} Really."), encoding="utf-8")
    state = translation_files.state(course / "locale/de/ch00_start.po", translatable.texts("ch00_start", course))
    assert state == (0, 1)
    assert translation_files.said(state, "{percent} %, {stale} veraltet") == "0 %, 1 veraltet"
    assert translation_files.said(translation_files.State(100, 0), "{percent} %, {stale} veraltet") == "100 %"
    assert translation_files.said(translation_files.State(100, 0), "{percent}%，{stale} 条过期") == "100%"


def test_a_stale_block_carries_its_mark_and_code_does_not(course):
    translated.cache_clear()
    text = translated("ch00_start", "de", course).markdown(f"{PARAGRAPH}\n\nAnother.\n\n```\nx\n```", mark=" (en)")
    assert text == "Viele Prozesse können wie ein Programm arbeiten.\n\nAnother. (en)\n\n```\nx\n```"


def test_chinese_sentences_follow_each_other_without_the_end_of_a_line():
    text = "许多进程可以\n像一个程序。\n下一句：\n\n- 第一，\n  第二。\n- 第三。\n```\n打印。\n```"
    assert flowing(text) == "许多进程可以\n像一个程序。下一句：\n\n- 第一，第二。\n- 第三。\n```\n打印。\n```"


def test_a_message_is_shown_with_its_values(course):
    template = "After {rounds} full rounds, one task is left, and it takes {seconds} s, too."
    write(course, template, "{seconds} s dauert auch die Aufgabe nach {rounds} vollen Runden.")
    translated.cache_clear()
    said = translated("ch00_start", "de", course).message(
        message_ids.id_of(template), {"rounds": "3", "seconds": "0.5"}, "After 3"
    )
    assert said == ("0.5 s dauert auch die Aufgabe nach 3 vollen Runden.", False)


def po(tmp_path: Path, context: str, source: str, translation: str, flag: str = "", name: str = "ch00_start") -> Path:
    file = polib.POFile()
    file.append(polib.POEntry(msgctxt=context, msgid=source, msgstr=translation, flags=[flag] if flag else []))
    (path := tmp_path / f"locale/de/{name}.po").parent.mkdir(parents=True, exist_ok=True)
    file.save(str(path))
    return path


BROKEN = [
    ("message abc", "{n} tasks", "Aufgaben", "the placeholder '{n}' is missing"),
    ("message abc", "{n} tasks", "{n} Aufgaben in {m} s", "the placeholder '{m}' is not in the English"),
    ("paragraph", "Call `ray.get` now.", "Ruf `ray.wait` auf.", "the code 'ray.get' is missing"),
    ("paragraph", "See [it](a.md#b).", "Siehe [es](a.md#c).", "the link 'a.md#b' is missing"),
    ("item", "at $x < 1$", "bei $x < 2$", "the formula '$x < 1$' is missing"),
    ("row", "| one | two |", "| eins zwei |", "the row has 2 bars instead of 3"),
    ("paragraph", "One. Two.", "Eins.\n\nZwei.", "an empty line would end the block"),
]


@pytest.mark.parametrize(("context", "source", "translation", "said"), BROKEN)
def test_what_a_translation_has_lost_is_said_with_its_line(tmp_path, context, source, translation, said):
    found = translation_files.problems(po(tmp_path, context, source, translation))
    assert f"locale/de/ch00_start.po:5: {said}." in found


@pytest.mark.parametrize(("context", "source", "translation", "said"), BROKEN)
def test_what_is_fuzzy_or_empty_breaks_nothing(tmp_path, context, source, translation, said):
    assert translation_files.problems(po(tmp_path, context, source, translation, "fuzzy")) == []
    assert translation_files.problems(po(tmp_path, context, source, "")) == []


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("{n} of `m` in $5 and $6", "Für $5 und $6: `m` und noch `k` von {n}"),
        ("| a \\| b | `c|d` |", "| `c|d` | ja |"),
        ("Set $x$ to {1, 2}.", "Setze $x$ auf {1, 3}."),
    ],
)
def test_another_order_and_more_code_break_nothing(tmp_path, source, translation):
    assert translation_files.problems(po(tmp_path, "paragraph", source, translation)) == []


def test_no_translation_of_the_course_is_broken():
    files = sorted(ROOT.glob("locale/*/*.po"))
    assert files
    assert [line for file in files for line in translation_files.problems(file)] == []


# Where the text of a diagram is: its own box, and that of the smallest frame around the English one. Each by left, top, right, bottom.
DRAWN = """() => [...document.querySelectorAll("svg")].map(svg => {
  const page = svg.getBoundingClientRect()
  const place = each => {
    const box = each.getBoundingClientRect()
    return [box.left - page.left, box.top - page.top, box.right - page.left, box.bottom - page.top]
  }
  const frames = [...svg.querySelectorAll("rect")].map(place)
  return { frames: [...frames, place(svg)], texts: [...svg.querySelectorAll("text")].map(each => [each.textContent, place(each)]) }
})"""


def is_inside(box: list[float], frame: list[float]) -> bool:
    slack = (1, 4, 1, 4)  # a letter's box is higher than the letter
    return all(sign * (frame[k] - box[k]) <= slack[k] for k, sign in enumerate((1, 1, -1, -1)))


def touch(one: list[float], other: list[float]) -> bool:
    return all(min(one[k + 2], other[k + 2]) - max(one[k], other[k]) > 2 for k in (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("language", languages())
def test_in_a_translated_diagram_no_text_leaves_its_frame_or_runs_into_another(language):
    of = {name[:4]: translated(name, language) for name in CHAPTERS} | {"lear": translated("pages", language)}
    names = [path.stem for path in sorted((ROOT / "img").glob("*.svg")) if path.stem[:4] in of]
    english = [(ROOT / f"img/{name}.svg").read_text(encoding="utf-8") for name in names]
    other = [in_picture(svg, name, of[name[:4]]) for name, svg in zip(names, english, strict=True)]
    assert other != english
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1280, "height": 720})
        tab.set_content("\n".join(english + other))
        drawn = tab.evaluate(DRAWN)
    found = []
    for name, before, after in zip(names, drawn, drawn[len(names) :], strict=False):
        for place, ((_, old), (text, new)) in enumerate(zip(before["texts"], after["texts"], strict=True)):
            around = [frame for frame in before["frames"] if is_inside(old, frame)]
            frame = min(around, key=lambda frame: (frame[2] - frame[0]) * (frame[3] - frame[1]))
            if not is_inside(new, frame):
                found.append(f"{name}: {text!r} leaves its frame")
            for (_, old_next), (text_next, new_next) in zip(before["texts"][:place], after["texts"], strict=False):
                if touch(new, new_next) and not touch(old, old_next):
                    found.append(f"{name}: {text!r} runs into {text_next!r}")
    assert found == []


def test_an_unknown_language_or_chapter_is_refused_with_those_that_there_are(course):
    with pytest.raises(CommandError, match="no translation into 'fr'. There are: en, de"):
        translated("ch00_start", "fr", course)
    with pytest.raises(CommandError, match="two letters, not .ch00_start.. For German: coursekit translate de"):
        translation_files.update("ch00_start", [], course)
    with pytest.raises(CommandError, match="named 'ch99'. There are: ch00_start, interface, pages"):
        translation_files.update("de", ["ch99"], course)


def test_the_command_shows_the_state_of_each_language_and_checks():
    rows = CliRunner().invoke(app, ["translate", "--status"]).output
    assert all(word in rows for word in ("de", "ch00_start", "interface", "%"))
    assert "Every translation has its" in CliRunner().invoke(app, ["translate", "de", "--check"]).output
