"""The ten questions at the beginning and the end of a workshop: what the room answered, both times, side by side."""

import math
from collections import Counter
from html import escape

from coursekit.basics.cards import plural, prose
from coursekit.basics.html_page import html_page
from coursekit.basics.readers_language import spoken, told
from coursekit.learner.workshop.ten_questions import QUESTIONS, UNKNOWN, all_ten
from coursekit.room.incoming import Event

STEPS = {  # what the instructor goes through, and what the button says that leads there
    "before": "Count answers as before",
    "after": "Count answers as after, from now on",
    "results": "Show the results",
}
TITLES = {
    "before": "Ten questions, before",
    "after": "Ten questions, after",
    "results": "Ten questions, before and after",
}
TYPE = "from coursekit import ten_questions; ten_questions()"
SCRIPT = """
for (const button of document.querySelectorAll("button")) button.onclick = async () => {
  const body = JSON.stringify({ doing: "ten", name: button.value })
  await fetch("do", { method: "POST", headers: { "Content-Type": "application/json" }, body })
  location.reload()
}
if (!document.querySelector("ol")) setTimeout(() => location.reload(), 5000)
"""


class BeforeAndAfter:
    """Everybody's answers, and when the second round began; somebody's last answers of a round count."""

    def __init__(self) -> None:
        self.step, self._turned = "before", math.inf
        self._answers: list[tuple[float, str, str]] = []  # when, who, ten letters

    def do(self, step: str, at: float) -> None:
        """Go to a step, or back to one; raises ValueError where there is no such one."""
        if step not in STEPS:
            raise ValueError("there is no such step")
        if step == "before":
            self._turned = math.inf
        elif self._turned == math.inf:
            self._turned = at
        self.step = step

    def take(self, person: str, event: Event, at: float) -> None:
        """Take in ten answers as given when they were sent, however late they come."""
        if len(event.line) == len(QUESTIONS):
            self._answers.append((at - event.seconds, person, event.line))

    def rounds(self) -> tuple[list[str], list[str]]:
        """Return the letters of each person, before and after."""
        both: tuple[dict[str, str], dict[str, str]] = {}, {}
        for at, person, letters in sorted(self._answers):
            both[at >= self._turned][person] = letters
        return list(both[0].values()), list(both[1].values())

    def page(self) -> str:
        """Return the page for the projector: nobody's name is on it, and no answer before the results."""
        before, after = self.rounds()
        counts = told(f"{plural(len(before), 'answer')} before, {len(after)} after")
        steps = list(STEPS)
        next_to = [step for step in steps if abs(steps.index(step) - steps.index(self.step)) == 1]
        buttons = "".join(f"<button value='{step}'>{told(STEPS[step])}</button> " for step in next_to)
        shown = (
            results(before, after) if self.step == "results" else f"<p>{told('Type into a cell:')}</p><pre>{TYPE}</pre>"
        )
        body = f"<h1>{told(TITLES[self.step])}</h1><p>{counts}</p>{shown}<p class='steps'>{buttons}</p>"
        return html_page(told("Ten questions"), f"{body}<script>{SCRIPT}</script>", "ten_questions", spoken())


def results(before: list[str], after: list[str]) -> str:
    """Return the questions as HTML, with how often each option was chosen in both rounds."""
    questions = all_ten()
    keys = [key for *_, key in questions]
    right = (
        [sum(map(str.__eq__, letters, keys)) for letters in before],
        [sum(map(str.__eq__, letters, keys)) for letters in after],
    )
    means = [f"{sum(each) / len(each):.1f}" if each else "–" for each in right]
    items = []
    head = f"<tr><td></td><td></td><th scope=col>{told('before')}</th><th scope=col>{told('after')}</th></tr>"
    for place, ((chapter, _), (question, options, key)) in enumerate(zip(QUESTIONS, questions, strict=True)):
        rounds = [Counter(letters[place] for letters in each) for each in (before, after)]
        texts = [(letter, told(text, chapter)) for letter, (text, _) in options.items()]
        rows = [
            f"<tr{' class=right' if letter == key else ''}><th scope=row>{letter}</th><td>{prose(text)}</td>"
            + "".join(_bar(votes[letter], votes.total()) for votes in rounds)
            for letter, text in [*texts, (UNKNOWN, told("I don't know."))]
        ]
        items.append(f"<li><p>{prose(told(question, chapter))}</p><table>{head}{''.join(rows)}</table></li>")
    said = told("Right answers: {before} of {all} before, {after} after (means).")
    said = said.format(before=means[0], all=len(keys), after=means[1])
    return f"<p class='means'>{said}</p><ol>{''.join(items)}</ol>"


def _bar(count: int, most: int) -> str:
    width = 100 * count / max(most, 1)
    return f"<td class=bar><i style='width:{width:.0f}%'></i><span>{escape(str(count))}</span></td>"
