/* Breaks into pages what is taller than one, heads each with its section, and shows the room's votes beside a quiz. */
const Pages = (() => {
  const HEIGHT = 704 // of 720: the rest is for what lines, bars and borders stand out
  const WIDTH = 1280
  const LEAST = 18 // of 720: the smallest letters
  const GAP = 56 // of margins, above the first thing on a page
  const HEADING = "h1, h2"
  const CONTENT = "h1, h2, h3, p, li, pre > *, img, svg, table, tr, .jp-OutputArea-output > *"
  const WHOLE = "ul, ol, pre, table, tbody" // divided only where one is taller than a page

  const box = element => element.getBoundingClientRect()

  /* Put each line of code into an element of its own, so that a long listing can be divided and a long line be wrapped. */
  function lines(pre) {
    const rows = [document.createElement("div")]
    for (const node of [...pre.childNodes]) {
      node.textContent.split("\n").forEach((text, number) => {
        if (number) rows.push(document.createElement("div"))
        const part = node.cloneNode(false)
        part.textContent = text
        rows.at(-1).append(part)
      })
    }
    while (rows.length > 1 && !rows.at(-1).textContent) rows.pop()
    rows.forEach(row => {
      row.className = "line"
      row.style.setProperty("--indent", `${row.textContent.search(/\S|$/) + 4}ch`)
    })
    pre.replaceChildren(...rows)
  }

  /* Make something smaller, but not so small that it can't be read from the last row. */
  function zoom(element, factor) {
    element.style.zoom = Math.max(factor, LEAST / parseFloat(getComputedStyle(element).fontSize))
  }

  function narrow(section) {
    for (const each of section.querySelectorAll("table, .katex-display > .katex")) {
      const width = Math.max(box(each).width, each.scrollWidth)
      if (width > WIDTH) zoom(each, (WIDTH - 4) / width)
    }
  }

  /* Make something smaller until it ends above the limit. */
  function shrink(element, limit) {
    for (let times = 0; times < 5 && box(element).bottom > limit; times++) {
      const now = Number(element.style.zoom || 1)
      zoom(element, 0.98 * now * (limit - box(element).top) / box(element).height)
    }
  }

  /* Return a copy of a node with what does not fit above the limit, null where all does; `top` is where the page's content begins. */
  function cut(node, top, limit) {
    const children = [...node.children]
    for (const [number, child] of children.entries()) {
      if (box(child).bottom <= limit || box(child).bottom <= top) continue
      const tall = box(child).height > limit - top - GAP
      const part = child.matches(tall ? `div, blockquote, ${WHOLE}` : "div") ? cut(child, top, limit) : null
      if (!part && box(child).top < top + GAP) { // it has the page to itself, and cannot be divided
        shrink(child, limit)
        continue
      }
      let from = part ? number + 1 : number
      if (!part) while (from > 0 && children[from - 1].matches("h1, h2, h3") && box(children[from - 1]).top > top) from--
      const rest = node.cloneNode(false)
      rest.removeAttribute("id")
      rest.append(...(part ? [part] : []), ...children.slice(from))
      if (node.tHead && part && box(node.tHead).height < GAP) rest.prepend(node.tHead.cloneNode(true))
      if (part && !child.querySelector(CONTENT)) child.remove() // all of it has moved
      return rest
    }
    return null
  }

  /* Return the heading that a page begins with. */
  function opening(section) {
    const first = section.querySelector(CONTENT)
    return first && first.matches(HEADING) ? first : null
  }

  function headed(section, heading) {
    if (!heading || opening(section)) return
    const again = heading.cloneNode(true)
    again.removeAttribute("id")
    again.classList.add("again")
    section.prepend(again)
  }

  let notes = []

  /* Break a slide into pages; each has the notes of all of it, or of the slide before. Return the heading of the last. */
  function divide(section, heading) {
    const pages = [section], own = [...section.querySelectorAll("aside.notes")]
    if (own.length) notes = own
    own.forEach(note => note.remove())
    for (let page = section; page; ) {
      headed(page, heading)
      page.classList.add("measured")
      narrow(page)
      const head = opening(page)
      const rest = cut(page, head ? box(head).bottom : box(page).top, box(page).top + HEIGHT)
      page.classList.remove("measured")
      heading = [...page.querySelectorAll(HEADING)].at(-1) || heading
      if (rest) {
        page.after(rest)
        pages.push(rest)
      }
      page = rest
    }
    for (const page of pages) {
      page.append(...notes.map(note => note.cloneNode(true)))
      if (section.dataset.timing) page.dataset.timing = Math.ceil(section.dataset.timing / pages.length)
    }
    return heading
  }

  /* Break every slide, once pictures and fonts are there to be measured. */
  async function make() {
    await Promise.all([document.fonts.ready, ...[...document.images].map(image => image.decode().catch(() => {}))])
    document.querySelectorAll(".jp-InputArea pre, .jp-OutputArea pre, .jp-RenderedMarkdown pre").forEach(lines)
    document.body.classList.add("breaking")
    for (const stack of document.querySelectorAll(".slides > section")) {
      let heading = null
      stack.classList.add("measured")
      for (const section of [...stack.children]) heading = divide(section, heading)
      stack.classList.remove("measured")
    }
    document.body.classList.remove("breaking")
  }

  return { make }
})()

/* The votes on a quiz, while `coursekit room` serves the slides. A connection is open while a quiz is shown. */
const Votes = (() => {
  const served = window === top && location.protocol === "http:" && location.pathname.startsWith("/slides/")
  let events = null

  function draw(slide, question) {
    const quiz = slide.querySelector("[data-quiz]")
    const here = question && quiz.dataset.quiz === `${question.chapter} ${question.name}` ? question : null
    const closed = here && here.phase === "closed"
    quiz.textContent = here ? here.votes.map((count, round) => quiz.dataset[round ? "second" : "first"].replace("{count}", count)).join(", ") : ""
    slide.querySelectorAll("[data-option]").forEach(item => {
      const option = closed && here.options.find(each => each.letter === item.dataset.option)
      const votes = option ? option.votes : []
      item.classList.toggle("right", !!option && option.right)
      item.dataset.votes = votes.join(" → ")
      item.style.setProperty("--first", `${votes.length ? 100 * votes[0] / Math.max(1, here.votes[0]) : 0}%`)
      item.style.setProperty("--second", `${votes.length > 1 ? 100 * votes[1] / Math.max(1, here.votes[1]) : 0}%`)
    })
  }

  function follow(slide) {
    if (events) events.close()
    events = null
    if (!served || !slide.querySelector("[data-quiz]")) return
    const source = events = new EventSource("/events?names=0")
    source.onmessage = event => draw(slide, JSON.parse(event.data).question)
    source.onerror = () => source.close() // the room was closed; the next slide with a quiz asks again
  }

  /* Say which option each line of a quiz is, so that it can have a bar. */
  function mark() {
    for (const quiz of document.querySelectorAll("[data-quiz]")) {
      for (const item of quiz.parentElement.querySelectorAll("ul:last-of-type > li")) item.dataset.option = item.textContent.trim()[0]
    }
  }

  return { mark, follow }
})()
