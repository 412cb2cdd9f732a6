// Draws the charts of the explorer for the chosen member, condition and batch, with Vega-Lite.
"use strict";
(() => {
  const root = document.getElementById("explorer");
  const source = document.getElementById("explorer-data");
  if (!root || !source) return;
  const content = JSON.parse(source.textContent);
  const conditions = content.choices.condition;
  const context = 0.35; // opacity of the conditions that are not chosen

  // The numbers of a chart for one batch, member and condition: rows over time, null where not finite.
  const decoded = new Map(content.charts.map((chart) => {
    const bytes = Uint8Array.from(atob(chart.values), (letter) => letter.charCodeAt(0));
    return [chart.name, chart.bytes === 2 ? new Uint16Array(bytes.buffer) : bytes];
  }));
  const rowsOf = (chart, batch, member, condition) => {
    const [, nMembers, nConditions, nSteps, nChannels] = chart.shape;
    const first = ((batch * nMembers + member) * nConditions + condition) * nSteps * nChannels;
    const missing = chart.bytes === 2 ? 65535 : 255;
    const number = (code) => (code === missing ? null : chart.low[batch] + chart.step[batch] * code);
    return Array.from({ length: nSteps }, (_, step) =>
      Array.from(decoded.get(chart.name).subarray(first + step * nChannels, first + (step + 1) * nChannels), number));
  };
  // The lowest and the highest number of a channel, or of all, over all members and conditions of a batch.
  const extent = (chart, batch, channel) => {
    let [low, high] = [Infinity, -Infinity];
    for (let member = 0; member < chart.shape[1]; member++)
      for (let condition = 0; condition < chart.shape[2]; condition++)
        for (const row of rowsOf(chart, batch, member, condition))
          for (const value of channel === undefined ? row : [row[channel]])
            if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return low <= high ? [low, high] : [0, 1];
  };

  const colorScale = { domain: conditions, range: content.colors };
  const byCondition = (extra) => ({
    color: { field: "condition", type: "nominal", scale: colorScale, legend: null },
    detail: { field: "condition", type: "nominal" },
    opacity: { condition: { test: "datum.chosen", value: 1 }, value: context },
    strokeWidth: { condition: { test: "datum.chosen", value: 2.5 }, value: 1 },
    order: { field: "step", type: "quantitative" },
    ...extra,
  });
  const quantitative = (field, title, domain) => ({
    field, title, type: "quantitative", scale: { domain, nice: false, zero: false }, axis: { grid: false, tickCount: 5 },
  });
  const ofAllConditions = (chart, { batch, member, condition }, fields) =>
    conditions.flatMap((name, number) => rowsOf(chart, batch, member, number).map((row, step) => (
      { condition: name, chosen: number === condition, step, time: chart.times[step], ...fields(row) })));

  const specs = {
    path(chart, choice) {
      const spans = [0, 1].map((axis) => {
        const [low, high] = extent(chart, choice.batch, axis);
        const targets = chart.targets.map((target) => target[axis]);
        return [Math.min(low, ...targets), Math.max(high, ...targets)];
      });
      const half = 0.55 * Math.max(...spans.map(([low, high]) => high - low));
      const domains = spans.map(([low, high]) => [(low + high) / 2 - half, (low + high) / 2 + half]);
      const targets = chart.targets.map(([x, y], number) => ({ condition: conditions[number], x, y }));
      return {
        title: "path of the cursor", isSquare: true,
        data: { values: ofAllConditions(chart, choice, ([x, y]) => ({ x, y })) },
        encoding: { x: quantitative("x", "x (cm)", domains[0]), y: quantitative("y", "y (cm)", domains[1]) },
        layer: [
          { data: { values: targets }, mark: { type: "point", size: 90, stroke: "#999" } },
          { mark: "line", encoding: byCondition() },
        ],
      };
    },
    speed(chart, choice) {
      return {
        title: "speed of the hand",
        data: { values: ofAllConditions(chart, choice, ([speed]) => ({ speed })) },
        mark: "line",
        encoding: byCondition({
          x: quantitative("time", "time (s)", [0, chart.times.at(-1)]),
          y: quantitative("speed", "hand speed (m/s)", extent(chart, choice.batch)),
        }),
      };
    },
    outputs(chart, choice) {
      const rows = rowsOf(chart, choice.batch, choice.member, choice.condition);
      return {
        title: "outputs of the network",
        data: { values: rows.flatMap((row, step) => row.map((output, channel) => (
          { time: chart.times[step], output, channel }))) },
        mark: "line",
        encoding: {
          x: quantitative("time", "time (s)", [0, chart.times.at(-1)]),
          y: quantitative("output", "output", extent(chart, choice.batch)),
          color: { field: "channel", type: "nominal", legend: { orient: "bottom" } },
        },
      };
    },
    activity(chart, choice) {
      const rows = rowsOf(chart, choice.batch, choice.member, choice.condition);
      const largest = Math.max(...extent(chart, choice.batch).map(Math.abs));
      return {
        title: "activity of units",
        data: { values: rows.flatMap((row, step) => row.map((activity, unit) => (
          { time: chart.times[step], unit: unit + 1, activity }))) },
        mark: { type: "rect", strokeWidth: 0 },
        encoding: {
          x: { field: "time", title: "time (s)", type: "ordinal",
            axis: { values: chart.times.filter((_, step) => step % 6 === 0), labelAngle: 0, format: ".2f" } },
          y: { field: "unit", title: "unit", type: "ordinal", axis: { values: [1, 10, 20, 30] } },
          color: { field: "activity", type: "quantitative", legend: { orient: "bottom", title: null, gradientLength: 150 },
            scale: { domain: [-largest, largest], scheme: "redblue", reverse: true } },
        },
      };
    },
  };

  const make = (tag, properties = {}, ...inside) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  };
  const selects = Object.fromEntries(Object.entries(content.choices).map(([name, texts]) => {
    const select = make("select", { id: `explorer-${name}` }, ...texts.map((text, number) => new Option(text, number)));
    select.value = name === "batch" ? texts.length - 1 : 0;
    return [name, select];
  }));
  const labels = { member: "Member", condition: "Condition", batch: "Training batch" };
  root.append(make("div", { className: "choices" }, ...Object.entries(selects).map(([name, select]) =>
    make("label", {}, `${labels[name]} `, select))));
  const panels = content.charts.map((chart) => {
    const drawing = make("div", { id: `explorer-${chart.name}` });
    const files = ["svg", "csv"].map((kind) =>
      make("a", { download: `${chart.name}.${kind}`, href: "#explorer", textContent: kind.toUpperCase() }));
    return { chart, drawing, files, view: null, panel: make("div", { className: "panel" }, drawing,
      make("p", { className: "files" }, "Download ", files[0], " ", files[1])) };
  });
  root.append(make("div", { className: "panels" }, ...panels.map(({ panel }) => panel)));

  const config = {
    font: "system-ui, sans-serif", background: "transparent", view: { stroke: null },
    axis: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
    legend: { labelFontSize: 12, titleFontSize: 12 }, title: { fontSize: 13, fontWeight: "normal" },
  };
  const asCsv = (rows) => [Object.keys(rows[0]), ...rows.map(Object.values)]
    .map((row) => row.map((cell) => (typeof cell === "string" ? `"${cell.replaceAll('"', '""')}"` : cell ?? "")).join(",")).join("\n");
  const draw = () => {
    const choice = Object.fromEntries(Object.entries(selects).map(([name, select]) => [name, Number(select.value)]));
    root.setAttribute("aria-busy", "true");
    const drawn = panels.map((each) => {
      const { isSquare, ...spec } = specs[each.chart.name](each.chart, choice);
      const width = Math.max(160, Math.min(330, each.panel.clientWidth - 70));
      const full = { ...spec, width, height: isSquare ? width : 220, config };
      each.view?.finalize();
      each.view = new vegaCharts.View(
        vegaCharts.parse(vegaCharts.compile(full).spec, null, { ast: true }),
        { expr: vegaCharts.expressionInterpreter, renderer: "svg", container: each.drawing },
      );
      each.view.description(`${spec.title}: ${Object.values(selects).map((select) => select.selectedOptions[0].text).join(", ")}`);
      const [svg, csv] = each.files;
      csv.href = `data:text/csv;charset=utf-8,${encodeURIComponent(asCsv(spec.data.values))}`;
      return each.view.runAsync().then(() => {
        const text = new XMLSerializer().serializeToString(each.drawing.querySelector("svg"));
        svg.href = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
      });
    });
    Promise.all(drawn).then(() => root.setAttribute("aria-busy", "false"));
  };
  for (const select of Object.values(selects)) select.addEventListener("change", draw);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) draw();
    width = window.innerWidth;
  });
  draw();
})();
