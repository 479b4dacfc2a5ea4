/* Explorers are fetched when a reader comes near the first of them: until then a picture stands in their place. */
(function () {
  "use strict";

  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const FILES = ["explorer-data.js", "explorer-engine.js", "explorer-text.js", "explorer-picture.js",
    "explorer-training.js", "explorer.js"];
  let files = null;

  const fetched = file => new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), {src: folder + file, async: false});
    script.addEventListener("load", done);
    script.addEventListener("error", failed);
    document.head.append(script);
  });

  const near = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      files ??= Promise.all(FILES.map(fetched));
      files.then(() => window.lvqrejMountExplorer(target.querySelector(".explorer")));
    }
  }, {rootMargin: "600px"});
  document.querySelectorAll(".explorer-scene").forEach(place => near.observe(place));
})();
