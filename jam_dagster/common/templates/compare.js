"use strict";
// Lets a reader choose one attribute, or two, and shows how their distributions compare.
(() => {
  const source = document.querySelector(".pairs");
  const section = document.getElementById("compare");
  if (!source || !section) return;
  const { axes, pairs, records, spec } = charts.dataOf(source);
  const [first, second] = section.querySelectorAll("select");
  const holder = section.querySelector(".chart");
  const caption = section.querySelector("figcaption");
  const numbers = section.querySelector(".numbers");
  const titles = ["synthetic", "public", "released"];

  const percent = (share) => `${(100 * share).toFixed(2)}%`;

  // Cells of a pair, row by row, with what each table holds in them.
  const cellsOf = (pair) => {
    const [down, across] = pair.axes.map((number) => axes[number]);
    const cells = [];
    down.labels.forEach((row, y) => across.labels.forEach((column, x) => {
      const place = y * across.labels.length + x;
      const cell = { down: row, across: column, counts: {}, shares: {} };
      for (const title of titles.filter((one) => pair.counts[one])) {
        const count = pair.counts[title][place];
        cell.counts[title] = count;
        cell.shares[title] = percent(count / records[title]);
        if (title === "released") {
          const noise = pair.sigma * Math.sqrt(down.sizes[y] * across.sizes[x]);
          cell.shares[title] += ` ± ${percent(2 * noise / records[title])}`;
        }
      }
      cells.push(cell);
    }));
    return cells;
  };

  const pairSpec = (pair, width) => {
    const shown = titles.filter((title) => pair.counts[title]);
    const cells = cellsOf(pair);
    const rows = shown.flatMap((table) => {
      const total = cells.reduce((sum, cell) => sum + Math.max(0, cell.counts[table]), 0) || 1;
      return cells.map((cell) => ({
        table, down: cell.down, across: cell.across, ...cell.shares,
        cell: `${pair.names[0]}: ${cell.down}; ${pair.names[1]}: ${cell.across}`,
        // The root shows rare combinations next to frequent ones.
        strength: Math.sqrt(Math.max(0, cell.counts[table]) / total),
      }));
    });
    const made = structuredClone(spec);
    made.datasets = { cells: rows };
    // Beside each other, made a little smaller if need be, or below each other.
    made.columns = width < 560 ? 1 : shown.length;
    const { x, y, tooltip } = made.spec.encoding;
    [y.title, x.title] = pair.names;
    // No more labels than can be read.
    [[y, 16], [x, 12]].forEach(([side, most], number) => {
      const { labels } = axes[pair.axes[number]];
      const every = Math.ceil(labels.length / most);
      side.axis.values = labels.filter((_, place) => place % every === 0);
    });
    made.spec.encoding.tooltip = tooltip.filter((one) => one.title || pair.counts[one.field]);
    return made;
  };

  const drawPair = (place, pair, alternative) =>
    charts.draw(place, pairSpec(pair, place.clientWidth || section.clientWidth), alternative);

  const cell = (kind, text, scope) => {
    const made = document.createElement(kind);
    made.textContent = text;
    if (scope) made.scope = scope;
    if (kind === "td") made.className = "number";
    return made;
  };

  const pairTable = (pair) => {
    const shown = titles.filter((title) => pair.counts[title]);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    head.append(...pair.names.map((name) => cell("th", name, "col")));
    for (const title of shown) {
      const made = cell("th", title, "col");
      made.className = "number";
      head.append(made);
    }
    const body = table.createTBody();
    for (const one of cellsOf(pair)) {
      const row = body.insertRow();
      row.append(cell("th", one.down, "row"), cell("th", one.across, "row"));
      row.append(...shown.map((title) => cell("td", one.shares[title])));
    }
    return table;
  };

  const find = (one, other) => pairs.find(({ places }) => places.includes(Number(one)) && places.includes(Number(other)));

  const showAlone = async (place) => {
    const figure = document.querySelector(`[data-place="${place}"]`);
    const { spec: small, alternative } = charts.specs.get(figure.querySelector(".chart"));
    await charts.draw(holder, small, alternative);
    caption.textContent = figure.querySelector("figcaption").textContent;
    numbers.replaceChildren(figure.querySelector("table").cloneNode(true));
  };

  const showPair = async (pair) => {
    const names = pair.names.join(" and ");
    await drawPair(holder, pair, `Heat maps of ${names}; the numbers are in the table below.`);
    caption.textContent = pair.caption;
    numbers.replaceChildren(pairTable(pair));
  };

  const show = () => {
    for (const option of second.options) {
      option.disabled = option.value !== "" && !find(first.value, option.value);
    }
    if (second.selectedOptions[0].disabled || second.value === first.value) second.value = "";
    const pair = second.value && find(first.value, second.value);
    return pair ? showPair(pair) : showAlone(first.value);
  };

  for (const hidden of document.querySelectorAll("[data-script-only]")) hidden.hidden = false;
  // One after the other, or a slow picture would take the place of the next.
  let shown = Promise.resolve();
  const showNext = () => {
    shown = shown.then(show).catch((error) => console.error(error));
    return shown;
  };
  for (const choice of [first, second]) choice.addEventListener("change", showNext);
  if (pairs.length) [first.value, second.value] = pairs[0].places.map(String);
  charts.whenNear(section, showNext);
  for (const place of document.querySelectorAll("[data-pair]")) {
    const pair = pairs[Number(place.dataset.pair)];
    charts.whenNear(place, () => drawPair(place, pair, place.dataset.alternative));
  }
})();
