// What pages need beyond themselves. They are whole without it: forms, links and tables work by themselves.
"use strict";

(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const token = document.querySelector('meta[name="csrf-token"]').content;
  const lost = document.getElementById("lost");
  const lostText = document.getElementById("lost-text");

  // The token of the session goes with every change; a request that a person did not cause says so, which keeps a
  // forgotten page from keeping its session alive.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb !== "get") event.detail.headers["X-CSRF-Token"] = token;
    if (!event.detail.triggeringEvent || ["load", "wake"].includes(event.detail.triggeringEvent.type)) {
      event.detail.headers["X-Console-Poll"] = "1";
    }
  });

  // A page that no one looks at asks for nothing, and a dialog or a selection is not pulled away under the hand.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const isPoll = event.detail.requestConfig.headers["X-Console-Poll"];
    if (isPoll && (document.hidden || event.detail.elt.querySelector("dialog[open]"))) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) all("[hx-trigger*='wake']").forEach((part) => htmx.trigger(part, "wake"));
  });

  // The server is away, or says no: say it, and take it back as soon as it answers.
  const isAway = (text) => {
    lostText.textContent = text;
    lost.hidden = false;
  };
  document.addEventListener("htmx:sendError", () => isAway("The connection to the server is lost."));
  document.addEventListener("htmx:timeout", () => isAway("The server does not answer."));
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401) return; // the answer leads to where one signs in
    if (status === 404 || status === 403) {
      location.reload(); // what the page is about has gone: the page itself says it better
      return;
    }
    isAway(status === 503 ? "The store does not answer." : `The server answers ${status}.`);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) lost.hidden = true;
  });
  document.addEventListener("htmx:afterSwap", () => localTimes());

  // A page about a store that does not answer loads again when it does.
  all("[data-retry]").forEach((page) => {
    const again = async () => {
      try {
        const answer = await fetch(location.href, { method: "HEAD", headers: { "X-Console-Poll": "1" } });
        if (answer.status !== 503) return location.reload();
      } catch {
        isAway("The connection to the server is lost.");
      }
      return setTimeout(again, page.dataset.retry * 1000);
    };
    setTimeout(again, page.dataset.retry * 1000);
  });

  // Times are in UTC until here.
  const localTimes = () => {
    all("time[datetime]").forEach((time) => {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.valueOf())) time.title = `${at.toLocaleString()} (${time.dateTime})`;
    });
  };
  localTimes();

  // Dialogs. In one that asks for a name, the button works once the name is right; the server asks again.
  const readiness = (form) => {
    const typed = form.querySelector('[name="confirm"]').value.trim();
    form.querySelector('[type="submit"]').disabled = typed !== form.dataset.confirm;
  };
  all("form[data-confirm]").forEach(readiness);
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.dialog) {
      const dialog = document.getElementById(button.dataset.dialog);
      all("form[data-confirm]", dialog).forEach(readiness);
      dialog.showModal();
    } else if ("close" in button.dataset) {
      button.closest("dialog").close();
    } else if (button.dataset.copy) {
      await copy(button);
    }
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-confirm]");
    if (form) readiness(form);
  });

  // By plain http browsers keep the clipboard from scripts: then the text is selected, to be copied by hand.
  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    const text = "value" in source ? source.value : source.textContent;
    const former = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = former; }, 2000);
  };

  // Keys. Never while something is typed, and never in place of the browser's own.
  const places = { q: "/console", l: "/console/ledger", t: "/console/tasks", a: "/console/actions", k: "/console/keys" };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
    const isGoing = Date.now() - going < 1500;
    going = 0;
    if (isGoing && places[event.key]) {
      const link = all(".top nav a").find((one) => one.getAttribute("href") === places[event.key]);
      if (link) link.click();
    } else if (event.key === "g") {
      going = Date.now();
    } else if (event.key === "/") {
      const filter = document.querySelector("[data-filter]");
      if (filter) {
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    } else if (event.key === "?") {
      document.getElementById("shortcuts").showModal();
    }
  });

  // One box ticks all boxes of its form, and is only there where this script is.
  all("[data-check-all]").forEach((label) => { label.hidden = false; });
  document.addEventListener("change", (event) => {
    const label = event.target.closest("[data-check-all]");
    if (!label) return;
    all('input[type="checkbox"][name="id"]', label.closest("form")).forEach((box) => { box.checked = event.target.checked; });
  });

  // A form is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // from the browser's own memory, perhaps of another session
  });
})();
