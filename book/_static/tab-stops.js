/* For readers who use a keyboard or a screen reader.

   The keyboard reaches a box that scrolls only if the box is a tab stop. The theme decides this when the page loads and
   when the window changes its size. A folded box is wider than the same box once it is opened, which may leave no room
   for the longest line: whatever changes its size is measured again. */
(function () {
  "use strict";

  const resized = new ResizeObserver(entries => {
    for (const {target: box} of entries) {
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      box.tabIndex = scrolls ? 0 : -1;
    }
  });
  document.querySelectorAll("pre, .cell_output > .output, .pst-scrollable-table-container")
    .forEach(box => resized.observe(box));

  // What unfolds the pages below an entry of the contents is an arrow without a name.
  document.querySelectorAll(".bd-sidebar-primary summary").forEach(arrow => {
    const entry = arrow.closest("li").querySelector("a");
    arrow.setAttribute("aria-label", `Pages of ${entry.textContent.trim()}`);
  });
})();
