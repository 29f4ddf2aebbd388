// The page of one node. Everything from the network becomes text, never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const MOST_EVENTS = 100;

let node = null;
let lastEvent = 0;
let token = sessionStorage.getItem("token") || "";
const open = new Map(); // name of a workload that is open -> its trend, once known

// ---- elements

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function replace(parent, ...children) {
  parent.replaceChildren(...children);
}

function bar(percent, tone = "") {
  const fill = el("i");
  fill.style.width = `${Math.max(0, Math.min(100, percent))}%`;
  return el("span", { class: `bar ${tone}`, "aria-hidden": "true" }, fill);
}

// ---- readings: a value, or an object that says why there is none

const absent = (reading) => reading !== null && typeof reading === "object" && "unavailable" in reading;

function shown(reading, format) {
  if (!absent(reading)) return format(reading);
  return el("span", { class: "none", title: reading.unavailable }, "unavailable");
}

const number = (digits) => (value) => value.toFixed(digits);
const percent = (value) => `${value.toFixed(value < 10 ? 1 : 0)} %`;
const cpus = (value) => (value / 100).toFixed(2);

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${value.toFixed(at && value < 10 ? 1 : 0)} ${units[at]}`;
}

function clock(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleTimeString([], { hour12: false });
}

function fact(name, value, kind = "") {
  return el("div", {}, el("dt", {}, name), el("dd", { class: kind }, value));
}

// ---- the node

function drawLoad() {
  const { load, machine } = node;
  replace($("load"),
    fact("CPUs in use", absent(load.cpu_percent) ? shown(load.cpu_percent) : `${cpus(load.cpu_percent)} of ${machine.cpus}`),
    fact("Stolen by the hypervisor", shown(load.steal_percent, percent)),
    fact("Memory available", absent(load.memory_available_bytes) ? shown(load.memory_available_bytes)
      : `${bytes(load.memory_available_bytes)} of ${bytes(machine.memory_bytes)}`),
    fact("Some task waits for a CPU", shown(load.psi_cpu_some_percent, percent)),
    fact("… for memory", shown(load.psi_memory_some_percent, percent)),
    fact("… for I/O", shown(load.psi_io_some_percent, percent)));
  replace($("warnings"), ...(node.warnings || []).map((it) => el("li", {}, it.message)));
}

function headroomTone(value) {
  if (value < 0) return ["bad", "QoS missed"];
  if (value < 20) return ["warn", "little"];
  return ["", ""];
}

function drawResources() {
  // What is scarce comes first, what nobody's profile tells comes last.
  const rank = ([, it]) => (absent(it.headroom) ? Infinity : it.headroom);
  const order = (a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b));
  const rows = Object.entries(node.resources).sort(order).map(([id, it]) => {
    const cells = [el("th", { scope: "row" }, id)];
    if (absent(it.headroom)) cells.push(el("td", {}, shown(it.headroom)));
    else {
      const [tone, words] = headroomTone(it.headroom);
      cells.push(el("td", {}, el("span", { class: `number ${tone}` }, number(0)(it.headroom)),
        it.headroom < 0 ? null : bar(it.headroom, tone), words ? el("span", { class: tone }, ` ${words}`) : null));
    }
    if (absent(it.caused)) cells.push(el("td", {}, shown(it.caused)));
    else cells.push(el("td", {}, el("span", { class: "number" }, number(0)(it.caused)), bar(it.caused)));
    cells.push(el("td", {}, shown(it.used_percent, percent)));
    cells.push(el("td", { class: "wrap" }, shown(it.least_tolerated, (least) => `${least.workload} (${number(0)(least.score)})`)));
    return el("tr", {}, ...cells);
  });
  if (!rows.length) rows.push(el("tr", {}, el("td", { colspan: 5, class: "none" }, "no resource has a score: no workload is profiled yet")));
  replace($("resources").tBodies[0], ...rows);
}

function drawExperiment() {
  const it = node.experiment;
  if (!it) {
    replace($("experiment"), fact("Now", el("span", { class: "none" }, "none is running"), "text"));
    return;
  }
  const most = it.max_intensity_percent;
  replace($("experiment"),
    fact("Kind", it.kind === "blame" ? "blame: who slows it" : "profile: what it tolerates and causes", "text"),
    fact("Workload", it.workload, "text"),
    fact("Since", clock(it.since), "text"),
    fact("Length", `${it.budget_seconds.toFixed(0)} s`, "text"),
    most === undefined ? null : fact("Highest intensity", percent(most), "text"),
    fact("Progress", it.progress || "starting", "text"));
}

const VERDICTS = { slows: "slows it", helps: "helps it", "not-shown": "not shown", "not-tried": "not tried" };

function suspectRow(name, suspect) {
  const lost = shown(suspect.slowed_percent, (it) => `${it.value.toFixed(1)} % (${it.ci95[0].toFixed(1)} to ${it.ci95[1].toFixed(1)})`);
  const verdict = VERDICTS[suspect.verdict] || suspect.verdict;
  return el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, suspect.name),
    el("td", { class: suspect.verdict === "slows" ? "bad" : "" }, verdict), el("td", {}, lost),
    el("td", { class: "wrap" }, suspect.shares.join(", ") || "nothing seen"));
}

function drawCulprits() {
  const rows = [];
  for (const workload of node.workloads) {
    if (absent(workload.culprits)) continue;
    for (const suspect of workload.culprits.suspects) rows.push(suspectRow(workload.name, suspect));
  }
  if (!rows.length) rows.push(el("tr", {}, el("td", { colspan: 5, class: "none" }, "no experiment has looked for culprits yet")));
  replace($("culprits").tBodies[0], ...rows);
}

function drawAgent() {
  const it = node.agent;
  const used = absent(it.cpu_percent) ? "CPU time unavailable" : `${it.cpu_percent.toFixed(2)} % of one CPU`;
  const memory = absent(it.resident_bytes) ? "memory unavailable" : bytes(it.resident_bytes);
  replace($("agent"), `Jostle ${node.tool_version}. The agent itself takes ${used} and ${memory}; ` +
    `it reads the node every ${node.interval_seconds} s and has been running for ${duration(it.uptime_seconds)}. `,
    el("a", { href: "/v1/openapi.json" }, "API"), " · ", el("a", { href: "/metrics" }, "metrics"));
}

function duration(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

// ---- workloads: rows are kept, so that focus and open ones stay

const rows = new Map(); // name -> { main, cells, button, detail, body }

function workloadRow(name) {
  const button = el("button", { class: "open", type: "button", "aria-expanded": "false" }, name);
  const cells = ["minor", "", "minor", "minor", "", ""].map((it) => el("td", { class: it }));
  const main = el("tr", {}, el("th", { scope: "row" }, button), ...cells);
  const body = el("td", { colspan: 7 });
  const detail = el("tr", { class: "detail" }, body);
  detail.id = `detail-${rows.size}-${Date.now()}`;
  detail.hidden = true;
  button.setAttribute("aria-controls", detail.id);
  button.addEventListener("click", () => toggle(name));
  return { main, cells, button, detail, body };
}

function toggle(name) {
  const row = rows.get(name);
  const opens = !open.has(name);
  if (opens) open.set(name, null); else open.delete(name);
  row.button.setAttribute("aria-expanded", String(opens));
  row.detail.hidden = !opens;
  if (opens) { drawDetail(name); loadTrend(name); }
}

function performanceCell(reading) {
  if (absent(reading)) return [shown(reading)];
  if (absent(reading.relative)) return [`${reading.value.toPrecision(3)} ${reading.unit}`];
  const meets = reading.meets_qos === true;
  const words = absent(reading.meets_qos) ? "" : meets ? "QoS met" : "QoS missed";
  return [el("span", { class: "number" }, `${(reading.relative * 100).toFixed(0)} %`),
    el("span", { class: words ? (meets ? "good" : "bad") : "" }, words)];
}

function stateCell(workload) {
  const words = [];
  if (absent(workload.profile)) words.push(el("span", { class: "none", title: workload.profile.unavailable }, "no profile"));
  else if (!absent(workload.drift) && workload.drift.drifted) words.push(el("span", { class: "warn", title: workload.drift.reason }, "drifted"));
  else words.push("profiled");
  const slows = !absent(workload.culprits) && workload.culprits.suspects.some((it) => it.verdict === "slows");
  if (slows) words.push(", ", el("span", { class: "bad" }, "slowed"));
  return words;
}

function drawWorkloads() {
  const body = $("workload-rows");
  const names = new Set(node.workloads.map((it) => it.name));
  for (const [name, row] of rows) {
    if (names.has(name)) continue;
    row.main.remove(); row.detail.remove(); rows.delete(name); open.delete(name);
  }
  $("workload-count").textContent = String(node.workloads.length);
  let before = null;
  for (const workload of node.workloads) {
    if (!rows.has(workload.name)) rows.set(workload.name, workloadRow(workload.name));
    const row = rows.get(workload.name);
    const next = before ? before.nextSibling : body.firstChild;
    if (row.main !== next) body.insertBefore(row.main, next);
    if (row.detail !== row.main.nextSibling) body.insertBefore(row.detail, row.main.nextSibling);
    before = row.detail;
    const { readings } = workload;
    replace(row.cells[0], workload.kind);
    replace(row.cells[1], shown(readings.cpu_percent, cpus));
    replace(row.cells[2], shown(readings.memory_bytes, bytes));
    replace(row.cells[3], shown(readings.psi_cpu_some_percent, percent));
    replace(row.cells[4], ...performanceCell(workload.performance));
    replace(row.cells[5], ...stateCell(workload));
    if (open.has(workload.name)) { drawDetail(workload.name); loadTrend(workload.name); }
  }
  const empty = $("no-workloads");
  if (empty) empty.remove();
  if (!node.workloads.length) {
    body.append(el("tr", { id: "no-workloads" }, el("td", { colspan: 7, class: "none" }, "no workload matches a rule of the configuration")));
  }
}

function drawDetail(name) {
  const workload = node.workloads.find((it) => it.name === name);
  const trend = open.get(name);
  const panes = el("div", { class: "panes" }, scores(workload), trends(workload, trend), particulars(workload));
  replace(rows.get(name).body, panes);
}

function scores(workload) {
  const pane = el("div", {}, el("h3", {}, "Scores"));
  if (absent(workload.profile)) {
    pane.append(el("p", { class: "none" }, workload.profile.unavailable));
    return pane;
  }
  const { tolerated, caused, name, recorded_at: at, of_this_machine: here } = workload.profile;
  const ids = [...new Set([...Object.keys(tolerated), ...Object.keys(caused)])].sort();
  const cell = (value) => value === undefined ? el("td", { class: "none" }, "unknown")
    : el("td", {}, el("span", { class: "number" }, number(0)(value)), bar(value));
  pane.append(el("table", { class: "scores" },
    el("thead", {}, el("tr", {}, ...["Resource", "Tolerated", "Caused"].map((it) => el("th", { scope: "col" }, it)))),
    el("tbody", {}, ...ids.map((id) => el("tr", {}, el("th", { scope: "row" }, id), cell(tolerated[id]), cell(caused[id]))))));
  const from = here ? "on this machine" : "on another kind of machine";
  pane.append(el("p", { class: "hint" }, `Profile ${name}, recorded ${at.slice(0, 16).replace("T", " ")} UTC ${from}.`));
  return pane;
}

function trends(workload, trend) {
  const pane = el("div", {}, el("h3", {}, "Trends"));
  if (!trend) {
    pane.append(el("p", { class: "none" }, "loading"));
    return pane;
  }
  const times = trend.unix_seconds;
  const qos = absent(workload.performance) ? undefined : workload.performance.qos_threshold;
  pane.append(
    plot("CPU", times, trend.cpu_percent.map((it) => it === null ? null : it / 100), (it) => `${it.toFixed(2)} CPUs`),
    plot("Waits for a CPU", times, trend.psi_cpu_some_percent, percent),
    plot("Waits for I/O", times, trend.psi_io_some_percent, percent),
    plot("Relative performance", times, trend.relative_performance, (it) => `${(it * 100).toFixed(0)} %`, qos));
  return pane;
}

function plot(title, times, values, format, mark) {
  const known = values.filter((it) => it !== null);
  const figure = el("figure", { class: "trend" });
  if (!known.length) {
    figure.append(el("figcaption", {}, `${title}: unavailable`));
    return figure;
  }
  const low = Math.min(...known), high = Math.max(...known);
  const latest = values[values.length - 1];
  const span = duration(times[times.length - 1] - times[0]);
  const now = latest === null ? "unavailable" : format(latest);
  const words = `${title}: ${now} now, ${format(low)} to ${format(high)} in the last ${span}`;
  const bottom = Math.min(low, mark === undefined ? low : mark), top = Math.max(high, mark === undefined ? high : mark);
  const pad = (top - bottom) * 0.1 || Math.abs(top) * 0.1 || 1;
  const y = (it) => (100 - 100 * (it - bottom + pad) / (top - bottom + 2 * pad)).toFixed(2);
  const first = times[0], length = times[times.length - 1] - first || 1;
  let path = "", pen = "M";
  values.forEach((value, at) => {
    if (value === null) { pen = "M"; return; }
    const x = (100 * (times[at] - first) / length).toFixed(2);
    path += `${pen}${x} ${y(value)}`;
    pen = "L";
  });
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 100 100");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", words);
  if (mark !== undefined) {
    const line = document.createElementNS(SVG, "line");
    for (const [key, value] of Object.entries({ x1: 0, x2: 100, y1: y(mark), y2: y(mark) })) line.setAttribute(key, value);
    drawing.append(line);
  }
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  drawing.append(line);
  const dashed = mark === undefined ? "" : `; dashed: QoS ${format(mark)}`;
  figure.append(drawing, el("figcaption", {}, words + dashed));
  return figure;
}

function particulars(workload) {
  const { readings } = workload;
  const rate = (it) => `${bytes(it)}/s`;
  const labels = Object.entries(workload.labels || {}).map(([key, value]) => `${key}=${value}`).join(", ");
  const list = el("dl", { class: "facts" },
    fact("Target", workload.target, "text"),
    labels ? fact("Labels", labels, "text") : null,
    fact("Disk read", shown(readings.disk_read_bytes_per_second, rate), "text"),
    fact("Disk written", shown(readings.disk_written_bytes_per_second, rate), "text"),
    fact("Received", shown(readings.network_received_bytes_per_second, rate), "text"),
    fact("Sent", shown(readings.network_sent_bytes_per_second, rate), "text"),
    fact("Threads waiting", shown(readings.run_queue_delay_percent, cpus), "text"),
    fact("May be profiled", workload.may_be_profiled ? "yes" : "no", "text"),
    fact("May be paused", workload.may_be_paused ? "yes" : "no", "text"));
  const reasons = [];
  const named = { performance: workload.performance, drift: workload.drift, culprits: workload.culprits, ...readings };
  for (const [name, reading] of Object.entries(named)) {
    if (absent(reading)) reasons.push(`${name.replaceAll("_", " ")}: ${reading.unavailable}`);
  }
  if (!absent(workload.drift) && workload.drift.drifted) reasons.unshift(`drifted: ${workload.drift.reason}`);
  return el("div", {}, el("h3", {}, "Particulars"), list,
    el("ul", { class: "reasons" }, ...reasons.map((it) => el("li", {}, it))));
}

async function loadTrend(name) {
  try {
    const view = await (await ask(`/v1/workloads/${encodeURIComponent(name)}`)).json();
    if (open.has(name)) { open.set(name, view.trend); drawDetail(name); }
  } catch { /* the next refresh tries again */ }
}

// ---- events

function addEvent(event) {
  if (event.id <= lastEvent) return;
  lastEvent = event.id;
  const list = $("events");
  const where = event.workload ? `${event.workload}: ` : "";
  list.prepend(el("li", {}, el("time", { datetime: event.at }, clock(event.at)),
    el("span", { class: "kind" }, event.kind.replaceAll("-", " ")), el("span", { class: "what" }, where + event.text)));
  while (list.children.length > MOST_EVENTS) list.lastChild.remove();
}

// ---- the network

async function ask(path, headers = {}, signal = undefined) {
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch(path, { headers, signal, cache: "no-store" });
  if (response.status === 401) {
    $("token-form").hidden = false;
    say("bad", token ? "the token is wrong" : "a token is needed");
    throw new Error("401");
  }
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

function say(tone, text) {
  const status = $("status");
  status.className = tone;
  if (status.textContent !== text) status.textContent = text;
}

async function refresh() {
  node = await (await ask("/v1/node")).json();
  $("node-name").textContent = node.name;
  $("machine").textContent = `${node.machine.model}, ${node.machine.cpus} CPUs, ${bytes(node.machine.memory_bytes)}, Linux ${node.machine.kernel}`;
  document.title = `${node.name} – Jostle agent`;
  drawLoad(); drawResources(); drawExperiment(); drawWorkloads(); drawCulprits(); drawAgent();
  say("good", `Live, as of ${clock(node.recorded_at)}`);
}

function message(text) {
  let kind = "message", data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return null;
  if (kind === "event") addEvent(JSON.parse(data));
  return kind;
}

// Not an EventSource: that cannot send a token.
async function listen() {
  const headers = { accept: "text/event-stream" };
  if (lastEvent) headers["last-event-id"] = String(lastEvent);
  const response = await ask("/v1/events", headers);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    if (messages.map(message).includes("refresh")) await refresh();
  }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function follow() {
  for (;;) {
    try {
      await listen();
      say("bad", "The agent ended the connection; trying again");
    } catch (error) {
      if (error.message === "401") return;
      say("bad", `No connection to the agent (${error.message}); trying again`);
    }
    await pause(2000);
  }
}

$("token-form").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  $("token-form").hidden = true;
  follow();
});

follow();
