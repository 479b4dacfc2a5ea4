/* On a phone the panels of a figure that stand side by side go below each other. Where to cut is said by the figure's
   class, in thousandths of its width; each panel is the whole picture behind a window of its own. */
(function () {
  "use strict";

  const phone = window.matchMedia("(max-width: 600px)");

  function part(figure) {
    const cuts = figure.className.match(/\bpanels-([\d-]+)/)[1].split("-").map(Number);
    const picture = figure.querySelector("img"), place = figure.firstElementChild;
    const edges = [0, ...cuts, 1000];
    cuts.concat(1000).forEach((end, k) => {
      const start = edges[k], share = (end - start) / 1000;
      const panel = Object.assign(document.createElement("div"), {className: "panel"});
      // What the picture shows is said once.
      const window = Object.assign(document.createElement("img"), {src: picture.src, alt: k ? "" : picture.alt, loading: "lazy"});
      Object.assign(window.style, {maxWidth: "none", width: `${100 / share}%`, marginLeft: `${-start / 10 / share}%`});
      panel.append(window);
      place.before(panel);
    });
    figure.classList.add("in-panels");
  }

  function partAll() {
    if (phone.matches) document.querySelectorAll("figure[class*=panels-]:not(.in-panels)").forEach(part);
  }
  phone.addEventListener("change", partAll);
  partAll();
})();
