"""`catch_up()`: the answers so far, for somebody who comes late, from the room once its instructor has opened a section."""

from typing import Any

from coursekit.basics.cards import Note, plural
from coursekit.basics.readers_language import told
from coursekit.learner import session
from coursekit.learner.progress import load
from coursekit.learner.workshop import connection
from coursekit.learner.workshop.copied_answers import keep

HEAD = '# The answers to what comes before "{section}", from your instructor\'s room. They earn no points.'
NEXT = """\
{count}, {names}: they stand in a new cell below. Run the cells above first, then that one.
Your own cells stay as they are. An answer that you take over earns no points; one that you write later does."""


def catch_up(section: str = "") -> Note:
    """Take over the answers to the exercises before a section that your instructor has opened; what you have solved stays yours."""
    room = connection.current() if connection.joined() else None
    if room is None:
        return connection.OUTSIDE
    chapter = session.chapter()
    try:
        answer = room.post("/catch_up", {"chapter": chapter, "section": section[: connection.LINE]})
    except (connection.NoRoom, connection.Refused) as refused:
        return Note("Nothing was taken over", f"The room refuses: {refused}", "#dc2626")
    except Exception as error:
        return Note("Nothing was taken over", f"The room does not answer ({error}). Try again.", "#dc2626")
    title = str(answer["section"])
    solved = {name for name, each in load()[0].get(chapter, {}).items() if each.get("status") == "passed"}
    answers = {name: code for name, code in answer["answers"].items() if name not in solved}
    if not answers:
        return Note("You are up to date", f'You have solved all that comes before "{title}".', "#16a34a")
    keep(chapter, answers)
    source = "\n\n\n".join([told(HEAD.format(section=title)), *answers.values()])
    names = ", ".join(f"`{name}`" for name in answers)
    text = NEXT.format(count=plural(len(answers), "answer"), names=names)
    return Note(f"Up to: {title}", text, "#16a34a", "" if _new_cell(source) else source)


def _new_cell(source: str) -> bool:
    """Put code into a new cell below this one; return whether there is a notebook to do that."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None or not hasattr(shell, "payload_manager"):
        return False
    shell.set_next_input(source)
    return True
