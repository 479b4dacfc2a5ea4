/* The explorer's words and numbers: the sentence of the package's explanations, rounded as the package rounds.

   A counterfactual lies on a border, so its values are rounded away from the sample, to the fewest digits with
   which the shown point is itself accepted. In a corner that can take all digits there are, which the package shows
   and a reader here does not need: then the values are to the nearest, and the sentence says "about". */
(function () {
  "use strict";

  const FEWEST = 3, MOST = 8, ALL = 17;
  /* How Python writes exponents: a sign and at least two digits. */
  const exponent = text => text.replace(/e([+-])(\d)$/, "e$10$2");

  /* A number as its shortest decimal text has it: digits * 10^-decimals. */
  function decimal(value) {
    const [mantissa, power = "0"] = value.toString().split("e");
    const [whole, fraction = ""] = mantissa.split(".");
    return {digits: BigInt(whole + fraction), decimals: fraction.length - Number(power)};
  }

  /* The value with at most so many decimals: "up", "down", or to the nearest. */
  function rounded(value, decimals, how) {
    const kept = Math.max(decimals, 0), exact = decimal(value);
    if (exact.decimals <= kept) return value;
    const unit = 10n ** BigInt(exact.decimals - kept);
    const rest = ((exact.digits % unit) + unit) % unit, floor = (exact.digits - rest) / unit;
    const up = how === "up" ? rest > 0n : how === "down" ? false
      : 2n * rest > unit || (2n * rest === unit && floor % 2n !== 0n);
    return Number(`${floor + (up ? 1n : 0n)}e${-kept}`);
  }

  /* The shortest text that stands for this number and no other; only what is very small has an exponent. */
  function number(value) {
    if (value !== 0 && Math.abs(value) < 1e-9) return exponent(value.toExponential());
    const text = value.toString();
    if (!text.includes("e-")) return text;
    const {digits, decimals} = decimal(Math.abs(value));
    return `${value < 0 ? "-" : ""}0.${digits.toString().padStart(decimals, "0")}`;
  }

  /* So many significant digits, without zeros at the end. */
  const significant = (value, digits) => number(Number(value.toPrecision(digits)));

  function away(start, end, digits) {
    const change = end - start;
    const decimals = digits - 1 - Math.floor(Math.log10(Math.abs(change)));
    return rounded(end, decimals, change > 0 ? "up" : "down");
  }

  /* The counterfactual as it is shown: rounded, and accepted as the same class; null if that takes too many digits. */
  function shownPoint(option, answer, found) {
    for (let digits = FEWEST; digits <= MOST; digits++) {
      const point = found.point.map((end, k) => end === answer.x[k] ? end : away(answer.x[k], end, digits));
      if (option.certainty(point) >= answer.theta && option.predict(point) === found.label) return point;
    }
    return null;
  }

  function shownBefore(start, end) {
    const digits = decimal(start).digits.toString().replace("-", "").length;
    if (digits <= 6) return number(start);
    return number(rounded(start, FEWEST - Math.floor(Math.log10(Math.abs(end - start)))));
  }

  /* The changed features, the costliest first, as [index, before, after]. */
  function changes(option, answer, found) {
    const exact = shownPoint(option, answer, found), shown = exact ?? found.point;
    const after = k => exact ? number(exact[k]) : `about ${number(rounded(found.point[k], FEWEST))}`;
    return [0, 1].filter(k => found.point[k] !== answer.x[k])
      .sort((a, b) => Math.abs(found.point[b] - answer.x[b]) - Math.abs(found.point[a] - answer.x[a]))
      .map(k => [k, shownBefore(answer.x[k], shown[k]), after(k)]);
  }

  /* Certainty before and after and the threshold, with the fewest digits that tell below from above. */
  function shownCertainties(before, after, theta) {
    for (let digits = 2; digits < ALL; digits++) {
      const texts = [before, after, theta].map(value => significant(value, digits));
      const [b, a, t] = texts.map(Number);
      if (theta < 1 && t >= 1) continue;
      if ((before >= theta || b < t) && (after >= theta || a < t)) return texts;
    }
    return [before, after, theta].map(value => value.toPrecision(ALL));
  }

  /* The package's sentence about a point; `emphasis` wraps labels and names of features. */
  function sentence(option, data, answer, emphasis = text => text) {
    const found = answer.nearest;
    const [certainty, , theta] = shownCertainties(
      answer.certainty, found === null ? answer.theta : found.certainty, answer.theta);
    if (answer.accepted) {
      return `accepted as ${emphasis(data.classes[answer.label])}: ${option.name} ${certainty} reaches ${theta}`;
    }
    const verdict = `rejected: ${option.name} ${certainty} below ${theta}`;
    if (found === null) return `${verdict}; no input reaches ${theta}: lower the threshold`;
    const parts = changes(option, answer, found)
      .map(([k, before, after]) => `${emphasis(data.features[k])} were ${after} instead of ${before}`);
    const proof = option.exact ? "no smaller change suffices" : "no smaller change was found";
    return `${verdict}; it would be accepted as ${emphasis(data.classes[found.label])} if ${parts.join(" and ")}; ${proof}`;
  }

  window.lvqrejText = {sentence, shownCertainties};
})();
