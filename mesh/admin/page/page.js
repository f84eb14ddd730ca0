"use strict";
// Shows /status, /metrics and /readyz of the process that served it. Names come from clients: they become text, never markup.
const EVERY = 2000, KEPT = 90, MOST_ROWS = 50;
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child))));
  return made;
}

// Numbers for people

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of UNITS) if (Math.abs(value) >= 10 * size || (Math.abs(value) >= size && size > 1e3)) return (value / size).toFixed(1) + " " + unit;
  return Number.isInteger(value) || Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}
function bytes(value) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (value >= size) return (value / size).toFixed(1) + " " + unit;
  return Math.round(value) + " B";
}
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  return seconds < 7200 ? Math.round(seconds / 60) + " min" : Math.round(seconds / 3600) + " h";
}

// Prometheus' text format

function parsed(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const parts = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (parts === null) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    if (!found.has(parts[1])) found.set(parts[1], []);
    found.get(parts[1]).push({ labels, value: Number(parts[3]) });
  }
  return found;
}
const matching = (sample, wanted) => Object.entries(wanted).every(([name, value]) => sample.labels[name] === value);
const total = (metrics, name, wanted) => (metrics.get(name) || []).filter((sample) => matching(sample, wanted || {})).reduce((sum, sample) => sum + sample.value, 0);

let before = null;                 // {at, metrics} of the last answer
const history = new Map();         // records per second of each group, the latest last
function rate(now, name, wanted) {
  if (before === null || now.at <= before.at) return null;
  return Math.max(0, (total(now.metrics, name, wanted) - total(before.metrics, name, wanted)) / ((now.at - before.at) / 1000));
}

// Parts of the page

function tile(name, value, kind) {
  return element("div", { class: "tile" }, element("b", { class: kind || "" }, value), element("span", {}, name));
}

function curve(key, value) {
  const values = history.get(key) || [];
  if (value !== null) values.push(value);
  history.set(key, values.slice(-KEPT));
  const made = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "polyline");
  made.setAttribute("viewBox", "0 0 100 30");
  made.setAttribute("preserveAspectRatio", "none");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", "records per second, the last minutes");
  const most = Math.max(1, ...values);
  line.setAttribute("points", values.map((each, at) => `${(100 * (at + KEPT - values.length)) / KEPT},${29 - (27 * each) / most}`).join(" "));
  made.append(line);
  return made;
}

function table(columns, rows) {
  const heads = columns.map(([name, kind]) => element("th", { class: kind }, name));
  const shown = rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...row.map((cell, at) => {
    const made = element("td", { class: columns[at][1] }, cell);
    if (columns[at][1].includes("name") && typeof cell === "string") made.title = cell;
    return made;
  })));
  const rest = rows.length - shown.length;
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...shown)),
    rest > 0 ? element("p", { class: "quiet" }, `and ${rest} more: kafka-mesh status shows all`) : null);
}

function held(member) {
  const bar = element("meter", { min: 0, max: Math.max(member.cap ?? member.records, 1), value: Math.min(member.records, member.cap ?? member.records), title: `${member.records} of ${member.cap ?? "any number"}` });
  return element("span", {}, short(member.records), " ", bar);
}

const nameOf = (member) => (member.id.startsWith(member.client_id) ? member.id : `${member.client_id} ${member.id}`);
function lookAt(cluster, pool, where) {
  const made = element("button", { type: "button", class: "look" }, "look");
  made.addEventListener("click", () => look({ virtual_cluster: cluster.name, group: pool.group, ...where }));
  return made;
}

function membersOf(cluster, pool) {
  const slowestFirst = [...pool.members].sort((one, other) => (other.oldest_held_seconds || 0) - (one.oldest_held_seconds || 0));
  return table([["member", "name"], ["host", "name wide"], ["settles by", "wide"], ["holds", "number"], ["oldest", "number"], ["heard", "number wide"], ["gets nothing because", ""], ["", ""]],
    slowestFirst.map((member) => [nameOf(member), member.client_host, member.acknowledge, held(member),
      duration(member.oldest_held_seconds), duration(member.last_heard_seconds), member.reason || "",
      member.records > 0 ? lookAt(cluster, pool, { member: member.id }) : ""]));
}

function partitionsOf(cluster, pool) {
  const mostFirst = [...pool.partitions].sort((one, other) => (other.lag || 0) - (one.lag || 0));
  return table([["partition", "name"], ["cluster", ""], ["source", "wide"], ["committed", "number wide"], ["end", "number wide"], ["lag", "number"], ["backlog", "number"], ["waits for", ""], ["", ""]],
    mostFirst.map((each) => {
      const oldest = each.oldest_unacknowledged;
      const waits = oldest === null ? "" : `offset ${oldest.offset}` + (oldest.member === null ? ", no member has it" : `, held for ${duration(oldest.held_seconds)} by ${oldest.member}`);
      const source = each.source === "down" ? element("b", { class: "bad" }, "down") : each.standing === "active" ? "up" : each.standing;
      return [`${each.topic}-${each.partition}`, each.cluster, source, short(each.committed), short(each.end), short(each.lag), short(each.backlog), waits,
        oldest === null ? "" : lookAt(cluster, pool, { partition: `${each.cluster}/${each.upstream_topic}-${each.upstream_partition}`, offset: oldest.offset })];
    }));
}

// Replays: how far each is, and its end

function replaysOf(cluster, pool) {
  if (!pool.replays.length) return null;
  return table([["replay", "name"], ["left", "number"], ["", ""], ["records/s", "number wide"], ["", ""]],
    pool.replays.map((each) => [each.replay, short(each.left), element("meter", { min: 0, max: each.offsets, value: each.offsets - each.left, title: `${each.offsets - each.left} of ${each.offsets}` }),
      each.rate === null ? "" : short(each.rate), each.state === "cancelled" ? "cancelled; members have the rest" : cancelOf(cluster, pool, each)]));
}

function cancelOf(cluster, pool, replay) {
  const made = element("button", { type: "button", class: "look", "data-action": "cancel" }, "cancel");
  made.addEventListener("click", async () => {
    if (!confirm(`Cancel replay ${replay.replay} of ${pool.group}? The rest of it is not delivered again.`)) return;
    const answer = await ask(`replays?${new URLSearchParams({ virtual_cluster: cluster.name, group: pool.group, replay: replay.replay })}`, "DELETE");
    if (!answer.ok) alert((await answer.json()).problem);
    await refresh();
  });
  return made;
}

const opened = new Set();
function foldable(key, name, content) {
  const made = element("details", opened.has(key) ? { open: "" } : {}, element("summary", {}, name), content);
  made.addEventListener("toggle", () => (made.open ? opened.add(key) : opened.delete(key)));
  return made;
}

function poolOf(cluster, pool, now) {
  const wanted = { virtual_cluster: cluster.name, group: pool.group };
  const out = rate(now, "kafka_mesh_records_out_total", wanted);
  const again = rate(now, "kafka_mesh_redelivered_records_total", wanted), dead = total(now.metrics, "kafka_mesh_dead_letters_total", wanted);
  const key = `${cluster.name}\n${pool.group}`;
  const fact = (name, value, kind) => element("span", {}, element("b", { class: kind || "" }, value), " ", element("span", { class: "quiet" }, name));
  return element("article", { class: "pool" },
    element("div", {}, element("h3", {}, pool.group), fact(pool.member_count === 1 ? "member" : "members", pool.member_count), fact("records/s", short(out)), fact("lag", short(pool.lag)),
      fact("delivered again/s", short(again), again > 0 ? "warn" : ""), dead > 0 ? fact("dead letters", short(dead), "bad") : null, curve(key, out)),
    membersOf(cluster, pool), replaysOf(cluster, pool), foldable(key, `${pool.partitions.length} partitions`, partitionsOf(cluster, pool)));
}

function nodesOf(cluster, nodes, title, now) {
  const per = (name, node) => rate(now, name, { virtual_cluster: cluster.name, node: String(node.node) });
  const addressOf = (address) => (address === null ? element("b", { class: "bad" }, "none") : address);
  const further = (node) => Object.entries(node.further_addresses || {}).flatMap(([name, address]) => [element("br", {}), element("span", { class: "quiet" }, `${name} `), addressOf(address)]);
  const addresses = (node) => (further(node).length ? element("span", {}, addressOf(node.address), ...further(node)) : addressOf(node.address));
  const rows = nodes.map((node) => [String(node.node), addresses(node), node.upstream, short(node.legs),
    short(per("kafka_mesh_relay_requests_total", node)), bytes(per("kafka_mesh_relay_request_bytes_total", node) || 0), bytes(per("kafka_mesh_relay_response_bytes_total", node) || 0), node.problem]);
  const columns = [["node", "number"], ["address", "name"], ["upstream", "name wide"], ["connections", "number"], ["requests/s", "number"], ["in/s", "number wide"], ["out/s", "number wide"], ["problem", ""]];
  return [element("h2", {}, title), element("article", { class: "pool" }, table(columns, rows))];
}

// Topologies of streams groups: a picture is asked for when it is opened, and again when another epoch is stored
const pictures = new Map();
async function fetchPicture(key, cluster, group) {
  const answer = await ask(`topologies?${new URLSearchParams({ virtual_cluster: cluster, group: group.group, ...(group.cluster ? { cluster: group.cluster } : {}) })}`);
  const found = answer.ok ? await answer.json() : {};
  const url = found.svg ? `data:image/svg+xml,${encodeURIComponent(found.svg)}` : null;
  pictures.set(key, { stored: group.stored, url, text: found.status || "no answer" });
}

function pictureOf(key, cluster, group) {
  const known = pictures.get(key);
  if (opened.has(key) && (!known || known.stored !== group.stored)) fetchPicture(key, cluster, group).catch(() => pictures.delete(key));
  if (known && known.url) return element("img", { src: known.url, alt: `topology of ${group.group}` });
  return element("p", { class: "quiet" }, known ? known.text : "loading …");
}

function streamsOf(cluster) {
  if (!cluster.streams) return [];
  const epoch = (value) => (value === -2 ? "uncertain" : value < 0 ? "none" : String(value));
  const groups = cluster.streams.groups.slice(0, MOST_ROWS).map((group) => {
    const key = `${cluster.name}\ntopology\n${group.cluster || ""}\n${group.group}`;
    return foldable(key, `${group.group}${group.cluster ? ` of ${group.cluster}` : ""}: stored epoch ${epoch(group.stored)}, failed epoch ${epoch(group.failed)}`, pictureOf(key, cluster.name, group));
  });
  const rest = cluster.streams.groups.length - groups.length;
  return [element("h2", {}, `Topologies of ${cluster.name}`), element("article", { class: "pool topologies" },
    cluster.streams.problem ? element("p", { class: "bad" }, cluster.streams.problem) : null, ...groups,
    groups.length ? null : element("p", { class: "quiet" }, "no group has described its topology"),
    rest > 0 ? element("p", { class: "quiet" }, `and ${rest} more: kafka-mesh status --streams shows all`) : null)];
}

function targetOf(cluster, now) {
  if (cluster.relay) return [...streamsOf(cluster), ...nodesOf(cluster, cluster.relay.nodes, `Nodes of ${cluster.name}, a relay of ${cluster.relay.cluster}`, now)];
  const leaves = cluster.router ? cluster.router.leaves.flatMap((leaf) => nodesOf(cluster, leaf.nodes, `Nodes of ${cluster.name}, route ${leaf.path} to ${leaf.cluster}`, now)) : [];
  if (!cluster.pools) return [...streamsOf(cluster), ...leaves];
  return [...streamsOf(cluster), ...leaves, element("h2", {}, `Groups of ${cluster.name}`),
    ...(cluster.pools.length ? cluster.pools.map((pool) => poolOf(cluster, pool, now)) : [element("p", { class: "quiet" }, "no group has members here")])];
}

function problemsOf(ready) {
  return [...ready.problems.map((problem) => element("p", { class: "notice bad" }, problem)), ...ready.degraded.map((each) => {
    const where = ["cluster", "virtual_cluster", "group", "topic"].filter((key) => each[key]).map((key) => `${key.replace("_", " ")} ${each[key]}`).join(", ");
    return element("p", { class: "notice" }, element("b", {}, `${where}: ${each.what}`), ` for ${duration(each.seconds)}. ${each.reason}. Meanwhile: ${each.meanwhile}`);
  })];
}

function clustersOf(now) {
  return (now.metrics.get("kafka_mesh_upstream_up") || []).map(({ labels, value }) => element("div", { class: "card" },
    element("h3", {}, labels.cluster, " ", element("span", { class: value ? "good" : "bad" }, value ? "up" : "down")),
    element("span", { class: "quiet" }, `${short(rate(now, "kafka_mesh_records_in_total", { cluster: labels.cluster }))} records/s in`)));
}

const ERRORS = [["kafka_mesh_requests_total", "answered", ["api", "error"]], ["kafka_mesh_protocol_errors_total", "closed, protocol", ["reason"]],
  ["kafka_mesh_connections_closed_total", "closed, limit", ["reason"]], ["kafka_mesh_tls_failures_total", "TLS", ["reason"]],
  ["kafka_mesh_authorization_refusals_total", "refused", ["api", "operation", "resource_type"]],
  ["kafka_mesh_throttled_requests_total", "throttled", ["api"]], ["kafka_mesh_upstream_commits_total", "upstream commit", ["cluster", "result"]],
  ["kafka_mesh_pool_violations_total", "pool violation", []], ["kafka_mesh_engine_failures_total", "engine failure", ["cluster"]]];
// A client that joins for the first time is told its id by an error: KIP-394.
const isFine = (labels) => ["NONE", "MEMBER_ID_REQUIRED"].includes(labels.error) || labels.result === "stored";
function errorsOf(now) {
  const rows = ERRORS.flatMap(([name, kind, labels]) => (now.metrics.get(name) || []).filter((sample) => sample.value > 0 && !isFine(sample.labels))
    .map((sample) => [kind, labels.map((label) => sample.labels[label]).join(" "), sample.labels.virtual_cluster || "", short(sample.value), short(rate(now, name, sample.labels))]));
  return rows.length ? table([["what", ""], ["which", "name"], ["virtual cluster", "wide"], ["since the start", "number"], ["per second", "number"]], rows) : element("p", { class: "quiet" }, "none since the start");
}

function tilesOf(status, now) {
  const pools = status.virtual_clusters.flatMap((cluster) => cluster.pools || []);
  const ages = pools.flatMap((pool) => pool.members).map((member) => member.oldest_held_seconds || 0);
  return [tile("records/s out", short(rate(now, "kafka_mesh_records_out_total"))), tile("groups", pools.length),
    tile("members", pools.reduce((sum, pool) => sum + pool.member_count, 0)), tile("lag", short(pools.reduce((sum, pool) => sum + pool.lag, 0))),
    tile("in flight", short(total(now.metrics, "kafka_mesh_in_flight_records"))), tile("oldest in flight", duration(Math.max(0, ...ages))),
    tile("backlog", short(total(now.metrics, "kafka_mesh_backlog_records"))), tile("records in memory", bytes(total(now.metrics, "kafka_mesh_buffered_bytes"))),
    tile("connections", status.virtual_clusters.reduce((sum, cluster) => sum + cluster.connections, 0)), tile("memory", bytes(total(now.metrics, "process_resident_memory_bytes")))];
}

// A record that is not settled, and what is done to it

function bytesOf(shown) {
  if (shown === null) return element("i", {}, "null");
  if (shown.hidden) return element("i", {}, shown.reason ? `hidden: ${shown.reason}` : "hidden");
  const text = shown.json !== undefined ? JSON.stringify(shown.json, null, 2) : shown.text !== undefined ? shown.text : shown.hex;
  return element("span", {}, element("pre", {}, text), element("span", { class: "quiet" }, `${shown.text === undefined ? "hexadecimal, " : ""}${shown.size} bytes${shown.cut ? ", cut" : ""}`));
}

const ACTIONS = [["settle", "Settle", "It counts as processed."], ["bury", "Bury", "It becomes a dead letter."], ["release", "Release", "Another member gets it."]];
function actionsOf(found) {
  return ACTIONS.map(([action, name, meaning]) => {
    const made = element("button", { type: "button", title: meaning, "data-action": action }, name);
    made.addEventListener("click", () => act(found, action, meaning));
    return made;
  });
}

function factsOf(found) {
  const place = found.places[0] || {};
  const holder = place.member ? `held by ${place.member} for ${duration(place.held_seconds)}` : place.state ? `no member has it: ${place.state}` : "settled";
  return element("p", {}, holder, place.deliveries ? `; delivered in vain ${place.deliveries} times` : "");
}

function showRecord(found, told) {
  const record = found.record, close = element("button", { type: "button" }, "Close");
  close.addEventListener("click", () => { byId("record").hidden = true; });
  const rows = record ? [["key", bytesOf(record.key)], ["value", bytesOf(record.value)], ...record.headers.map((each) => [`header ${each.name}`, bytesOf(each.value)]),
    ["time", record.timestamp === null ? "none" : new Date(record.timestamp).toISOString()]] : [];
  byId("record").replaceChildren(element("h2", {}, `Record ${found.offset} of ${found.partition}, group ${found.group}`),
    element("article", { class: "pool" }, told ? element("p", { class: "notice" }, told) : null, found.places ? factsOf(found) : null,
      record ? table([["", ""], ["", "name"]], rows) : element("p", { class: "quiet" }, found.not_shown || ""), element("p", {}, ...(found.places ? actionsOf(found) : []), close)));
  byId("record").hidden = false;
  byId("record").scrollIntoView({ block: "nearest" });
}

async function look(where) {
  const answer = await ask(`records?${new URLSearchParams(where)}`), found = await answer.json();
  if (answer.ok) showRecord(found);
  else showRecord({ ...where, offset: where.offset ?? "", partition: where.partition || "any partition" }, found.problem);
}

async function act(found, action, meaning) {
  if (!confirm(`${action} record ${found.offset} of ${found.partition}? ${meaning} Its member loses all records that it holds of this partition.`)) return;
  const where = { virtual_cluster: found.virtual_cluster, group: found.group, partition: found.partition, offset: found.offset, action };
  const answer = await ask(`records?${new URLSearchParams(where)}`, "POST"), done = await answer.json();
  showRecord(answer.ok ? { ...found, places: undefined, record: undefined } : found, answer.ok ? `${action}: done, ${done.records} record` : done.problem);
}

// Asking

async function ask(path, method = "GET") {
  const token = sessionStorage.getItem("token");
  return fetch(path, { method, cache: "no-store", headers: token === null ? {} : { authorization: `Bearer ${token}` } });
}

class Refused extends Error {}

let last = null;
async function refresh() {
  const [status, metrics, ready] = await Promise.all(["status", "metrics", "readyz"].map((path) => ask(path)));
  if ([status, metrics, ready].some((answer) => answer.status === 401)) throw new Refused();
  const now = { at: performance.now(), metrics: parsed(await metrics.text()) };
  show(await status.json(), await ready.json(), now);
  before = now;
  last = Date.now();
}

function show(status, ready, now) {
  byId("login").hidden = true;
  byId("main").hidden = false;
  const badge = byId("state");
  badge.textContent = !ready.ready ? "not ready" : ready.degraded.length ? "ready, with problems" : "ready";
  badge.className = `badge ${!ready.ready ? "bad" : ready.degraded.length ? "warn" : "good"}`;
  byId("problems").replaceChildren(...problemsOf(ready));
  byId("tiles").replaceChildren(...tilesOf(status, now));
  byId("clusters").replaceChildren(...clustersOf(now));
  byId("pools").replaceChildren(...status.virtual_clusters.flatMap((cluster) => targetOf(cluster, now)));
  byId("errors").replaceChildren(errorsOf(now));
  document.body.dataset.shown = String(Number(document.body.dataset.shown || 0) + 1);
}

function lost() {
  byId("state").textContent = "no answer";
  byId("state").className = "badge bad";
}

async function loop() {
  try {
    await refresh();
  } catch (problem) {
    if (problem instanceof Refused) return askForToken();
    if (!(problem instanceof TypeError)) throw problem;
    lost();
  }
  setTimeout(loop, EVERY);
}

function askForToken() {
  byId("refused").hidden = sessionStorage.getItem("token") === null;
  byId("login").hidden = false;
  byId("main").hidden = true;
  byId("state").textContent = "a token is required";
  byId("token").focus();
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value);
  loop();
});
setInterval(() => { byId("fresh").textContent = last === null ? "" : `updated ${duration((Date.now() - last) / 1000)} ago`; }, 1000);
loop();
