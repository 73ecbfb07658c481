"""Chapters, docs and messages use the words that a native writer uses: few patterns, of whole words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coursekit.basics.paths import ROOT
from tests.chapters import CHAPTERS
from tests.prose import files

# What is refused, and what to write instead. The rest is for an editor's eye: no sentence is bent to please a pattern.
REFUSED = {
    r"\banew\b": '"again" or "from scratch"',
    r"\bwhoever\b": "who does it: a worker, a sampler, you",
    r"\bfor ever\b": '"forever"',
    r"\bmend(s|ed|ing)?\b": '"fix"',
    r"\bbelong(s|ed)? into\b": '"belong in"',
    r"\bso many\b(?!.*\bthat\b)": '"N of them", or the number',
}
SPELLING = "the American spelling"  # of pages as well
_TRAINING = "run|loop|set|step|job|process|program|script|iteration|batch|curve|environment|example|code|worker|data"
_COUNTED = "steps|calls|tasks|samples|frames|requests|tokens|iterations|updates|times|messages|rows|images"
_BRITISH = (
    "standard|recogn|normal|synchron|maxim|minim|vector|optim|central|util|summar|priorit|general|serial|initial|organ"
)
# In chapters: private words for what the field has a name for, and British spelling. Each with the
# chapters that refuse it ("" for all), what to write instead, and a sentence that has it.
FIELD = [
    (
        rf"\b({_COUNTED}) a (second|minute|hour)\b",
        "",
        '"per second"',
        "It makes 9 calls a second.",
    ),
    (r"\bper cent\b", "", '"5%"', "One per cent is lost."),
    (r"\bas a rule\b", "", '"usually"', "As a rule, it waits."),
    (r"\bin turn\b", "", '"alternately", "round-robin", or "one after the other"', "They run in turn."),
    (r"\b(in|out of) step\b(?! \d)", "", '"synchronously", "asynchronously"', "All sample in step."),
    (r"\btime-outs?\b", "", '"timeout"', "A time-out ends it."),
    (r"\bnaps?\b(?!`)", "", '"sleep"', "Each nap lasts a second."),
    (r"\b(can|cannot|can't) travel\b", "ch03", '"can\'t be pickled"', "A lock cannot travel."),
    (r"\bdead ends?\b", "ch04", '"infeasible"', "It is a dead end."),
    (r"\bledgers?\b", "ch04|ch18", '"resource accounting"', "Ray has a ledger."),
    (r"\bledgers?\b", "ch04|ch22", '"resource accounting"', "Ray has a ledger."),
    (r"\bmenus?\b", "ch04|ch24", '"node types"', "The menu has two machines."),
    (r"\b(lend(s|ing)?|lent)\b", "", '"release"', "It lends its CPU."),
    (r"(?<!in )\bfronts?\b", "ch18", '"ingress deployment"', "A front asks two policies."),
    (r"\bparcels?\b", "(?!ch20)", '"message"', "A parcel arrives."),
    (r"\bparcels?\b", "(?!ch20)", '"message"', "A parcel arrives."),
    (r"(?<!pre)(?<!post)\bprocessors?\b", "", '"CPU"', "It has two processors."),
    (r"\bhand(s|ed|ing)? over\b", "", '"deliver" or "pass"', "What you hand over is read."),
    (r"\b(the|its) playing\b", "", '"sampling"', "Only the playing gets faster."),
    (r"\bplayers?\b", "ch07", '"actor" or "sampler"', "Each player has an environment."),
    (r"\bsurprises?\b", "ch08|ch09", '"TD error"', "The surprise is large."),
    (r"\bprices?\b", "ch08", '"overhead" or "cost"', "Each has its price."),
    (r"\bsend(s|ing)? off\b|\bsent off\b", "ch08", '"start" or "launch"', "It is sent off again."),
    (r"\bgoodbyes?\b", "ch09", '"`None`, when a worker has finished"', "No goodbye comes."),
    (r"(?<!`)\boffices?\b", "ch09", '"manager"', "The office is a process."),
    (r"\bnewest\b", "ch09", '"latest" or "current"', "The newest network chooses."),
    (r"(?<![`.\w])runners?\b(?![`=_])", "ch12", '"EnvRunner"', "A runner samples."),
    (r"\b(a|the|next|two|takes) looks?\b", "ch16", '"perturbation"', "At the next look, it copies."),
    (r"\b(draws?|drawn|drew)\b", "ch16", '"sample"', "Tune draws every trial."),
    (r"\blives\b", "ch16", '"runs"', "A trial has two lives."),
    (r"\bplay(s|ed|ing|ers?)?\b", "ch10", '"sample", "collect"', "Each sampler plays 64 steps."),
    (r"\bscores?\b", "ch10", '"logits"', "The actor scores the actions."),
    (r"\bweights (that )?travel\b", "ch10", '"are sent"', "The weights travel once."),
    (r"\bdr(aws?|ew|awn|awing) (\w+ )?actions?\b", "ch11", '"sample"', "It draws its actions."),
    (r"\b(praise[ds]?|praising)\b", "ch14", '"bonus"', "It praises each step."),
    (r"\bdice\b", "", '"randomness"', "The dice decide."),
    (r"\btwo clocks\b", "", '"wall-clock time"', "There are two clocks."),
    (rf"\ba training\b(?! ({_TRAINING})\b)", "", '"a training run"', "A training ends."),
    (
        r"\bprices? of (a|the|each|one) (call|task|message|actor|copy)\b",
        "",
        '"overhead" or "cost"',
        "The price of a call.",
    ),
    (r"\bbills?\b", "ch20", '"budget"', "Ray's workers are on the bill."),
    (r"\brounds?\b", "ch20", '"iteration"', "A round takes a second."),
    (r"\bby the clock\b", "ch20", '"wall-clock time"', "It takes a second by the clock."),
    (r"\b(one|two|whose) minds?\b", "ch23", '"module"', "Two minds wait."),
    (r"\bmembers?\b", "ch23", '"snapshot", "agent", or "league player"', "The last member wins."),
    (r"\bnewest\b", "ch23", '"latest"', "The newest player."),
    (r"\bseats?\b", "ch23", '"moves first"', "In both seats."),
    (r"\bstones?\b", "ch23", '"disc"', "A stone falls."),
    (r"\bpages? of metrics\b", "ch24", '"metrics"', "Every node has a page of metrics."),
    (r"\bprices?\b", "ch26", '"KL penalty"', "New is a price."),
    (r"\bprices?\b", "ch22", '"penalty" or "cost"', "It puts a price on every step."),
    (r"\blooks\b(?! (like|at|only|where)\b)", "ch22", '"observations"', "The state holds two looks."),
    (r"\bwriters?\b", "ch26", '"rollout worker"', "Four writers write."),
    (r"\b(five|ten|same) looks\b", "ch19", '"steps" or "samples"', "The same five looks help."),
    (r"\bholes?\b", "ch26", '"loophole"', "It finds the hole."),
    (r"\bchecked rewards?\b", "ch26", '"verifiable reward"', "A checked reward."),
    (r"\bslots?\b", "ch06", '"CPU"', "The raylet hands out slots."),
    (r"\bill (node|head)s?\b", "ch06", '"broken node"', "Here is an ill node."),
    (r"\b(the|an?|each|one|every|remote|of) runners?\b", "ch13", '"EnvRunner"', "Each runner waits."),
    (r"\bplay(s|ed)? (on|in|its|their|steps)\b", "ch13", '"sample" or "collect"', "Both play on."),
    (r"\bweigh(s|ed|ing)?\b", "ch21", '"weight"', "V-trace weighs each step."),
    (r"\bsurprises?\b|\bround (a|the) ring\b", "ch21", '"TD error" or "around the ring"', "It goes round the ring."),
    (r"\b(a|the) mails?\b(?! server)", "ch25", '"an email"', "A step sends a mail."),
    (r"\bdoubled\b", "ch25", '"duplicated"', "The effect is doubled."),
    (r"\bright answers?\b", "ch26", '"correct completion"', "A right answer has six tokens."),
    (r"\bfull stops?\b", "ch26", '"period"', "It ends with a full stop."),
    (r"\b(a|the|its|their|each|of) clones?\b", "ch15", '"the BC policy"', "The clone plays."),
    (r"\b(a|the|its|their|each|of) clones?\b", "ch15", '"the BC policy"', "The clone plays."),
    (r"(?<!\\)\blogs?\b(?![- ]prob)", "ch15", '"dataset"', "A log never answers."),
    (r"\bweigh(s|ed|ing)?\b", "ch15", '"weight"', "Weigh each transition."),
    (r"\boutvotes?\b", "ch15", '"outnumber", "have more weight"', "They outvote the expert."),
    (
        r"(?<!`)\b(colour|grey|behaviour|neighbour|favour|centre|licence|programme)s?\b",
        "",
        "the American spelling",
        "It's grey.",
    ),
    (
        rf"(?<!`)(?!^Standardise$)\b(de|re|un)?({_BRITISH})is(e|es|ed|ing|ations?)\b",  # an exercise has this name
        "",
        SPELLING,
        "It is normalised.",
    ),
    (r"^It was called\b", "", "what was called", "It was called three times."),
    (r"\bseams?\b", "ch17", '"the restart"', "The curve has a seam."),
    (r"\bshar(e|ed|es|ing) out\b|\bshare of the weights\b", "ch17", '"shard"', "The weights are shared out."),
    (r"(?<!`)\b(analys|practis)(e|es|ed|ing)\b", "", SPELLING, "We analyse it."),
    (r"\b((label|model|travel|signal)l(ed|ing)|fulfil)\b", "", SPELLING, "It is labelled."),
]
FILES = [
    *sorted((ROOT / "chapters").glob("*.py")),
    *files("docs", ".md"),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *files("coursekit", ".py"),
]
SENTENCE = re.compile(r"(?<=[.?!:])\s+|\n\s*\n|\n(?=\s*[-|#>*])")


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each sentence that a reader can meet in a file, with its line."""
    for first, text in _texts(path):
        start = 0
        for end in [*(match.end() for match in SENTENCE.finditer(text)), len(text)]:
            sentence, lead = text[start:end].strip(), len(text[start:end]) - len(text[start:end].lstrip())
            yield first + text.count("\n", 0, start + lead), " ".join(sentence.split())
            start = end


def _texts(path: Path) -> list[tuple[int, str]]:
    """Return the text of a page, or the strings of a program: where each begins, and what it says."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [(1, text)]
    parts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inside = {id(child) for node in parts if isinstance(node, ast.JoinedStr) for child in node.values}
    return [(node.lineno, _said_by(node)) for node in parts if id(node) not in inside]


def _said_by(node: ast.JoinedStr | ast.Constant) -> str:
    """Return the words of a string; a placeholder is a dot-free word of its own."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)


def patterns_for(path: Path) -> dict[str, str]:
    """Return what is refused in a file, and what to write instead."""
    chapter = path.stem if path.stem in CHAPTERS else ""
    if not chapter and path.suffix == ".md":
        return REFUSED | {pattern: instead for pattern, _, instead, _ in FIELD if instead.startswith(SPELLING)}
    if not chapter:
        return REFUSED
    return REFUSED | {pattern: instead for pattern, where, instead, _ in FIELD if re.match(where, chapter)}


def refused(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {sentence!r}: write {instead} instead of {found[0]!r}"
        for line, sentence in said(path)
        for pattern, instead in patterns_for(path).items()
        if (found := re.search(pattern, sentence, re.IGNORECASE))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_sentence_uses_a_native_writers_words(path):
    assert not (found := refused(path)), "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (
            "First.\n\nIt starts anew. And on.",
            "3: 'It starts anew.': write \"again\" or \"from scratch\" instead of 'anew'",
        ),
        ("There are so many workers.", "1: 'There are so many workers.': write \"N of them\""),
        ("There are so many\nthat they wait.", ""),
        ("An amendment that recommends: forever.", ""),
        ("- Whoever waits\n- belongs\n  into a queue", "1: '- Whoever waits': write who does it"),
    ],
)
def test_a_remark_names_line_sentence_and_what_to_write(text, remark, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.rules.test_voice.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    found = refused(tmp_path / "page.md")
    assert found[0].startswith(f"page.md:{remark}") if remark else not found


@pytest.mark.parametrize(("pattern", "where", "instead", "sentence"), FIELD, ids=lambda value: str(value)[:20])
def test_each_private_word_is_found(pattern, where, instead, sentence):
    assert re.search(pattern, sentence, re.IGNORECASE)
    assert not re.search(pattern, instead.replace('"', ""))


def test_the_strings_of_a_program_are_read_and_its_code_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.rules.test_voice.ROOT", tmp_path)
    (tmp_path / "code.py").write_text('anew = 1  # whoever\n\nprint(f"{anew} is "\n    "mended")\n')
    [remark] = refused(tmp_path / "code.py")
    assert remark.startswith("code.py:3: '… is mended': write \"fix\"")
