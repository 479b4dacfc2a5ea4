/* The explorer's picture: certainty as a map, the accepted set and its cells, prototypes and changes, on a canvas.

   The map and the pieces of the accepted set do not depend on the point, so dragging it only redraws. */
(function () {
  "use strict";

  const MARGIN = {left: 46, right: 10, top: 8, bottom: 44};
  const FINE = 440, COARSE = 110;  // columns of the map
  const RAYS = 720;
  const INK = "#000000", PAPER = "#ffffff", GOLD = "#ffd700";

  /* A polygon around a convex cell, seen from a point inside; all relative to the cell's origin. */
  function outline(constraints, inside) {
    const [u, v] = inside, far = 40, points = [];
    for (let k = 0; k < RAYS; k++) {
      const c = Math.cos(2 * Math.PI * k / RAYS), s = Math.sin(2 * Math.PI * k / RAYS);
      let reach = far;
      for (const f of constraints) {
        const a = f.xx * c * c + 2 * f.xy * c * s + f.yy * s * s;
        const b = (2 * (f.xx * u + f.xy * v) + f.x) * c + (2 * (f.xy * u + f.yy * v) + f.y) * s;
        const now = window.lvqrejEngine.value(f, u, v);
        // The positive root of a t^2 + b t + now, where now <= 0, without cancellation.
        const root = -2 * now / (b + Math.sqrt(Math.max(b * b - 4 * a * now, 0)));
        if (root >= 0 && root < reach) reach = root;
      }
      points.push([u + reach * c, v + reach * s]);
    }
    return points;
  }

  /* A large square, cut by half-planes. */
  function clipped(constraints) {
    let polygon = [[-40, -40], [40, -40], [40, 40], [-40, 40]];
    for (const f of constraints) {
      const cut = [];
      polygon.forEach((p, k) => {
        const q = polygon[(k + 1) % polygon.length];
        const a = f.x * p[0] + f.y * p[1] + f.c, b = f.x * q[0] + f.y * q[1] + f.c;
        if (a <= 0) cut.push(p);
        if (a < 0 !== b < 0 && a !== b) cut.push([0, 1].map(i => p[i] + (q[i] - p[i]) * a / (a - b)));
      });
      polygon = cut;
    }
    return polygon;
  }

  /* A point inside a cell: the deepest of a lattice around its origin; null if none is. */
  function inner(constraints) {
    let best = null, deepest = 0;
    for (let i = -40; i <= 40; i++) {
      for (let j = -40; j <= 40; j++) {
        const depth = Math.max(...constraints.map(f => window.lvqrejEngine.value(f, i / 12, j / 12) / f.size));
        if (depth < deepest) [deepest, best] = [depth, [i / 12, j / 12]];
      }
    }
    return best;
  }

  function polygonOf(cell, origin) {
    let points;
    if (cell.constraints.every(f => f.flat)) points = clipped(cell.constraints);
    else {
      const inside = cell.inside ? [cell.inside[0] - origin[0], cell.inside[1] - origin[1]] : inner(cell.constraints);
      points = inside === null ? [] : outline(cell.constraints, inside);
    }
    return points.map(p => [p[0] + origin[0], p[1] + origin[1]]);
  }

  /* Values of a function on a lattice, with a rim below every threshold, so that all its contours close. */
  function lattice(height, limits, columns) {
    const pitch = (limits[0][1] - limits[0][0]) / columns;
    const rows = Math.ceil((limits[1][1] - limits[1][0]) / pitch);
    const low = limits.map(limit => limit[0] - 4 * pitch), n = columns + 9, m = rows + 9;
    const values = new Float64Array(n * m).fill(-1);
    for (let j = 1; j < m - 1; j++) {
      for (let i = 1; i < n - 1; i++) values[j * n + i] = height([low[0] + i * pitch, low[1] + j * pitch]);
    }
    return {values, n, m, low, pitch};
  }

  /* The closed lines on which a lattice's values equal theta (marching squares, linked). */
  function contours({values, n, m, low, pitch}, theta) {
    const next = new Map();
    const bottom = (i, j) => 2 * (j * n + i), left = (i, j) => 2 * (j * n + i) + 1;
    for (let j = 0; j < m - 1; j++) {
      for (let i = 0; i < n - 1; i++) {
        const at = j * n + i;
        const [a, b, c, d] = [values[at], values[at + 1], values[at + n + 1], values[at + n]].map(v => v >= theta);
        if (a === b && b === c && c === d) continue;
        // Corners in turn; from where the border enters the inside to where it leaves it.
        const sides = [[a, b, bottom(i, j)], [b, c, left(i + 1, j)], [c, d, bottom(i, j + 1)], [d, a, left(i, j)]];
        sides.forEach(([p, q, edge], k) => {
          if (!p || q) return;
          let turn = k;
          do turn = (turn + 3) % 4; while (!(!sides[turn][0] && sides[turn][1]));
          next.set(edge, sides[turn][2]);
        });
      }
    }
    const place = edge => {
      const at = edge >> 1, i = at % n, j = (at - i) / n, over = edge & 1 ? n : 1;
      const s = (theta - values[at]) / (values[at + over] - values[at]);
      return [low[0] + (i + (over === 1 ? s : 0)) * pitch, low[1] + (j + (over === 1 ? 0 : s)) * pitch];
    };
    const loops = [];
    while (next.size > 0) {
      const loop = [];
      for (let edge = next.keys().next().value; next.has(edge);) {
        loop.push(place(edge));
        const following = next.get(edge);
        next.delete(edge);
        edge = following;
      }
      loops.push(loop);
    }
    return loops;
  }

  /* Markers as in the book's figures. */
  const SHAPES = {
    o: r => { const p = new Path2D(); p.arc(0, 0, r, 0, 7); return p; },
    s: r => { const p = new Path2D(); p.rect(-0.9 * r, -0.9 * r, 1.8 * r, 1.8 * r); return p; },
    "^": r => new Path2D(`M0 ${-1.1 * r}L${1.1 * r} ${0.9 * r}L${-1.1 * r} ${0.9 * r}Z`),
    "*": r => new Path2D(Array.from({length: 10}, (_, k) => {
      const size = k % 2 ? 0.45 * r : r, angle = Math.PI * k / 5;
      return `${k ? "L" : "M"}${size * Math.sin(angle)} ${-size * Math.cos(angle)}`;
    }).join("") + "Z"),
    X: r => {
      const a = 0.35 * r, corners = [[0, -a], [r - a, -r], [r, a - r], [a, 0], [r, r - a], [r - a, r], [0, a],
        [a - r, r], [-r, r - a], [-a, 0], [-r, a - r], [a - r, -r]];
      return new Path2D(`M${corners.map(([x, y]) => `${x} ${y}`).join("L")}Z`);
    },
    // Its tip is at the place itself, but for the rim.
    arrow: r => new Path2D(`M0 3L${r} ${2 * r}L0 ${1.5 * r}L${-r} ${2 * r}Z`),
  };

  function makePicture(canvas, data) {
    const pen = canvas.getContext("2d"), limits = data.limits;
    const colours = data.colours.map(hex => [1, 3, 5].map(k => parseInt(hex.slice(k, k + 2), 16)));
    const maps = new Map(), lattices = new Map(), pieces = new Map();
    let width = 0, plot = {x: MARGIN.left, y: MARGIN.top, w: 0, h: 0};

    const spans = limits.map(([low, high]) => high - low);
    const px = p => [plot.x + (p[0] - limits[0][0]) / spans[0] * plot.w, plot.y + (limits[1][1] - p[1]) / spans[1] * plot.h];
    const toData = (x, y) => [
      limits[0][0] + (x - plot.x) / plot.w * spans[0], limits[1][1] - (y - plot.y) / plot.h * spans[1]];

    function resize() {
      width = canvas.parentElement.clientWidth;
      plot = {...plot, w: width - MARGIN.left - MARGIN.right};
      plot.h = plot.w * spans[1] / spans[0];
      const height = plot.h + MARGIN.top + MARGIN.bottom, dense = window.devicePixelRatio || 1;
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
      pen.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
    }

    /* Fill rows of a map until the time is up; `later` is called when it is finished after all. */
    function paint(option, columns, milliseconds, later) {
      const rows = Math.round(columns * spans[1] / spans[0]);
      const board = Object.assign(document.createElement("canvas"), {width: columns, height: rows});
      const brush = board.getContext("2d"), image = brush.createImageData(columns, rows);
      const [low, high] = option.range, last = colours.length - 1;
      let row = 0;
      function some(budget) {
        const end = performance.now() + budget;
        for (; row < rows && performance.now() < end; row++) {
          const y = limits[1][1] - (row + 0.5) / rows * spans[1];
          for (let column = 0; column < columns; column++) {
            const r = option.certainty([limits[0][0] + (column + 0.5) / columns * spans[0], y]);
            const t = last * Math.min(Math.max((r - low) / (high - low), 0), 1);
            const k = Math.min(Math.floor(t), last - 1), s = t - k, at = 4 * (row * columns + column);
            for (let c = 0; c < 3; c++) image.data[at + c] = colours[k][c] + s * (colours[k + 1][c] - colours[k][c]);
            image.data[at + 3] = 255;
          }
        }
        if (row < rows) setTimeout(some, 0, 8);
        else {
          brush.putImageData(image, 0, 0);
          later(board);
        }
      }
      some(milliseconds);
    }

    /* The map of an option: coarse at once, fine as soon as it is there. */
    function mapOf(option, redraw) {
      if (!maps.has(option.key)) {
        paint(option, COARSE, Infinity, board => maps.set(option.key, board));
        paint(option, FINE, 0, board => {
          maps.set(option.key, board);
          redraw();
        });
      }
      return maps.get(option.key);
    }

    /* The pieces of the accepted set as polygons: cells, or for probabilities what each class accepts. */
    function piecesOf(option, theta) {
      const kept = pieces.get(option.key);
      if (kept && kept.theta === theta) return kept.polygons;
      let polygons;
      if (option.exact) polygons = option.cells(theta, [0, 0]).map(cell => polygonOf(cell, [0, 0]));
      else {
        if (!lattices.has(option.key)) {
          lattices.set(option.key, data.classes.map((_, k) => lattice(x => option.probability(x, k), limits, 160)));
        }
        polygons = lattices.get(option.key).flatMap(values => contours(values, theta));
      }
      polygons = polygons.filter(polygon => polygon.length > 2);
      pieces.set(option.key, {theta, polygons});
      return polygons;
    }

    function pathOf(polygons) {
      const path = new Path2D();
      for (const polygon of polygons) {
        polygon.forEach((p, k) => path[k ? "lineTo" : "moveTo"](...px(p)));
        path.closePath();
      }
      return path;
    }

    function marker(shape, p, size, fill, rim, rimWidth, angle = 0) {
      pen.save();
      pen.translate(...px(p));
      pen.rotate(angle);
      const path = SHAPES[shape](size);
      pen.lineJoin = "round";
      pen.lineWidth = 2 * rimWidth;
      pen.strokeStyle = rim;
      pen.stroke(path);
      pen.fillStyle = fill;
      pen.fill(path);
      pen.restore();
    }

    const holds = p => limits.every(([low, high], k) => p[k] >= low && p[k] <= high);

    /* Where a change ends: a marker or, if that is outside the picture, an arrow at its rim that points there. */
    function end(shape, p, ...look) {
      const rim = p.map((value, k) => Math.min(Math.max(value, limits[k][0]), limits[k][1]));
      const [[x, y], [left, top]] = [px(p), px(rim)];
      if (holds(p)) marker(shape, p, ...look);
      else marker("arrow", rim, ...look, Math.atan2(x - left, top - y));
    }

    /* The way of a change, one feature after the other. */
    function way(from, to) {
      const path = new Path2D();
      [from, [to[0], from[1]], to].forEach((p, k) => path[k ? "lineTo" : "moveTo"](...px(p)));
      return path;
    }

    function stroke(path, colour, lineWidth, dash = []) {
      pen.save();
      pen.setLineDash(dash);
      Object.assign(pen, {strokeStyle: colour, lineWidth, lineJoin: "round", lineCap: dash.length ? "butt" : "round"});
      pen.stroke(path);
      pen.restore();
    }

    function drawAxes() {
      const style = getComputedStyle(canvas);
      pen.fillStyle = pen.strokeStyle = style.color;
      pen.font = `13px ${style.fontFamily}`;
      pen.lineWidth = 1;
      pen.textAlign = "center";
      for (let t = Math.ceil(limits[0][0]); t <= limits[0][1]; t++) {
        const [x] = px([t, 0]);
        pen.fillRect(Math.round(x), plot.y + plot.h, 1, 5);
        pen.fillText(String(t).replace("-", "−"), x, plot.y + plot.h + 18);
      }
      pen.fillText(`${data.features[0]} (standardised)`, plot.x + plot.w / 2, plot.y + plot.h + 37);
      pen.textAlign = "right";
      for (let t = Math.ceil(limits[1][0]); t <= limits[1][1]; t++) {
        const [, y] = px([0, t]);
        pen.fillRect(plot.x - 5, Math.round(y), 5, 1);
        pen.fillText(String(t).replace("-", "−"), plot.x - 9, y + 4.5);
      }
      pen.save();
      pen.translate(14, plot.y + plot.h / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(`${data.features[1]} (standardised)`, 0, 0);
      pen.restore();
    }

    function drawMap(option, theta, showCells, redraw) {
      const map = mapOf(option, redraw), accepted = pathOf(piecesOf(option, theta));
      const whole = () => pen.drawImage(map, plot.x, plot.y, plot.w, plot.h);
      pen.imageSmoothingEnabled = true;
      whole();
      const hatch = new Path2D();
      for (let s = -plot.h; s < plot.w; s += 11) {
        hatch.moveTo(plot.x + s, plot.y + plot.h);
        hatch.lineTo(plot.x + s + plot.h, plot.y);
      }
      stroke(hatch, "rgba(255, 255, 255, 0.6)", 1);
      // The border of the union: all outlines, covered inside the union by the map itself.
      stroke(accepted, INK, 4);
      pen.save();
      pen.clip(accepted);
      whole();
      pen.restore();
      if (showCells && option.exact) stroke(accepted, "rgba(0, 0, 0, 0.55)", 1);
    }

    function drawCell(option, answer) {
      const found = answer.nearest;
      if (found === null || answer.accepted) return;
      const cell = option.exact ? found.cell : option.cellAt(found.point, found.label);
      const polygon = cell ? polygonOf(cell, option.exact ? answer.x : found.point) : [];
      if (polygon.length < 3) return;
      const path = pathOf([polygon]);
      pen.fillStyle = "rgba(255, 255, 255, 0.3)";
      pen.fill(path);
      stroke(path, INK, 1.5, [6, 4]);
    }

    function draw({option, answer, show}, redraw) {
      if (canvas.parentElement.clientWidth !== width) resize();
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.save();
      pen.beginPath();
      pen.rect(plot.x, plot.y, plot.w, plot.h);
      pen.clip();
      drawMap(option, answer.theta, show.cells, redraw);
      if (show.cells) drawCell(option, answer);
      if (show.samples) {
        data.samples.forEach((p, k) => {
          marker(data.markers[data.labels[k]], p, 3.6, data.palette[data.labels[k]], PAPER, 0.7);
        });
      }
      const models = option.pairs ?? [data.model], size = (plot.w < 380 ? 7 : 8.5) * (option.pairs ? 0.75 : 1);
      for (const model of models) {
        model.prototypes.forEach((p, k) => {
          const label = data.classes.indexOf(model.labels[k]);
          marker(data.markers[label], p, size, data.palette[label], INK, 1.5);
        });
      }
      const found = answer.nearest;
      if (show.alternatives) {
        for (const other of answer.alternatives) {
          if (other === null || other === found || other.distance === 0) continue;
          const path = way(answer.x, other.point);
          stroke(path, PAPER, 3.2);
          stroke(path, INK, 1.6, [5, 4]);
          end(data.markers[other.label], other.point, 5.5, PAPER, data.palette[other.label], 1.8);
        }
      }
      if (found !== null && !answer.accepted) {
        const path = way(answer.x, found.point);
        stroke(path, PAPER, 6);
        stroke(path, INK, 3);
        end("*", found.point, 11, GOLD, INK, 1.3);
      }
      marker("X", answer.x, 8.5, PAPER, INK, 1.6);
      pen.restore();
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 1;
      pen.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.w + 1, plot.h + 1);
      drawAxes();
    }

    /* A step of the training: the region of each label tinted, wines, prototypes and the way that they have come. */
    function drawTraining(step) {
      if (canvas.parentElement.clientWidth !== width) resize();
      const model = data.training[step], classOf = model.labels.map(label => data.classes.indexOf(label));
      const rows = Math.round(FINE * spans[1] / spans[0]);
      const board = Object.assign(document.createElement("canvas"), {width: FINE, height: rows});
      const brush = board.getContext("2d"), image = brush.createImageData(FINE, rows);
      const tints = data.palette.map(hex => [1, 3, 5].map(k => 255 - 0.3 * (255 - parseInt(hex.slice(k, k + 2), 16))));
      for (let at = 0, row = 0; row < rows; row++) {
        const y = limits[1][1] - (row + 0.5) / rows * spans[1];
        for (let column = 0; column < FINE; column++, at += 4) {
          const x = [limits[0][0] + (column + 0.5) / FINE * spans[0], y];
          image.data.set(tints[classOf[window.lvqrejEngine.nearest(model, x)]], at);
          image.data[at + 3] = 255;
        }
      }
      brush.putImageData(image, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.save();
      pen.beginPath();
      pen.rect(plot.x, plot.y, plot.w, plot.h);
      pen.clip();
      pen.drawImage(board, plot.x, plot.y, plot.w, plot.h);
      data.samples.forEach((p, k) => marker(data.markers[data.labels[k]], p, 3.6, data.palette[data.labels[k]], PAPER, 0.7));
      model.prototypes.forEach((_, k) => {
        const path = new Path2D();
        data.training.slice(0, step + 1).forEach((past, t) => path[t ? "lineTo" : "moveTo"](...px(past.prototypes[k])));
        stroke(path, PAPER, 5);
        stroke(path, INK, 2.5);
      });
      model.prototypes.forEach((p, k) => {
        marker(data.markers[classOf[k]], p, plot.w < 380 ? 7 : 8.5, data.palette[classOf[k]], INK, 1.5);
      });
      pen.restore();
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 1;
      pen.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.w + 1, plot.h + 1);
      drawAxes();
    }

    return {draw, drawTraining, holds, px, toData, forget: () => { width = 0; }};
  }

  window.lvqrejPicture = {makePicture, SHAPES};
})();
