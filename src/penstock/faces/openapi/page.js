"use strict";
// Everything shown is made as text nodes: whatever the document says, it is never taken for markup.
const at = (id) => document.getElementById(id);
const SHARED = new Set(["401", "403", "408", "413", "414", "417", "429", "431", "500", "501", "503"]);
let doc;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") element.className = value;
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
  return element;
}

// Text with `code` in it.
const said = (text) => (text || "").split(/`([^`]+)`/).map((part, i) => (i % 2 ? make("code", {}, part) : part));
const paragraphs = (text) => (text || "").split(/\n\n+/).map((part) => make("p", {}, said(part)));

const nameOf = (part) => (part && part.$ref ? part.$ref.split("/").pop() : "");
function resolve(part) {
  while (part && part.$ref) part = part.$ref.slice(2).split("/").reduce((found, key) => found[key], doc);
  return part || {};
}

function kind(schema) {
  if (schema.$ref) return nameOf(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.type === "array") return "array of " + kind(schema.items || {});
  if (schema.type === "object" && schema.additionalProperties && !schema.properties) return "object of " + kind(schema.additionalProperties);
  return [].concat(schema.type || "any").join(" or ");
}

function rules(schema) {
  const found = [];
  const inner = (schema.anyOf || []).find((one) => one.type !== "null") || schema;
  const show = (value) => (typeof value === "number" ? value.toLocaleString("en") : JSON.stringify(value));
  const { minimum, maximum } = inner;
  if (minimum !== undefined && maximum !== undefined) found.push(`${show(minimum)} to ${show(maximum)}`);
  else if (minimum !== undefined) found.push(`from ${show(minimum)}`);
  if (inner.maxLength !== undefined) found.push(`at most ${show(inner.maxLength)} characters`);
  if (inner.maxItems !== undefined) found.push(`${inner.minItems || 0} to ${show(inner.maxItems)}`);
  if (inner.contentEncoding) found.push(inner.contentEncoding);
  if (inner.format && inner.format !== "int64") found.push(inner.format);
  if (schema.default !== undefined && schema.default !== null) found.push(`default ${show(schema.default)}`);
  return found.join(", ");
}

// A schema as a tree; what is inside itself is named and not opened again.
function shape(schema, above = []) {
  const name = nameOf(schema);
  if (name && above.includes(name)) return null;
  const inside = name ? [...above, name] : above;
  const whole = resolve(schema);
  if (whole.type === "array") return shape(whole.items || {}, inside);
  if (whole.anyOf) return whole.anyOf.map((one) => shape(one, inside));
  if (!whole.properties) return null;
  const required = new Set(whole.required || []);
  return make("ul", {}, Object.entries(whole.properties).map(([key, value]) => make("li", {},
    make("code", {}, key), required.has(key) ? null : make("span", { class: "soft" }, "?"), " ",
    make("span", { class: "soft" }, kind(value), rules(value) ? `, ${rules(value)}` : ""),
    value.description || resolve(value).description ? make("span", {}, " ", said(value.description || "")) : null,
    shape(value, inside))));
}

function contents(content) {
  return Object.entries(content || {}).map(([media, { schema, example, examples }]) => {
    const shown = example !== undefined ? [example] : Object.values(examples || {}).map((one) => one.value);
    return make("div", { class: "body" },
      make("div", { class: "soft" }, media === "*/*" ? "any content type" : media, " · ", kind(schema || {})),
      resolve(schema).description ? make("div", { class: "soft" }, said(resolve(schema).description)) : null,
      make("div", { class: "shape" }, shape(schema || {})),
      shown.map((one) => make("pre", {}, make("code", {}, typeof one === "string" ? one : JSON.stringify(one, null, 2)))));
  });
}

function parameterRow(one) {
  return make("tr", {},
    make("td", {}, make("code", {}, one.name), one.required ? make("span", { class: "need" }, "required") : null,
      make("div", { class: "soft" }, one.in)),
    make("td", { class: "soft" }, kind(one.schema), rules(one.schema) ? `, ${rules(one.schema)}` : ""),
    make("td", {}, said(one.description)));
}

function responseOf([status, part]) {
  const whole = resolve(part);
  const tone = status < 300 ? "ok" : status < 500 ? "bad" : "worse";
  const headers = Object.entries(whole.headers || {}).map(([name, header]) => make("div", {},
    make("code", {}, name), " ", make("span", { class: "soft" }, said(resolve(header).description))));
  const title = [make("span", { class: `status ${tone}` }, status), " ", ...said(whole.description)];
  if (!whole.content && !headers.length) return make("div", { class: "answer plain" }, title);
  return make("details", { class: "answer", open: status < 300 }, make("summary", {}, title), headers, contents(whole.content));
}

function responses(found) {
  const all = Object.entries(found);
  const own = all.filter(([status, part]) => !(SHARED.has(status) && part.$ref));
  const others = all.filter(([status, part]) => SHARED.has(status) && part.$ref);
  return [own.map(responseOf), make("details", { class: "common" },
    make("summary", {}, "And what any request may be answered: ", others.map(([status]) => status).join(", ")),
    others.map(responseOf))];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl(method, path, operation) {
  const parameters = operation.parameters || [];
  const filled = path.replace(/\{(\w+)\}/g, (_all, name) => encodeURIComponent((parameters.find((one) => one.in === "path" && one.name === name) || {}).example ?? name));
  const query = parameters.filter((one) => one.in === "query" && one.required).map((one) => `${one.name}=${encodeURIComponent(one.example ?? "x")}`).join("&");
  const url = new URL("." + filled, location.href).href + (query ? `?${query}` : "");
  const parts = [`curl ${method === "GET" ? "" : `-X ${method} `}${/[?&]/.test(url) ? quoted(url) : url}`];
  const all = Object.entries((operation.requestBody || {}).content || {});
  const [media, content] = all[0] || [];
  if (content) {
    const example = Object.values(content.examples || {})[0];
    const value = example ? example.value : "";
    parts.push(`-H 'Content-Type: ${all.some(([one]) => one === "*/*") ? "text/plain" : media}'`);
    parts.push(`-d ${quoted(typeof value === "string" ? value : JSON.stringify(value))}`);
  }
  return parts.join(" \\\n  ");
}

function copied(text) {
  const button = make("button", { type: "button" }, "copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return make("div", { class: "curl" }, make("pre", {}, make("code", {}, text)), navigator.clipboard ? button : null);
}

function inside(method, path, operation, head) {
  return make("div", { class: "inside" },
    make("div", { class: "what" }, paragraphs(operation.description),
      head ? make("p", { class: "soft" }, "HEAD is answered as well: the same without the body.") : null),
    make("div", { class: "side" }, make("h3", {}, "From a shell"), copied(curl(method, path, operation)),
      make("h3", {}, "Try it"), trial(method, path, operation, head)),
    make("div", { class: "how" },
      operation.parameters ? [make("h3", {}, "Parameters"), make("table", {}, make("tbody", {}, operation.parameters.map(parameterRow)))] : null,
      operation.requestBody ? [make("h3", {}, "Body", operation.requestBody.required ? make("span", { class: "need" }, "required") : null),
        make("p", {}, said(operation.requestBody.description)), contents(operation.requestBody.content)] : null,
      make("h3", {}, "Answers"), responses(operation.responses)));
}

// The card that the address names is marked, here and in the list.
function mark(card) {
  for (const one of document.querySelectorAll(".operation.current")) { one.classList.remove("current"); one.link.removeAttribute("aria-current"); }
  card.classList.add("current");
  card.link.setAttribute("aria-current", "true");
}

function cardOf({ path, method, operation, head }, tag) {
  const id = operation.operationId;
  const link = make("a", { class: "mark", href: `#${id}`, title: "a link to this operation", "aria-label": `link to ${id}` }, "#");
  const card = make("details", { class: "operation", id }, make("summary", {},
    make("span", { class: `method ${method}` }, method.toUpperCase()), make("span", { class: "path" }, path),
    make("span", { class: "said" }, operation.summary), make("code", { class: "name" }, id), link));
  // Filled when it is opened: most never are.
  card.addEventListener("toggle", () => {
    if (!card.open) return;
    if (card.childElementCount === 1) card.append(inside(method.toUpperCase(), path, operation, head));
    history.replaceState(null, "", `#${id}`);
    mark(card);
  });
  card.link = make("a", { href: `#${id}` }, make("span", { class: `method ${method}` }, method.toUpperCase()),
    make("span", {}, operation.summary, " ", make("code", {}, id)));
  card.words = wordsOf([method, path, operation.summary, id].join(" "));
  card.mentioned = wordsOf([operation.description, tag.name, (operation.parameters || []).map((one) => one.name).join(" ")].join(" "));
  return card;
}

function show() {
  document.title = `${doc.info.title}: the APIs`;
  at("title").replaceChildren(doc.info.title, make("small", {}, doc.info.version));
  at("about").replaceChildren(...paragraphs(doc.info.description), make("div", { class: "links" }, make("a", { href: "openapi.json" }, "openapi.json")));
  const groups = new Map(doc.tags.map((tag) => [tag.name, { tag, found: [] }]));
  for (const [path, methods] of Object.entries(doc.paths))
    for (const [method, operation] of Object.entries(methods))
      if (method !== "head") groups.get(operation.tags[0]).found.push({ path, method, operation, head: method === "get" && methods.head });
  for (const { tag, found } of groups.values()) {
    const cards = found.map((one) => cardOf(one, tag));
    at("nav").append(make("div", {}, make("h2", {}, tag.name), cards.map((card) => card.link)));
    at("operations").append(make("section", { class: "group" }, make("h2", {}, tag.name), make("p", {}, said(tag.description)), cards));
  }
}

// Words as people type them: `unclaimAll` is also `all`, and `ack` is not in `back`.
function wordsOf(text) {
  const whole = text.toLowerCase().split(/[^a-z0-9_-]+/);
  const parts = text.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/);
  return [...new Set([...whole, ...parts])].filter(Boolean);
}

// What is called so comes first; what only mentions it is shown on request, or where nothing is called so.
function search(_event, withMentions = false) {
  const asked = at("search").value.toLowerCase().split(/[^a-z0-9_-]+/).filter(Boolean);
  const begins = (words) => (one) => words.some((word) => word.startsWith(one));
  const cards = [...document.querySelectorAll(".operation")];
  const called = new Set(cards.filter((card) => asked.every(begins(card.words))));
  const mentioned = cards.filter((card) => !called.has(card) && asked.every(begins([...card.words, ...card.mentioned])));
  const shown = called.size && !withMentions ? called : new Set([...called, ...mentioned]);
  for (const card of cards) card.hidden = card.link.hidden = !shown.has(card);
  for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector(".operation:not([hidden])");
  for (const group of at("nav").children) group.hidden = !group.querySelector("a:not([hidden])");
  at("nothing").hidden = shown.size > 0;
  at("more").hidden = !(called.size && mentioned.length && !withMentions);
  at("more").firstElementChild.textContent = `show ${mentioned.length} more that only mention it`;
}

function open() {
  const card = location.hash.length > 1 && at(decodeURIComponent(location.hash.slice(1)));
  if (!card || card.tagName !== "DETAILS") return;
  if (card.hidden) { at("search").value = ""; search(); }
  if (narrow.matches) at("menu").open = false;
  card.open = true;
  mark(card);
  card.scrollIntoView();
}

function kept(theme) {
  // A browser may keep nothing for this page; then the theme lasts as long as the page.
  try { return theme ? localStorage.setItem("theme", theme) : localStorage.getItem("theme"); } catch { return null; }
}

at("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  kept(root.dataset.theme);
});
const theme = kept();
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
// On a small screen the list is folded away until it is asked for.
const narrow = matchMedia("(max-width: 60rem)");
const fold = () => { at("menu").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();
at("search").addEventListener("input", search);
at("search").addEventListener("focus", () => { if (narrow.matches) at("menu").open = false; });
at("more").firstElementChild.addEventListener("click", () => search(null, true));
addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { event.preventDefault(); at("search").focus(); }
});
fetch("openapi.json").then((answer) => {
  if (!answer.ok) throw new Error(`openapi.json answered ${answer.status}`);
  return answer.json();
}).then((found) => { doc = found; show(); open(); }).catch((error) => {
  at("about").replaceChildren(make("p", {}, `The document cannot be shown: ${error.message}`));
});
