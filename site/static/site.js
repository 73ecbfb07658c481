// Opened from a folder, a page cannot fetch another: the search then lists pages without their text.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The theme names this button "Search", which hides from a screen reader the keys that the button shows.
for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");

// Formulas, and quizzes that answer back; a page needs no server for either.
for (const formula of document.querySelectorAll(".math")) {
  katex.render(formula.textContent, formula, { displayMode: formula.tagName === "DIV", throwOnError: false });
}

for (const quiz of document.querySelectorAll("form.quiz")) {
  const verdict = quiz.querySelector(".verdict");
  quiz.addEventListener("change", () => verdict.replaceChildren());
  quiz.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = quiz.querySelector("input:checked");
    const right = chosen.value === quiz.dataset.key;
    const reply = chosen.closest("p").querySelector(".reply").cloneNode(true);
    reply.hidden = false;
    verdict.className = `verdict ${right ? "right" : "wrong"}`;
    verdict.replaceChildren(right ? "✔ " : "✘ ", reply);
  });
}
