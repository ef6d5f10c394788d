"use strict";
// Draws the page's charts again, with tooltips: pictures stay where anything fails.
const charts = (() => {
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false,
  };

  const dataOf = (element) => JSON.parse(element.textContent);

  // Where there is less room, the plot becomes narrower and its text stays as large as it is.
  const narrower = (spec, by) => ({
    ...spec,
    width: Math.floor(spec.width - by),
    config: { ...spec.config, legend: { ...spec.config.legend, columns: 1 } },
  });

  const draw = async (holder, spec, alternative) => {
    const live = document.createElement("div");
    await window.vegaEmbed(live, spec, options);
    const over = live.querySelector("svg").getAttribute("width") - holder.clientWidth;
    if (over > 0 && spec.width - over > 120) {
      await window.vegaEmbed(live, narrower(spec, over), options);
    }
    live.className = "live";
    // A screen reader announces the chart once, not mark by mark.
    live.querySelector("svg").setAttribute("aria-hidden", "true");
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", alternative);
    holder.replaceChildren(live);
  };

  // A chart is drawn only when a reader scrolls near it.
  const whenNear = (element, drawIt) => {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      watch.disconnect();
      drawIt().catch((error) => console.error(error));
    }, { rootMargin: "300px" });
    watch.observe(element);
  };

  const specs = new Map();
  for (const holder of document.querySelectorAll(".chart")) {
    const data = holder.querySelector(".spec");
    if (!data) continue;
    const spec = dataOf(data);
    const alternative = holder.firstElementChild.getAttribute("aria-label");
    specs.set(holder, { spec, alternative });
    whenNear(holder, () => draw(holder, spec, alternative));
  }
  return { dataOf, draw, specs, whenNear };
})();
