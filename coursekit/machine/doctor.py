"""The preflight: `examine()` looks at this machine and ends in one verdict, with a fix for each problem."""

import html
from dataclasses import dataclass

from coursekit.basics.cards import plural
from coursekit.basics.readers_language import told
from coursekit.machine.facts import Facts, gather
from coursekit.machine.preflight import CHECKS, Finding

SIGNS = {"ok": "✔", "note": "•", "problem": "✘"}


@dataclass(frozen=True)
class Report:
    """All findings and the verdict: text in a terminal, a table in a notebook."""

    findings: tuple[Finding, ...]

    def having(self, status: str) -> list[Finding]:
        """Return the findings with this status."""
        return [finding for finding in self.findings if finding.status == status]

    @property
    def ready(self) -> bool:
        """Return whether the course can run here."""
        return not self.having("problem")

    @property
    def verdict(self) -> str:
        """Return one line."""
        if problems := self.having("problem"):
            return f"Not ready: fix the {plural(len(problems), 'problem')} above."
        return "Ready, with notes." if self.having("note") else "Ready."

    def text(self, only_what_matters: bool = False) -> str:
        """Return the report for a terminal; `only_what_matters` leaves out what is ok."""
        shown = [f for f in self.findings if not (only_what_matters and f.status == "ok")]
        return "\n".join([*map(_lines, shown), told(self.verdict)])

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(map(_row, self.findings))
        return f"<table><tbody>{rows}</tbody></table><p><b>{html.escape(told(self.verdict))}</b></p>"


def examine(facts: Facts | None = None) -> Report:
    """Return the report on this machine, or on the facts given."""
    facts = gather() if facts is None else facts
    return Report(tuple(check(facts) for check in CHECKS))


def _lines(finding: Finding) -> str:
    line = f"{SIGNS[finding.status]} {told(finding.name):<14}{told(finding.found)}"
    return f"{line}\n{'':<16}→ {told(finding.fix)}" if finding.fix else line


def _row(finding: Finding) -> str:
    found = html.escape(told(finding.found))
    if finding.fix:
        found += f"<br><span style='opacity:.8'>→ {html.escape(told(finding.fix))}</span>"
    cells = [SIGNS[finding.status], html.escape(told(finding.name)), found]
    return "<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells) + "</tr>"
