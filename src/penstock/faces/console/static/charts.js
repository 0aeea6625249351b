// Draws what `data-chart` names: JSON with "x" in seconds, "series" with labels and values, and a "unit".
"use strict";

(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value, step) => {
    const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const unit = units.find(([size]) => Math.abs(value) >= size);
    return unit ? `${+(value / unit[0]).toFixed(1)}${unit[1]}` : `${+value.toFixed(step < 1 ? 2 : 1)}`;
  };
  const duration = (value) => {
    const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
    const unit = units.find(([size]) => value >= size);
    return unit ? `${+(value / unit[0]).toFixed(1)} ${unit[1]}` : `${Math.round(value)} ms`;
  };
  const bytes = (value) => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${+value.toFixed(1)} ${units[unit]}`;
  };
  const written = { count: short, rate: (value) => `${short(value, 0.1)}/s`, duration, bytes };

  // A value between two that are not known has no line: it gets a point.
  const alone = (plot, number) => plot.data[number].reduce((found, value, at, values) => (
    value != null && values[at - 1] == null && values[at + 1] == null ? [...found, at] : found), []);

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.place = figure.querySelector(".plot");
      this.state = figure.querySelector(".chart-state");
      this.table = figure.querySelector("table");
      this.every = Math.max(1, Number(figure.dataset.every)) * 1000;
      new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(this.place);
      figure.querySelector("details").addEventListener("toggle", () => this.told && this.tell());
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.told && this.draw(true));
      this.load();
    }

    size() { return { width: Math.max(200, this.place.clientWidth), height: 200 }; }

    async load() {
      if (!document.hidden) {
        try {
          const answer = await fetch(this.figure.dataset.chart, {
            headers: { "HX-Request": "true", "HX-Current-URL": location.href, "X-Console-Poll": "1" },
          });
          if (answer.status === 401) {
            location.assign(answer.headers.get("HX-Redirect") || "/console/sign-in");
            return;
          }
          if (!answer.ok) throw new Error(answer.status === 503 ? "The store does not answer." : `The server answers ${answer.status}.`);
          this.told = await answer.json();
          this.state.textContent = "";
          this.draw();
        } catch (error) {
          this.state.textContent = `${error instanceof TypeError ? "The connection to the server is lost." : error.message} Trying again …`;
        }
      }
      setTimeout(() => this.load(), this.every);
    }

    draw(again = false) {
      const { x, series, unit } = this.told;
      const data = [x, ...series.map((one) => one.values)];
      if (this.plot && !again && this.plot.series.length === data.length) {
        this.plot.setData(data);
      } else {
        if (this.plot) this.plot.destroy();
        this.plot = new uPlot(this.options(series, unit), data, this.place);
      }
      this.tell();
    }

    options(series, unit) {
      const write = written[unit] || short;
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      return {
        ...this.size(),
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.08 : 1] } },
        axes: [axis, { ...axis, size: 62, values: (_plot, ticks) => ticks.map((tick) => write(tick, ticks[1] - ticks[0])) }],
        series: [
          { value: (_plot, at) => (at == null ? "–" : new Date(at * 1000).toLocaleString()) },
          ...series.map((one, number) => ({
            label: one.label,
            stroke: colour(`--series-${(number % 6) + 1}`),
            width: 2,
            points: { show: false, size: 5, filter: alone },
            value: (_plot, value) => (value == null ? "–" : write(value, 1)),
          })),
        ],
      };
    }

    // The same figures for those who cannot see a chart, made when they are asked for.
    tell() {
      if (!this.figure.querySelector("details").open) return;
      const { x, series, unit } = this.told;
      const write = written[unit] || short;
      const line = (cells, kind) => {
        const row = document.createElement("tr");
        cells.forEach((text) => {
          const cell = document.createElement(kind);
          cell.textContent = text;
          row.append(cell);
        });
        return row;
      };
      const rows = x.map((at, number) => line(
        [new Date(at * 1000).toLocaleString(), ...series.map((one) => (one.values[number] == null ? "–" : write(one.values[number], 1)))], "td"));
      this.table.replaceChildren(line(["Time", ...series.map((one) => one.label)], "th"), ...rows.reverse());
    }
  }

  document.querySelectorAll("[data-chart]").forEach((figure) => new Chart(figure));
})();
