/* The definition of a glossary term where it is used: on hover and on focus, until Escape or until the reader leaves.
   The link itself still leads to the glossary. Definitions are fetched when the first one is asked for. */
(function () {
  "use strict";

  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const WAIT = 250;  // milliseconds: passing over a term is no question
  const tip = Object.assign(document.createElement("div"), {id: "term-definition", className: "term-definition", hidden: true});
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  const scripts = new Map();
  let asked = null, timer = 0;

  function fetched(address) {
    if (!scripts.has(address)) {
      scripts.set(address, new Promise((done, failed) => {
        const script = Object.assign(document.createElement("script"), {src: address});
        script.addEventListener("load", done);
        script.addEventListener("error", failed);
        document.head.append(script);
      }));
    }
    return scripts.get(address);
  }

  /* Below the term, or above it where there is no room, inside the window. */
  function position(link) {
    const box = link.getClientRects()[0], room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(box.left, 8), Math.max(room - tip.offsetWidth - 8, 8));
    const below = box.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(below ? box.bottom : box.top - tip.offsetHeight) + window.scrollY}px`;
  }

  async function show(link) {
    asked = link;
    await fetched(`${folder}definitions-data.js`);
    const {terms, mathjax} = window.lvqrejDefinitions, words = terms[link.hash.slice(1)];
    if (asked !== link || !words) return;
    tip.innerHTML = words;
    tip.hidden = false;
    link.setAttribute("aria-describedby", tip.id);
    position(link);
    if (!tip.querySelector(".math")) return;
    // A page without formulas of its own has no MathJax.
    if (!window.MathJax?.typesetPromise) await fetched(folder + mathjax);
    await window.MathJax.startup.promise;
    await window.MathJax.typesetPromise([tip]);
    if (asked === link) position(link);
  }

  function hide() {
    clearTimeout(timer);
    asked?.removeAttribute("aria-describedby");
    asked = null;
    tip.hidden = true;
  }

  const later = (action, ...values) => {
    clearTimeout(timer);
    timer = setTimeout(action, WAIT, ...values);
  };
  for (const word of document.querySelectorAll("a.reference .std-term")) {
    const link = word.closest("a");
    link.addEventListener("pointerenter", event => event.pointerType === "mouse" && later(show, link));
    link.addEventListener("pointerleave", () => later(hide));
    link.addEventListener("focus", () => link.matches(":focus-visible") && show(link));
    link.addEventListener("blur", hide);
  }
  // The pointer may go to the definition and stay there.
  tip.addEventListener("pointerenter", () => clearTimeout(timer));
  tip.addEventListener("pointerleave", () => later(hide));
  document.addEventListener("keydown", event => event.key === "Escape" && hide());
})();
