// A page that was opened from a folder cannot fetch another, so the search takes the excerpts that it shows from a script.
const found = document.getElementById("search-results");
if (found) {
  const script = Object.assign(document.createElement("script"), { src: "_static/texts.js" });
  const loaded = new Promise((done) => (script.onload = done));
  document.head.append(script);
  window.fetch = async (page) => {
    await loaded;
    return new Response(`<main role="main">${TEXTS[page.slice("./".length, -".html".length)]}</main>`);
  };
}

// What the search finds stands below the heading that its page has in the sidebar: instructors' pages are apart from learners'.
if (found) {
  const groups = [...document.querySelectorAll(".bd-docs-nav .caption")].map((caption) => {
    const part = Object.assign(document.createElement("section"), { hidden: true });
    part.innerHTML = `<h3>${caption.innerHTML}</h3><ul class="search"></ul>`;
    return { part, pages: new Set([...caption.nextElementSibling.querySelectorAll("a")].map((link) => link.href)) };
  });
  found.after(...groups.map(({ part }) => part));
  new MutationObserver(() => {
    for (const item of found.querySelectorAll("li:has(> a)")) {
      const group = groups.find(({ pages }) => pages.has(item.querySelector("a").href.split("#")[0]));
      if (!group) continue;
      group.part.hidden = false;
      group.part.lastChild.append(item);
    }
  }).observe(found, { childList: true, subtree: true });
}

// The theme names this button "Search", which hides from a screen reader the keys that the button shows.
for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");

// The theme gives no name to what unfolds the pages below another one.
for (const summary of document.querySelectorAll("li.has-children summary")) {
  summary.setAttribute("aria-label", summary.closest("li").querySelector("a").textContent);
}

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
