"""A page on which you play four in a row against any snapshot of a league, without a kernel: HTML and JavaScript in a frame."""

import html
import json
from collections.abc import Sequence
from typing import Any

from coursekit.given.four import COLUMNS, LINES, ROWS, Player

PAGE = """<!doctype html><meta charset="utf-8"><style>
:root{color-scheme:light dark} body{font:15px system-ui,sans-serif;margin:8px;color:#7687a0}
#board{display:grid;grid-template-columns:repeat(6,46px);gap:4px;margin:10px 0;width:max-content;padding:6px;border:2px solid #2563eb;border-radius:8px}
#board button{width:46px;height:46px;border-radius:50%;border:2px solid #94a3b8;background:#94a3b826;cursor:pointer}
#board button:focus-visible{outline:3px solid #2563eb;outline-offset:2px} #board .a{background:#7c3aed;border-color:#7c3aed} #board .b{background:#d97706;border-color:#d97706} #board .w{outline:4px solid #059669}
</style><label>Play against <select id="who"></select></label>
<button id="mine">You start</button> <button id="its">It starts</button> <button id="both">Watch it play itself</button>
<div id="board"></div><div id="says" role="status"></div><script>
const {players, lines, rows, columns} = DATA, board = document.getElementById("board"), who = document.getElementById("who");
Object.keys(players).forEach(name => who.add(new Option(name)));
who.selectedIndex = who.length - 1;
let stones, turn, human, over, timer;
const buttons = Array.from({length: rows * columns}, () => document.createElement("button"));  // made once, so that the focus stays
for (let r = rows - 1; r >= 0; r--) for (let c = 0; c < columns; c++) {
  const button = buttons[r * columns + c];
  button.tabIndex = r === rows - 1 ? 0 : -1;  // one stop for each column
  button.onclick = () => click(c);
  board.append(button);
}
document.onkeydown = event => { const c = Number(event.key) - 1; if (event.target !== who && c >= 0 && c < columns) click(c); };
const yours = before => before + `Your turn: click a column, or press 1 to ${columns}.`;
const free = c => stones[(rows - 1) * columns + c] === 0;
function scores(side) {
  const p = players[who.value], own = [], other = [];
  for (const line of lines) { let a = 0, b = 0; for (const i of line) { a += stones[i] === side; b += stones[i] === -side; } own.push(a); other.push(b); }
  const x = [...stones.map(s => +(s === side)), ...stones.map(s => +(s === -side)),
    ...own.map((a, i) => other[i] ? 0 : (a / 3) ** 2), ...other.map((b, i) => own[i] ? 0 : (b / 3) ** 2)];
  const h = p.b1.map((bias, j) => Math.max(0, x.reduce((sum, value, i) => sum + value * p.w1[i][j], bias)));
  return p.b2.map((bias, c) => free(c) ? h.reduce((sum, value, j) => sum + value * p.w2[j][c], bias) : -Infinity);
}
function choose(side) {
  const s = scores(side);
  if (human) return s.indexOf(Math.max(...s));
  const top = Math.max(...s), e = s.map(v => Math.exp(v - top)); let r = Math.random() * e.reduce((a, b) => a + b);
  for (let c = 0; c < columns; c++) { r -= e[c]; if (r <= 0 && free(c)) return c; }
  return s.indexOf(top);
}
function drop(c) {
  let r = 0; while (stones[r * columns + c] !== 0) r++;
  stones[r * columns + c] = turn;
  const four = lines.find(line => line.every(i => stones[i] === turn));
  over = Boolean(four) || stones.every(s => s !== 0);
  const name = human ? (turn === human ? "You have" : "It has") : (turn === 1 ? "Violet has" : "Amber has");
  turn = -turn; show(four);
  const next = turn === human ? yours(`It took column ${c + 1}. `) : "";
  document.getElementById("says").textContent = over ? (four ? name + " four in a row." : "It's a draw.") : next;
}
function show(four) {
  for (const [i, button] of buttons.entries()) {
    const stone = ["amber", "empty", "violet"][stones[i] + 1];
    button.className = {violet: "a", amber: "b", empty: ""}[stone] + (four && four.includes(i) ? " w" : "");
    button.setAttribute("aria-label", `column ${i % columns + 1}, row ${Math.floor(i / columns) + 1}: ${stone}`);
  }
}
function click(c) { if (over || turn !== human || !free(c)) return; drop(c); if (!over) drop(choose(turn)); }
function begin(side) {
  clearInterval(timer); stones = Array(rows * columns).fill(0); turn = 1; human = side; over = false; show();
  document.getElementById("says").textContent = side === 1 ? yours("") : "";
  if (side === -1) drop(choose(1));
  if (side === 0) timer = setInterval(() => over ? clearInterval(timer) : drop(choose(turn)), 500);
}
document.getElementById("mine").onclick = () => begin(1); document.getElementById("its").onclick = () => begin(-1);
document.getElementById("both").onclick = () => begin(0);
who.onchange = () => begin(1); begin(1);
</script>"""


def page(players: dict[str, Player]) -> str:
    """Return the page as text; the keys of `players` are their names."""
    lines = [[int(place) for place in line.nonzero()[0]] for line in LINES.T]
    rounded = {
        name: {part: _rounded(weights.tolist()) for part, weights in player.items()} for name, player in players.items()
    }
    data = {"players": rounded, "lines": lines, "rows": ROWS, "columns": COLUMNS}
    return PAGE.replace("DATA", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _rounded(numbers: Any) -> Any:
    return [_rounded(each) for each in numbers] if isinstance(numbers, Sequence) else round(numbers, 3)


def against(players: dict[str, Player]) -> Any:
    """Return a frame for the notebook, in which you play against them."""
    from IPython.display import HTML

    frame = f'<iframe srcdoc="{html.escape(page(players))}" width="420" height="400" style="border:0" title="Four in a row"></iframe>'
    return HTML(f"<div>{frame}</div>")  # IPython suggests IFrame for a bare frame
