// What makes an open page live. Everything can be read and decided without this file.
//
// /live tells of what changed: event `draft` with {"id": 17}. A region that shows it says so,
// `data-live="draft"` (any draft) or `data-live="draft:17 message:42"`, and has an id. It is asked
// for anew at its `data-from`, or else at the page's own address (one request for all such regions
// of a page), and the element of the same id in the answer takes its place. `resync` asks for all.
// A region in which somebody types, or has the focus, is never replaced under their hands: it says
// that something changed.
"use strict";
(() => {
  const QUIET_MS = 250;
  const PATIENCE_MS = 3000;
  const AGAIN_MS = 5000;
  const NOUNS = (
    "draft message task ask plugin conversation session device agent host mirrored route"
  ).split(" ");

  const banner = document.getElementById("live-banner");
  const wanted = new Set();
  let timer = 0;

  const regions = () => [...document.querySelectorAll("[data-live][id]")];
  const addressOf = (region) =>
    region.dataset.from || document.body.dataset.address;

  function shows(region, noun, id) {
    const tokens = region.dataset.live.split(/\s+/);
    return tokens.includes(noun) || tokens.includes(`${noun}:${id}`);
  }

  function isInUse(region) {
    const focus = document.activeElement;
    if (focus && focus !== document.body && region.contains(focus)) return true;
    if (region.querySelector("form[data-sent]")) return true;
    return [...region.querySelectorAll("input, textarea")].some((input) =>
      input.type === "checkbox" || input.type === "radio"
        ? input.checked !== input.defaultChecked
        : input.type !== "hidden" && input.value !== input.defaultValue,
    );
  }

  function want(region) {
    wanted.add(region.id);
    clearTimeout(timer);
    timer = setTimeout(refreshWanted, QUIET_MS);
  }

  function refreshWanted() {
    const byAddress = new Map();
    for (const id of wanted) {
      const region = document.getElementById(id);
      if (!region) continue;
      const address = addressOf(region);
      byAddress.set(address, [...(byAddress.get(address) || []), id]);
    }
    wanted.clear();
    for (const [address, ids] of byAddress) refresh(address, ids);
  }

  async function refresh(address, ids) {
    let answer;
    try {
      answer = await fetch(address, { headers: { "HX-Request": "true" } });
    } catch {
      return; // the stream is down as well, and its return refreshes everything
    }
    if (answer.redirected && new URL(answer.url).pathname === "/sign-in") {
      say("You are signed out. Reload the page to sign in.");
      return;
    }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of ids) replace(document.getElementById(id), fresh.getElementById(id));
  }

  function replace(region, fresh, force = false) {
    if (!region || !fresh || region.outerHTML === fresh.outerHTML) return;
    if (!force && isInUse(region)) {
      offer(region, fresh);
      return;
    }
    for (const open of region.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (same) same.open = true;
    }
    region.replaceWith(fresh);
    if (window.htmx) window.htmx.process(fresh);
  }

  function offer(region, fresh) {
    region.querySelector(":scope > .changed")?.remove();
    const note = document.createElement("p");
    note.className = "changed banner warn";
    note.setAttribute("role", "status");
    note.append("Something changed here. ");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.textContent = "Show it";
    button.addEventListener("click", () => {
      replace(region, fresh, true);
      fresh.tabIndex = -1;
      fresh.focus();
    });
    note.append(button);
    region.prepend(note);
  }

  // The stream. The browser reconnects by itself and names the last event that it saw, as long as
  // the server answers at all; what it gives up is opened anew, after the last event that was seen.
  // Until there is one, that is the newest of when the page was made.
  // A page that nobody sees needs none: browsers keep six connections to a server, for all tabs.
  let stream = null;
  let downSince = null;
  let lost = 0;
  let lastId = document.body.dataset.liveId;

  function say(text) {
    banner.textContent = text;
    banner.hidden = false;
  }

  function showDown() {
    const at = downSince.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    say(`Not live since ${at}. What you see here may be out of date.`);
  }

  function open() {
    const mine = new EventSource(`/live?after=${encodeURIComponent(lastId)}`);
    stream = mine;
    mine.onopen = () => {
      clearTimeout(lost);
      downSince = null;
      banner.hidden = true;
      document.body.dataset.stream = "open";
    };
    mine.onerror = () => {
      if (mine !== stream) return;
      delete document.body.dataset.stream;
      if (downSince === null) {
        downSince = new Date();
        lost = setTimeout(showDown, PATIENCE_MS);
      }
      if (mine.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(() => {
          if (stream === null && !document.hidden) open();
        }, AGAIN_MS);
      }
    };
    for (const noun of NOUNS) {
      mine.addEventListener(noun, (event) => {
        const { id } = JSON.parse(event.data);
        lastId = event.lastEventId || lastId;
        for (const region of regions()) if (shows(region, noun, id)) want(region);
      });
    }
    mine.addEventListener("resync", () => regions().forEach(want));
    mine.addEventListener("turn.delta", (event) => {
      const detail = JSON.parse(event.data);
      document.dispatchEvent(new CustomEvent("muster:turn.delta", { detail }));
    });
  }

  function close() {
    clearTimeout(lost);
    downSince = null;
    stream?.close();
    stream = null;
  }

  if (banner && document.body.dataset.visitor !== undefined) {
    if (!document.hidden) open();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) close();
      else if (stream === null) open();
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => {
      if (event.persisted && stream === null) open();
    });
  }

  // A form is sent once: the server refuses the second as well, but a person need not see that.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent !== undefined) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "";
    event.submitter?.setAttribute("aria-disabled", "true");
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      for (const button of form.querySelectorAll("[aria-disabled]")) {
        button.removeAttribute("aria-disabled");
      }
    }
  });

  // <button data-copy="#id-of-what"> copies a text; without this file it can be marked by hand.
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-copy]");
    if (!button) return;
    const text = document.querySelector(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      // The browser forbids it: the text is marked, and a person copies it.
      getSelection().selectAllChildren(text);
      button.textContent = "Marked: copy it with Ctrl-C";
    }
  });
})();
