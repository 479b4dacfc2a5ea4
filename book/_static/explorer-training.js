/* The training of the running example: prototypes that move, iteration after iteration, as the reader moves a slider. */
(function () {
  "use strict";

  const PAUSE = 150;  // milliseconds between two iterations
  let mounted = 0;

  function mount(place) {
    const data = window.lvqrejExplorerData, engine = window.lvqrejEngine, last = data.training.length - 1;
    const id = `explorer-iteration${mounted ? `-${mounted}` : ""}`;
    mounted += 1;
    place.innerHTML = `
      <div class="explorer-main explorer-in-chapter explorer-training">
        <div class="explorer-threshold">
          <label for="${id}">Iteration <span class="explorer-value"></span></label>
          <input id="${id}" type="range" min="0" max="${last}" step="1" value="0">
        </div>
        <div class="explorer-plane"><canvas role="img"></canvas></div>
        <div class="explorer-panel"><p class="explorer-sentence" role="status"></p></div>
        <div class="explorer-tools"><div class="explorer-show">
          <button type="button" class="explorer-sweep" aria-pressed="false">Train</button>
        </div></div>
      </div>`;
    const find = selector => place.querySelector(selector);
    const canvas = find("canvas"), slider = find("input"), button = find("button");
    const picture = window.lvqrejPicture.makePicture(canvas, data);
    let timer = 0, waiting = false;

    function update() {
      waiting = false;
      const step = slider.valueAsNumber, model = data.training[step];
      picture.drawTraining(step);
      const right = data.samples.filter((x, k) => model.labels[engine.nearest(model, x)] === data.classes[data.labels[k]]);
      const share = (100 * right.length / data.samples.length).toFixed(1);
      find(".explorer-value").textContent = `${step} of ${last}`;
      find(".explorer-sentence").textContent = `${step === 0 ? "Before the training" : `After ${step} iteration${step === 1 ? "" : "s"}`} `
        + `the cost is ${model.cost.toFixed(2).replace("-", "−")}, and ${share} % of the wines have the label of their nearest prototype.`;
      canvas.setAttribute("aria-label", `The region of each cultivar, the wines, and six prototypes after ${step} of ${last} iterations.`);
    }
    function change() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(update);
    }
    function stop() {
      clearInterval(timer);
      timer = 0;
      button.setAttribute("aria-pressed", "false");
    }
    slider.addEventListener("input", () => {
      stop();
      change();
    });
    button.addEventListener("click", () => {
      if (timer) return stop();
      if (slider.valueAsNumber === last) slider.value = 0;
      button.setAttribute("aria-pressed", "true");
      timer = setInterval(() => {
        slider.stepUp();
        change();
        if (slider.valueAsNumber === last) stop();
      }, PAUSE);
    });
    new MutationObserver(change).observe(document.documentElement, {attributeFilter: ["data-theme"]});
    new ResizeObserver(change).observe(canvas.parentElement);
    window.addEventListener("resize", () => {
      picture.forget();
      change();
    });
    place.classList.add("explorer-runs");
    update();
  }

  window.lvqrejMountTraining = mount;
})();
