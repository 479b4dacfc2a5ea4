/* The keyboard reaches a box that scrolls only if the box is a tab stop. The theme decides this when the page loads
   and when the window changes its size. A folded box has no size then, so that it is measured here when it opens. */
(function () {
  "use strict";

  const opened = new ResizeObserver(entries => {
    for (const {target: box} of entries) {
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      box.tabIndex = scrolls ? 0 : -1;
    }
  });
  document.querySelectorAll("pre, .cell_output > .output, .pst-scrollable-table-container")
    .forEach(box => opened.observe(box));
})();
