/* The explorer: a point, a certainty and a threshold that the reader moves, and what follows from them.

   Everything shown comes from one state (option, threshold, point) by `update`; the data comes from the build
   (explorer-data.js), answers from explorer-engine.js, words from explorer-text.js, the plane from
   explorer-picture.js. explorer-loader.js fetches all of them when a reader comes near a place for an explorer, and
   calls `mount` for it. A place in a chapter is set to the chapter's scene and shows less: the plane, the threshold and
   the sentence. No request leaves the site. */
(function () {
  "use strict";

  const data = window.lvqrejExplorerData, engine = window.lvqrejEngine, text = window.lvqrejText;
  const STEP = 0.05, LEAP = 0.5;
  // A finger that moves no further than this, in pixels, has tapped.
  const SLOP = 10;
  const capital = words => words[0].toUpperCase() + words.slice(1);
  const minus = words => words.replace(/-(?=\d)/g, "−");
  const fixed = value => minus(value.toFixed(3));
  // How long the threshold takes to pass through its whole range, in milliseconds.
  const SWEEP = 8000;
  let mounted = 0;

  /* Put an explorer into a place; what it shows at first is said by the place's data attributes. */
  function mount(place) {
    if (place.dataset.option === "training") return window.lvqrejMountTraining(place);
    const scene = place.dataset, inChapter = scene.option !== undefined;
    const options = engine.makeOptions(data);
    const start = options.find(({key}) => key === scene.option) ?? options[0];
    if (scene.threshold) start.threshold = Number(scene.threshold);
    // Several explorers may share a page: each has names of its own.
    const own = mounted ? `-${mounted}` : "";
    mounted += 1;
    const shown = (scene.show ?? "cells alternatives").split(" ");
    const box = (name, words) => `<label><input type="checkbox" name="${name}"${shown.includes(name) ? " checked" : ""}>${words}</label>`;

    place.innerHTML = `
      <div class="explorer-main${inChapter ? " explorer-in-chapter" : ""}">
        <fieldset class="explorer-options"${inChapter && scene.choose === undefined ? " hidden" : ""}>
          <legend>Certainty</legend>
          <div>${options.map(option => `
            <label><input type="radio" name="explorer-option${own}" value="${option.key}"><span>${capital(option.name)}</span></label>`).join("")}
          </div>
        </fieldset>
        <div class="explorer-threshold">
          <label for="explorer-theta${own}">Threshold <span class="explorer-value"></span></label>
          <div class="explorer-scale">
            <div class="explorer-marks" aria-hidden="true"><span class="explorer-before"></span><span class="explorer-after"></span></div>
            <input id="explorer-theta${own}" type="range" step="0.01">
          </div>
          <p class="explorer-rate"></p>
        </div>
        <div class="explorer-plane">
          <canvas role="img"></canvas>
          <button type="button" class="explorer-handle" aria-describedby="explorer-keys${own}"></button>
        </div>
        <div class="explorer-panel">
          <p class="explorer-sentence" role="status"></p>${inChapter ? "" : `
          <table class="explorer-changes">
            <caption>What has to change <span class="explorer-outside">(star outside the picture)</span></caption>
            <thead><tr><th scope="col">feature</th><th scope="col">now</th><th scope="col">accepted</th><th scope="col">change</th></tr></thead>
            <tbody>${data.features.map((name, k) => `
              <tr><th scope="row">${name}</th>
                <td><input type="number" step="${STEP}" min="${data.limits[k][0]}" max="${data.limits[k][1]}" aria-label="${name} now"></td>
                <td></td><td><span class="explorer-change"></span><span class="explorer-bar" aria-hidden="true"><i></i></span></td></tr>`).join("")}
            </tbody>
            <tfoot>
              <tr><th scope="row">cost</th><td></td><td></td><td></td></tr>
              <tr><th scope="row">certainty</th><td></td><td></td><td></td></tr>
            </tfoot>
          </table>
          <table class="explorer-classes">
            <caption>What it costs to be accepted as</caption>
            <thead><tr><th scope="col">class</th><th scope="col">cost</th>${data.features.map(name => `<th scope="col">${name}</th>`).join("")}</tr></thead>
            <tbody>${data.classes.map((name, k) => `
              <tr><th scope="row">${symbol(data.markers[k], data.palette[k])}${name}</th><td></td>${data.features.map(() => "<td></td>").join("")}</tr>`).join("")}
            </tbody>
          </table>`}
        </div>
        <div class="explorer-tools">
          <p id="explorer-keys${own}" class="explorer-hint">Drag the cross or tap the plane; or use the arrow keys, with Shift in larger steps.</p>
          <div class="explorer-show" role="group" aria-label="Show">
            ${box("cells", "cells")}
            ${box("alternatives", "other classes")}
            ${box("samples", "wines")}
            <button type="button" class="explorer-reset">Start again</button>
            <button type="button" class="explorer-sweep" aria-pressed="false">Move the threshold</button>
          </div>
        </div>
      </div>`;

    /* A class's marker as a small drawing, in the shapes of the plane. */
    function symbol(shape, colour) {
      const path = {o: '<circle r="5"/>', s: '<rect x="-5" y="-5" width="10" height="10"/>', "^": '<path d="M0 -5.5L6 5H-6Z"/>'};
      return `<svg viewBox="-7 -7 14 14" width="14" height="14" aria-hidden="true" fill="${colour}" stroke="currentColor">${path[shape]}</svg>`;
    }

    const find = selector => place.querySelector(selector);
    const canvas = find("canvas"), handle = find(".explorer-handle"), slider = find(".explorer-scale input");
    const inputs = [...place.querySelectorAll(".explorer-changes input")];
    const picture = window.lvqrejPicture.makePicture(canvas, data);
    slider.style.setProperty("--explorer-colours", data.colours.join());

    const state = {option: start, theta: start.threshold, x: data.start.slice()};
    const chosen = new Map(options.map(option => [option.key, option.threshold]));
    let answer = null, waiting = false;

    /* One frame later, once, however many events came. */
    function change(values) {
      Object.assign(state, values);
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(update);
    }

    function update() {
      waiting = false;
      answer = engine.explain(state.option, data.classes, state.theta, state.x);
      draw();
      tell();
    }

    function draw() {
      const show = Object.fromEntries([...place.querySelectorAll(".explorer-show input")].map(box => [box.name, box.checked]));
      picture.draw({option: state.option, answer, show}, draw);
      const [left, top] = picture.px(answer.x);
      Object.assign(handle.style, {left: `${left}px`, top: `${top}px`});
    }

    /* Everything in words and numbers. */
    function tell() {
      const {option, theta, x} = state, found = answer.nearest;
      const said = text.sentence(option, data, answer, word => `<em>${word}</em>`);
      const [, verdict, rest] = capital(said).match(/^(\w+)(.*)$/);
      find(".explorer-sentence").innerHTML = minus(`<strong>${verdict}</strong>${rest}.`);
      place.dataset.accepted = answer.accepted;
      if (!inChapter) {
        tellChanges(option, found);
        tellClasses();
      }
      for (const radio of place.querySelectorAll(".explorer-options input")) radio.checked = radio.value === option.key;
      const [low, high] = option.range;
      Object.assign(slider, {min: low, max: high});
      slider.value = theta;
      const shown = theta.toFixed(2);
      find(".explorer-value").textContent = shown;
      slider.setAttribute("aria-valuetext", shown);
      const share = value => Math.min(Math.max((value - low) / (high - low), 0), 1);
      find(".explorer-before").style.setProperty("--at", share(answer.certainty));
      find(".explorer-after").style.setProperty("--at", share(found === null ? low : found.certainty));
      find(".explorer-after").hidden = found === null || answer.accepted;
      tellRate(option, theta);
      const named = point => minus(data.features.map((name, k) => `${name} ${point[k].toFixed(2)}`).join(", "));
      const where = named(x);
      handle.setAttribute("aria-label", `Point to explain: ${where}`);
      const outside = found !== null && !picture.holds(found.point);
      if (!inChapter) find(".explorer-outside").hidden = !outside;
      canvas.setAttribute("aria-label", `Map of the ${option.name} over ${data.features.join(" and ")}, `
        + `with the point at ${where}${found === null || answer.accepted ? "" : " and the nearest accepted point at "
        + named(found.point)
        + (outside ? ", outside the picture" : "")}.`);
    }

    function tellChanges(option, found) {
      const largest = found === null ? 0 : Math.max(...found.point.map((end, k) => Math.abs(end - state.x[k])));
      place.querySelectorAll(".explorer-changes tbody tr").forEach((row, k) => {
        if (document.activeElement !== inputs[k]) inputs[k].value = state.x[k].toFixed(2);
        const delta = found === null ? 0 : found.point[k] - state.x[k];
        row.cells[2].textContent = found === null ? "–" : fixed(found.point[k]);
        row.querySelector(".explorer-change").textContent = found === null ? "–" : delta === 0 ? "0" : (delta > 0 ? "+" : "") + fixed(delta);
        const bar = row.querySelector("i");
        bar.style.setProperty("--size", largest > 0 ? Math.abs(delta) / largest : 0);
        bar.classList.toggle("explorer-down", delta < 0);
      });
      const after = found === null ? answer.theta : found.certainty;
      const [before, then] = text.shownCertainties(answer.certainty, after, answer.theta);
      const [cost, certainty] = [...place.querySelectorAll(".explorer-changes tfoot tr")].map(row => row.cells);
      cost[3].textContent = found === null ? "–" : found.distance === 0 ? "0" : fixed(found.distance);
      certainty[1].textContent = before;
      certainty[2].textContent = found === null ? "–" : then;
    }

    function tellClasses() {
      place.querySelectorAll(".explorer-classes tbody tr").forEach((row, k) => {
        const other = answer.alternatives[k];
        row.classList.toggle("explorer-nearest", other !== null && other === answer.nearest);
        row.cells[1].textContent = other === null ? "cannot be" : other.distance === 0 ? "0" : fixed(other.distance);
        data.features.forEach((_, f) => {
          row.cells[2 + f].textContent = other === null ? "–" : fixed(other.point[f]);
        });
      });
    }

    /* What the threshold does to the wines the model was trained on. */
    function tellRate(option, theta) {
      option.judged ??= data.samples.map((x, k) => [option.certainty(x), option.predict(x) === data.labels[k]]);
      const accepted = option.judged.filter(([certainty]) => certainty >= theta);
      const right = accepted.filter(([, correct]) => correct).length;
      find(".explorer-rate").textContent = `Rejects ${data.samples.length - accepted.length} of ${data.samples.length} wines`
        + (accepted.length ? `; ${(100 * right / accepted.length).toFixed(1)} % of the others are right.` : ".");
    }

    /* A point of the plane with two decimals, inside the picture. */
    const tidy = x => x.map((value, k) => {
      const [low, high] = data.limits[k];
      return Math.round(Math.min(Math.max(value, low), high) * 100) / 100 + 0;
    });

    function pointAt(event) {
      const box = canvas.getBoundingClientRect();
      return tidy(picture.toData(event.clientX - box.left - grip[0], event.clientY - box.top - grip[1]));
    }

    // Dragging: by the handle with any pointer, from anywhere with a mouse or pen. A finger elsewhere scrolls or taps.
    let grip = [0, 0];
    function drag(event, offset) {
      grip = offset;
      handle.setPointerCapture(event.pointerId);
      place.classList.add("explorer-dragging");
      handle.focus({preventScroll: true});
      event.preventDefault();
    }
    handle.addEventListener("pointerdown", event => {
      const box = canvas.getBoundingClientRect(), [left, top] = picture.px(state.x);
      if (event.button === 0) drag(event, [event.clientX - box.left - left, event.clientY - box.top - top]);
    });
    handle.addEventListener("pointermove", event => {
      if (handle.hasPointerCapture(event.pointerId)) change({x: pointAt(event)});
    });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      handle.addEventListener(end, () => place.classList.remove("explorer-dragging"));
    }
    let tap = null;
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      if (event.pointerType === "touch") {
        tap = event;
        return;
      }
      grip = [0, 0];
      change({x: pointAt(event)});
      drag(event, [0, 0]);
    });
    // A tap is a finger lifted where it was put down: browsers make no click of a slow or a very short one.
    canvas.addEventListener("pointerup", event => {
      if (tap?.pointerId !== event.pointerId || Math.hypot(event.clientX - tap.clientX, event.clientY - tap.clientY) > SLOP) return;
      grip = [0, 0];
      change({x: pointAt(event)});
    });
    handle.addEventListener("keydown", event => {
      const way = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1]}[event.key];
      if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const step = event.shiftKey ? LEAP : STEP;
      change({x: tidy(state.x.map((value, k) => value + step * way[k]))});
    });
    inputs.forEach((input, k) => {
      input.addEventListener("input", () => {
        if (Number.isFinite(input.valueAsNumber)) change({x: tidy(state.x.map((value, f) => f === k ? input.valueAsNumber : value))});
      });
      input.addEventListener("blur", () => change({}));
    });
    slider.addEventListener("input", () => {
      stop();
      chosen.set(state.option.key, Number(slider.value));
      change({theta: Number(slider.value)});
    });
    place.addEventListener("change", event => {
      if (event.target.type === "radio") {
        stop();
        const option = options.find(({key}) => key === event.target.value);
        change({option, theta: chosen.get(option.key)});
      } else if (event.target.type === "checkbox") change({});
    });

    // The threshold by itself: up to the end of its range, then down to the start of it, until the reader takes over.
    const sweep = find(".explorer-sweep");
    let sweeping = 0;
    function stop() {
      cancelAnimationFrame(sweeping);
      sweeping = 0;
      sweep.setAttribute("aria-pressed", "false");
    }
    sweep.addEventListener("click", () => {
      if (sweeping) return stop();
      sweep.setAttribute("aria-pressed", "true");
      let last = performance.now(), way = 1;
      sweeping = requestAnimationFrame(function step(now) {
        const [low, high] = state.option.range;
        // A hidden page gets no frames: a long pause is not made up for.
        let theta = state.theta + way * (high - low) * Math.min(now - last, 100) / SWEEP;
        last = now;
        if (theta >= high || theta <= low) way = -way;
        theta = Math.min(Math.max(theta, low), high);
        chosen.set(state.option.key, theta);
        change({theta});
        sweeping = requestAnimationFrame(step);
      });
    });

    find(".explorer-reset").addEventListener("click", () => {
      stop();
      for (const option of options) chosen.set(option.key, option.threshold);
      change({theta: state.option.threshold, x: data.start.slice()});
    });

    // The picture follows the theme, the width and the density of the screen.
    new MutationObserver(() => change({})).observe(document.documentElement, {attributeFilter: ["data-theme"]});
    new ResizeObserver(() => change({})).observe(canvas.parentElement);
    window.addEventListener("resize", () => {
      picture.forget();
      change({});
    });

    update();

    /* For tests and the curious: set the state and get what is shown. */
    const asked = {
      set(key, theta, x) {
        stop();
        Object.assign(state, {option: options.find(option => option.key === key), theta, x: x.slice()});
        chosen.set(key, theta);
        update();
        return this.get();
      },
      get: () => ({...answer, option: state.option.key, sentence: text.sentence(state.option, data, answer)}),
    };
    place.classList.add("explorer-runs");
    window.lvqrejExplorer ??= asked;
    return asked;
  }

  window.lvqrejMountExplorer = mount;
})();
