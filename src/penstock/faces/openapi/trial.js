// A form that sends a request to this very server, and shows what it answers. The key is kept in the page alone.
const BINARY = "application/vnd.apache.arrow.stream";

function field(label, input, note) {
  return make("label", {}, make("span", {}, label, note ? make("span", { class: "soft" }, ` ${note}`) : null), input);
}

function bodyFields(body) {
  if (!body) return { parts: [], media: () => null, text: () => null };
  const all = Object.entries(body.content).filter(([media]) => media !== BINARY);
  const free = all.some(([media]) => media === "*/*");
  const exampleOf = ([, content]) => {
    const first = Object.values(content.examples || {})[0];
    const value = first ? first.value : "";
    return typeof value === "string" ? value : JSON.stringify(value, null, 2);
  };
  const text = make("textarea", { rows: 6, spellcheck: "false", "aria-label": "body" });
  text.value = exampleOf(all[0]);
  const media = free ? make("input", { value: "text/plain" })
    : make("select", {}, all.map(([one]) => make("option", { value: one }, one)));
  if (!free) media.addEventListener("change", () => { text.value = exampleOf(all.find(([one]) => one === media.value)); });
  return { parts: [field("Content-Type", media), field("body", text)], media: () => media.value, text: () => text.value };
}

async function shownBody(answer) {
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (!bytes.length) return "";
  let text;
  try { text = new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { return `${bytes.length.toLocaleString("en")} bytes that are not text`; }
  if (!/json/.test(answer.headers.get("Content-Type") || "")) return text;
  // As it came, if it holds numbers that JavaScript would round.
  try { return /\d{16}/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

// `reads` says that the request changes nothing.
function trial(method, path, operation, reads) {
  const inputs = (operation.parameters || []).map((part) => {
    const input = make("input", { required: part.in === "path" || part.required, placeholder: part.schema.default !== undefined && part.schema.default !== null ? String(part.schema.default) : "" });
    if (part.in === "path" && part.example !== undefined) input.value = part.example;
    return { part, input };
  });
  const body = bodyFields(operation.requestBody);
  const button = make("button", { type: "submit" }, `Send ${method}`);
  const result = make("div", { class: "result", "aria-live": "polite" });
  const form = make("form", { class: "trial" },
    inputs.map(({ part, input }) => field(part.name, input, part.in === "path" ? "" : part.in)), body.parts,
    make("div", {}, button, make("span", { class: "soft" }, reads ? "" : " It is carried out on this server.")), result);
  const given = (where) => inputs.filter(({ part, input }) => part.in === where && input.value !== "").map(({ part, input }) => [part.name, input.value]);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const named = Object.fromEntries(given("path"));
    const url = new URL("." + path.replace(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(named[name])), location.href);
    url.hash = "";
    for (const [name, value] of given("query")) url.searchParams.set(name, value);
    button.disabled = true;
    result.replaceChildren("…");
    try {
      const headers = new Headers(given("header"));
      if (at("key").value) headers.set("Authorization", `Bearer ${at("key").value.trim()}`);
      if (body.media()) headers.set("Content-Type", body.media());
      const answer = await fetch(url, { method, headers, body: body.text() || undefined, cache: "no-store" });
      const text = await shownBody(answer);
      const tone = answer.status < 300 ? "ok" : answer.status < 500 ? "bad" : "worse";
      result.replaceChildren(
        make("div", {}, make("span", { class: `status ${tone}` }, String(answer.status)), ` ${answer.statusText}`),
        make("details", {}, make("summary", {}, "Headers"), make("pre", {}, make("code", {}, [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n")))),
        text ? make("pre", {}, make("code", {}, text)) : "");
    } catch (error) {
      result.replaceChildren(make("span", { class: "status worse" }, "no answer"), ` ${error.message}`);
    } finally {
      button.disabled = false;
    }
  });
  return form;
}
