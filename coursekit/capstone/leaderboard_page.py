"""The leaderboard as one HTML file that needs nothing else, in the reader's light or dark."""

import html
from pathlib import Path

from coursekit.basics.html_page import html_page
from coursekit.capstone import leaderboard
from coursekit.capstone.lead_chart import SHOWN, chart
from coursekit.capstone.leaderboard import Row
from coursekit.capstone.referee import EPISODES

TITLE = "Capstone leaderboard"
INTRODUCTION = f"""<h1>{TITLE}</h1>
<p class="small">Each run has its own world: prices, customers, and map. The rank depends on the lead over the baseline in the same {EPISODES} new episodes,
with its 95% confidence interval. If the intervals of two leads overlap, the entries share a rank.
With a budget of wall-clock time, the baseline is docs/example_entry.py, which trains before and after each entry on the same machine; the judge kills one worker of each.
A learning curve is what the entry reported about itself, minus what the baseline earns in its world.</p>"""
EMPTY = "<p>No entry has been judged yet. Run one: <code>coursekit capstone run my_entry.py</code></p>"
HEADS = ("rank", "entry", "lead", "score", "baseline", "prices known", "CPU s", "wall-clock s", "date", "remarks")


def write_leaderboard() -> Path:
    """Write the leaderboard's page and return where it is."""
    path = leaderboard.folder() / "board.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(leaderboard.rows()), encoding="utf-8")
    return path


def page(rows: list[Row], below: str = "") -> str:
    """Return the page with a section for each league, and `below` them what else is to be shown, as HTML."""
    sections = [_section(league, ranked) for league, ranked in leaderboard.leagues(rows).items()]
    body = [INTRODUCTION, *(sections or [EMPTY]), below]
    return html_page(TITLE, "\n".join(body), "leaderboard")


def _section(league: leaderboard.League, ranked: list[Row]) -> str:
    version, by_clock, seconds = league
    name = f"{seconds:g} seconds of wall-clock time, with a slow simulator" if by_clock else f"{seconds:g} CPU seconds"
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    ranks = leaderboard.ranks(ranked)
    lines = [
        _row(row, leaderboard.spoken(rank, ranks), place)
        for place, (row, rank) in enumerate(zip(ranked, ranks, strict=True), 1)
    ]
    return (
        f"<h2>{name}, version {version} of the warehouse</h2>\n"
        f'<div class="wide">{chart(ranked)}</div>\n<div class="wide"><table>\n<tr>{heads}</tr>\n{"".join(lines)}</table></div>'
    )


def _row(row: Row, rank: str, place: int) -> str:
    swatch = f'<span class="swatch c{place}"></span>' if place <= SHOWN else ""
    cells = [
        f"{swatch}{rank}",
        f"<b>{html.escape(row.name)}</b>",
        f"<b>{row.lead.mean:+.1f}</b> ± {(row.lead.high - row.lead.low) / 2:.1f}",
        *(f"{score.mean:.1f}" for score in (row.score, row.baseline, row.informed)),
        f"{row.cpu:.1f}",
        f"{row.wall:.1f}",
        html.escape(row.when[:10]),
        html.escape(remarks(row)),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def remarks(row: Row) -> str:
    """Return what a reader has to know of a row beside its numbers."""
    lived = "an actor was killed" if row.killed else "no actor to kill: not ranked"
    by_clock = [lived, row.machine, f"the baseline's two runs {row.spread:.1f} apart"]
    notes = [
        f"{row.file} {row.fingerprint}",
        *(["seed chosen: not ranked"] if row.chosen else []),
        *(by_clock if row.by_clock else []),
        *([] if row.sandboxed else ["without a sandbox"]),
        *(["CPU by process times"] if row.measured == "processes" else []),
        *([] if row.curve else ["no curve reported"]),
    ]
    return ", ".join(notes)
