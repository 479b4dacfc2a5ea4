/* The explorer's mathematics: three certainties in a plane, and the nearest accepted point of each class.

   For relative similarity and distance to the decision boundary the accepted set is a union of convex cells.
   In a plane the l1-nearest point of a cell is one of finitely many: a move along one axis to a border, a point
   of a border where both features are worth the same, or a corner. All of them are tried, so the answer is exact.
   For probabilities the border is one smooth curve per class; it is searched along rays, finely and then locally.
   Every answer passes the certainty's own test r(x) >= theta, as the package's answers do. */
(function () {
  "use strict";

  /* How far inside the border to aim, in units of the constraint's own size, try after try. */
  const MARGINS = [1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8];
  /* Pitch of the lattice on which the probabilistic search looks for accepted points, and its reach. */
  const PITCH = 0.05;
  const REACH = 14;

  const l1 = point => Math.abs(point[0]) + Math.abs(point[1]);

  /* d(x, p) = |L (x - p)|^2, in the package's own order of operations. */
  function squaredDistance(L, x, p) {
    const a = x[0] - p[0], b = x[1] - p[1];
    let total = 0;
    for (let r = 0; r < L.length; r++) {
      const z = L[r][0] * a + L[r][1] * b;
      total += z * z;
    }
    return total;
  }

  /* Indices of the nearest prototype and of the nearest one of another class, with their distances. */
  function nearestTwo(model, x) {
    const d = model.prototypes.map(p => squaredDistance(model.L, x, p));
    let plus = 0, minus = -1;
    for (let j = 1; j < d.length; j++) if (d[j] < d[plus]) plus = j;
    for (let j = 0; j < d.length; j++) {
      if (model.classOf[j] !== model.classOf[plus] && (minus < 0 || d[j] < d[minus])) minus = j;
    }
    return {plus, minus, near: d[plus], far: d[minus]};
  }

  /* f(x) = alpha |L(x - a)|^2 - beta |L(x - b)|^2 + gamma <= 0 as a polynomial in the change x - origin:
     xx u^2 + 2 xy u v + yy v^2 + x u + y v + c. Its size says what rounding can amount to. */
  function constraint(L, origin, a, b, alpha, beta, gamma) {
    const [wxx, wxy, wyy] = [[0, 0], [0, 1], [1, 1]].map(([i, j]) => L.reduce((s, row) => s + row[i] * row[j], 0));
    const p = [a[0] - origin[0], a[1] - origin[1]], q = [b[0] - origin[0], b[1] - origin[1]];
    const near = squaredDistance(L, origin, a), far = squaredDistance(L, origin, b);
    const m = [alpha * p[0] - beta * q[0], alpha * p[1] - beta * q[1]];
    const k = alpha - beta;
    return {
      xx: k * wxx, xy: k * wxy, yy: k * wyy,
      x: -2 * (wxx * m[0] + wxy * m[1]), y: -2 * (wxy * m[0] + wyy * m[1]),
      c: alpha * near - beta * far + gamma, size: alpha * near + beta * far + Math.abs(gamma), flat: k === 0,
    };
  }

  const value = (f, u, v) => (f.xx * u + 2 * f.xy * v + f.x) * u + (f.yy * v + f.y) * v + f.c;

  /* Real roots of a t^2 + b t + c, without cancellation. */
  function roots(a, b, c) {
    if (a === 0) return b === 0 ? [] : [-c / b];
    const d = b * b - 4 * a * c;
    if (d < 0) return [];
    const q = -(b + (b < 0 ? -1 : 1) * Math.sqrt(d)) / 2;
    return q === 0 ? [0] : [q / a, c / q];
  }

  /* Where the border of f meets the line n0 u + n1 v + n2 = 0. */
  function onLine(f, n0, n1, n2) {
    const length = n0 * n0 + n1 * n1;
    if (length === 0) return [];
    const u = -n0 * n2 / length, v = -n1 * n2 / length;
    const a = f.xx * n1 * n1 - 2 * f.xy * n0 * n1 + f.yy * n0 * n0;
    const b = 2 * (f.xx * u * n1 + f.xy * (v * n1 - u * n0) - f.yy * v * n0) + f.x * n1 - f.y * n0;
    return roots(a, b, value(f, u, v)).map(t => [u + t * n1, v - t * n0]);
  }

  /* All points that can be the l1-nearest one of an intersection of balls (of one metric) and half-planes. */
  function candidates(cell) {
    const found = [[0, 0]];
    for (let i = 0; i < cell.length; i++) {
      const f = cell[i];
      for (const t of roots(f.xx, f.x, f.c)) found.push([t, 0]);
      for (const t of roots(f.yy, f.y, f.c)) found.push([0, t]);
      if (!f.flat) {
        for (const s of [1, -1]) {
          found.push(...onLine(f, 2 * (f.xx - s * f.xy), 2 * (f.xy - s * f.yy), f.x - s * f.y));
        }
      }
      for (let j = 0; j < i; j++) {
        const g = cell[j];
        const [curved, other] = f.flat ? [g, f] : [f, g];
        // Balls of one metric differ by a line.
        const k = curved.flat || other.flat ? 0 : (other.xx + other.yy) / (curved.xx + curved.yy);
        found.push(...onLine(curved, other.x - k * curved.x, other.y - k * curved.y, other.c - k * curved.c));
      }
    }
    return found;
  }

  /* The nearest change into a cell, aiming inside by `margin`; null if there is none. */
  function project(cell, margin) {
    const aimed = cell.map(f => ({...f, c: f.c + margin * f.size}));
    let best = null, shortest = Infinity;
    for (const point of candidates(aimed)) {
      const length = l1(point);
      if (!(length < shortest)) continue;
      if (aimed.every(f => value(f, point[0], point[1]) <= (margin / 4 + 1e-15) * f.size)) {
        best = point;
        shortest = length;
      }
    }
    return best;
  }

  /* Options whose accepted set is a finite union of cells share everything but certainty and cells. */
  function cellularOption(model, record, certainty, cells) {
    const predict = x => model.classOf[nearestTwo(model, x).plus];
    function nearest(x, theta, label) {
      let best = null;
      for (const cell of cells(theta, x)) {
        if (cell.label !== label) continue;
        for (const margin of MARGINS) {
          const change = project(cell.constraints, margin);
          if (change === null) break;
          if (best !== null && l1(change) >= best.distance) break;
          const point = [x[0] + change[0], x[1] + change[1]];
          if (predict(point) === label && certainty(point) >= theta) {
            best = {point, distance: l1([point[0] - x[0], point[1] - x[1]]), cell};
            break;
          }
        }
      }
      return best;
    }
    return {...record, certainty, predict, cells, nearest, exact: true};
  }

  function relativeSimilarity(model, record) {
    const P = model.prototypes;
    function certainty(x) {
      const {near, far} = nearestTwo(model, x);
      const total = far + near;
      return total > 0 ? (far - near) / total : 0;
    }
    // One cell per target prototype; an Apollonius ball for every prototype of another class.
    const cells = (theta, origin) => P.map((p, i) => ({
      label: model.classOf[i], inside: p, name: `prototype ${i}`,
      constraints: P.flatMap((q, j) => model.classOf[j] === model.classOf[i] ? []
        : [constraint(model.L, origin, p, q, 1 + theta, 1 - theta, 0)]),
    }));
    return cellularOption(model, record, certainty, cells);
  }

  function decisionDistance(model, record) {
    const P = model.prototypes, D = record.separations, group = model.classOf;
    function certainty(x) {
      const {plus, minus, near, far} = nearestTwo(model, x);
      return (far - near) / (2 * D[plus][minus]);
    }
    // One cell per pair (p+, p-): p+ nearest in its class, p- nearest of the others, and the margin.
    function cells(theta, origin) {
      const found = [];
      for (let i = 0; i < P.length; i++) {
        for (let j = 0; j < P.length; j++) {
          if (group[i] === group[j]) continue;
          const constraints = [constraint(model.L, origin, P[i], P[j], 1, 1, 2 * theta * D[i][j])];
          for (let a = 0; a < P.length; a++) {
            if (a === i || a === j) continue;
            const near = group[a] === group[i] ? i : j;
            constraints.push(constraint(model.L, origin, P[near], P[a], 1, 1, 0));
          }
          found.push({label: group[i], constraints, name: `prototypes ${i} and ${j}`});
        }
      }
      return found;
    }
    return cellularOption(model, record, certainty, cells);
  }

  function probabilisticCertainty(classes, record) {
    const {alpha, beta} = record;
    const pairs = record.pairs.map(pair => {
      const [i, j] = pair.classes;
      const of = label => pair.prototypes.filter((_, k) => pair.labels[k] === classes[label]);
      return {i, j, L: pair.L, first: of(i), second: of(j), alpha: alpha[i][j], beta: beta[i][j]};
    });
    const least = (L, x, sites) => {
      let d = Infinity;
      for (let k = 0; k < sites.length; k++) d = Math.min(d, squaredDistance(L, x, sites[k]));
      return d;
    };
    // alpha_ij s_ij(x) + beta_ij of a pair, as class `label` asks it: the log of the odds of the other class.
    function exponent(pair, x, label) {
      const own = least(pair.L, x, pair.first), other = least(pair.L, x, pair.second);
      const total = own + other;
      const t = pair.alpha * (total > 0 ? (other - own) / total : 0) + pair.beta;
      return label === pair.i ? t : -t;
    }
    const ofClass = classes.map((_, label) => pairs.filter(pair => pair.i === label || pair.j === label));
    function probability(x, label) {
      let total = 1;
      const asked = ofClass[label];
      for (let k = 0; k < asked.length; k++) total += Math.exp(exponent(asked[k], x, label));
      return 1 / total;
    }
    const probabilities = x => classes.map((_, label) => probability(x, label));
    const certainty = x => Math.max(...probabilities(x));
    const predict = x => {
      const p = probabilities(x);
      return p.indexOf(Math.max(...p));
    };
    const peaks = classes.map((_, label) => {
      let found = null;
      return () => (found ??= localMaxima(x => probability(x, label)));
    });
    // Aim a hair inside, so that another exponential function agrees that the point is accepted.
    function nearest(x, theta, label) {
      const goal = theta + 1e-12;
      const excess = point => probability(point, label) - goal;
      if (excess(x) >= 0) return {point: x.slice(), distance: 0};
      const tops = peaks[label]().filter(peak => peak.value >= goal).map(peak => peak.point);
      if (tops.length === 0) return null;
      const point = searchAlongRays(excess, x, tops);
      return point && {point, distance: l1([point[0] - x[0], point[1] - x[1]]), cell: null};
    }
    // The convex cell of the budgets that the classes use up at a point; null where a border is no ball.
    function cellAt(point, label) {
      const constraints = [];
      for (const pair of ofClass[label]) {
        const [mine, rivals] = pair.i === label ? [pair.first, pair.second] : [pair.second, pair.first];
        const own = mine.map(p => squaredDistance(pair.L, point, p));
        const target = own.indexOf(Math.min(...own));
        const other = least(pair.L, point, rivals);
        const gamma = (other - own[target]) / (other + own[target]);
        if (!(gamma > 0)) return null;
        for (const q of rivals) {
          constraints.push(constraint(pair.L, point, mine[target], q, 1 + gamma, 1 - gamma, 0));
        }
      }
      return {label, constraints};
    }
    return {...record, certainty, predict, probability, nearest, cellAt, exact: false};
  }

  /* The peaks of a function of the plane: every accepted piece, however small, has one. */
  function localMaxima(height, low = -7, high = 9, steps = 110) {
    const pitch = (high - low) / steps, n = steps + 1;
    const grid = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) grid[i * n + j] = height([low + i * pitch, low + j * pitch]);
    }
    const found = [];
    for (let i = 1; i < steps; i++) {
      for (let j = 1; j < steps; j++) {
        const here = grid[i * n + j];
        let top = true;
        for (let a = -1; a <= 1 && top; a++) {
          for (let b = -1; b <= 1 && top; b++) top = grid[(i + a) * n + j + b] <= here;
        }
        if (top) found.push(climb(height, [low + i * pitch, low + j * pitch], pitch));
      }
    }
    return found;
  }

  /* Climb in 24 directions, in steps that halve where none leads up: ridges run in any direction. */
  function climb(height, start, step) {
    let point = start, top = height(point);
    for (let size = step, turn = 0; size > 1e-9; turn += 0.1) {
      let better = null;
      for (let k = 0; k < 24; k++) {
        const angle = turn + k * Math.PI / 12;
        const next = [point[0] + size * Math.cos(angle), point[1] + size * Math.sin(angle)];
        const h = height(next);
        if (h > top) [better, top] = [next, h];
      }
      if (better) point = better;
      else size /= 2;
    }
    return {point, value: top};
  }

  /* The nearest point x + delta with excess >= 0 in the l1-norm. First all points of a lattice around x, in the
     order of their distance; then, from those that come first, along rays between their neighbours. */
  function searchAlongRays(excess, x, tops) {
    const at = (u, v) => excess([x[0] + u, x[1] + v]);
    let starts = tops.map(top => [top[0] - x[0], top[1] - x[1]]);
    const farthest = Math.min(REACH, ...starts.map(l1));
    let last = Math.ceil(farthest / PITCH), first = null;
    const hits = [];
    for (let ring = 1; ring <= last; ring++) {
      for (let k = 0; k < 4 * ring; k++) {
        const [u, v] = direction(k / ring);
        if (at(ring * PITCH * u, ring * PITCH * v) >= 0) {
          hits.push({turn: k / ring, length: ring * PITCH});
          if (first === null) last = Math.min(last, (first = ring) + 2);
        }
      }
    }
    const within = first === null ? Infinity : (first + 2) * PITCH;
    starts = starts.filter(change => l1(change) <= within).map(change => ({turn: turnOf(change), length: l1(change)}));
    starts.push(...hits);
    // The ray's own first border of each start; the best few, not all beside each other, are refined.
    for (const start of starts) start.length = firstBorder(at, start.turn, start.length, 24);
    for (let turn = 0; turn < 4; turn++) {
      const length = firstBorder(at, turn, Math.min(within, farthest) + PITCH, 96);
      if (length < Infinity) starts.push({turn, length});
    }
    starts.sort((a, b) => a.length - b.length);
    const chosen = [];
    for (const start of starts) {
      const width = 1.5 * PITCH / Math.max(start.length, PITCH);
      if (chosen.every(other => apart(other.turn, start.turn) > width) && chosen.length < 6) chosen.push(start);
    }
    let best = {length: Infinity};
    for (const start of chosen) {
      const refined = refine(at, start);
      if (refined.length < best.length) best = refined;
    }
    if (best.length === Infinity) return null;
    const [u, v] = direction(best.turn);
    return [x[0] + best.length * u, x[1] + best.length * v];
  }

  /* Directions by a turn in [0, 4) around the unit ball of the l1-norm; whole turns are the axes. */
  function direction(turn) {
    const t = ((turn % 4) + 4) % 4, side = Math.floor(t), s = t - side;
    return side === 0 ? [1 - s, s] : side === 1 ? [-s, 1 - s] : side === 2 ? [s - 1, -s] : [s, s - 1];
  }

  function turnOf([u, v]) {
    const length = Math.abs(u) + Math.abs(v);
    if (length === 0) return 0;
    const [a, b] = [u / length, v / length];
    return a > 0 && b >= 0 ? b : a <= 0 && b > 0 ? 1 - a : a < 0 ? 2 - b : 3 + a;
  }

  const apart = (a, b) => Math.min(Math.abs(a - b), 4 - Math.abs(a - b));

  /* The first root of the excess along a ray up to `end`: bracket in equal steps, then false position. */
  function firstBorder(at, turn, end, steps) {
    const [u, v] = direction(turn);
    const height = t => at(t * u, t * v);
    let low = 0, below = height(0);
    for (let k = 1; k <= steps; k++) {
      const high = end * k / steps, above = height(high);
      if (above >= 0) return falsePosition(height, low, below, high, above);
      [low, below] = [high, above];
    }
    return Infinity;
  }

  /* The Illinois method; returns the accepted end of the last bracket. */
  function falsePosition(height, low, below, high, above) {
    let kept = 0;
    for (let k = 0; k < 60 && high - low > 1e-14 * (1 + high); k++) {
      let middle = low + (high - low) * below / (below - above);
      if (!(middle > low && middle < high) || k % 4 === 3) middle = (low + high) / 2;
      const h = height(middle);
      if (h >= 0) {
        [high, above] = [middle, h];
        if (kept === 1) below /= 2;
        kept = 1;
      } else {
        [low, below] = [middle, h];
        if (kept === -1) above /= 2;
        kept = -1;
      }
    }
    return high;
  }

  /* Shorten a ray by turning it, in windows that shrink around the shortest of nine. */
  function refine(at, start) {
    let best = start;
    for (let width = 1.5 * PITCH / Math.max(start.length, PITCH); width > 1e-9; width /= 4) {
      const centre = best.turn;
      for (let k = -4; k <= 4; k++) {
        if (k === 0) continue;
        const turn = centre + width * k / 4;
        const length = firstBorder(at, turn, best.length, 6);
        if (length < best.length) best = {turn, length};
      }
    }
    return best;
  }

  function makeOptions(data) {
    const model = {...data.model, classOf: data.model.labels.map(label => data.classes.indexOf(label))};
    const make = {
      similarity: record => relativeSimilarity(model, record),
      distance: record => decisionDistance(model, record),
      probability: record => probabilisticCertainty(data.classes, record),
    };
    return data.options.map(record => make[record.key](record));
  }

  /* The answer for a point: its certainty and label, the nearest accepted point of each class and of all. */
  function explain(option, classes, theta, x) {
    const certainty = option.certainty(x), own = option.predict(x);
    const accepted = certainty >= theta;
    const alternatives = classes.map((_, label) => {
      if (accepted && label === own) return {label, point: x.slice(), distance: 0, certainty};
      const found = option.nearest(x, theta, label);
      return found && {label, ...found, certainty: option.certainty(found.point)};
    });
    const reached = alternatives.filter(answer => answer !== null);
    const nearest = reached.length === 0 ? null
      : reached.reduce((best, answer) => answer.distance < best.distance ? answer : best);
    return {x, theta, certainty, label: own, accepted, alternatives, nearest};
  }

  /* The index of the prototype nearest to a point. */
  function nearest(model, x) {
    const d = model.prototypes.map(p => squaredDistance(model.L, x, p));
    return d.indexOf(Math.min(...d));
  }

  const engine = {makeOptions, explain, nearest, value};
  if (typeof window === "undefined") module.exports = engine;
  else window.lvqrejEngine = engine;
})();
