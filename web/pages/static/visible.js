// Tells the server what this tab shows while it is visible, so that its owner is not pushed what
// they are looking at: the page of a draft, an ask or a task, and each [data-item] that leads there
// or has such an id (draft-17).
"use strict";
(() => {
  const EVERY_MS = 15000;
  const SETTLE_MS = 300;
  const ADDRESS = "/live/visible";
  if (document.body.dataset.visitor === undefined) return;

  const random = crypto.getRandomValues(new Uint32Array(4));
  const tab = [...random].map((number) => number.toString(36)).join("");
  let said = null;
  let timer = 0;

  function itemAt(path) {
    const found = /^\/(draft|ask|task)s\/(\d+)$/.exec(path);
    return found ? `${found[1]}:${found[2]}` : null;
  }

  function itemOf(element) {
    const own = itemAt(`/${element.id.replace("-", "s/")}`);
    return own || itemAt(element.querySelector("a[href]")?.pathname);
  }

  function shown() {
    const all = [...document.querySelectorAll("[data-item]")].map(itemOf);
    const items = new Set([itemAt(location.pathname), ...all]);
    return [...items].filter(Boolean).join(" ");
  }

  function say(force) {
    const items = document.hidden ? null : shown();
    if (items === said && !force) return;
    said = items;
    const body = new URLSearchParams(items === null ? { tab } : { tab, items });
    if (items === null) navigator.sendBeacon(ADDRESS, body);
    else fetch(ADDRESS, { method: "POST", body, redirect: "manual" }).catch(() => {});
  }

  function sayOnceSettled() {
    clearTimeout(timer);
    timer = setTimeout(say, SETTLE_MS, false);
  }

  document.addEventListener("visibilitychange", () => say(false));
  window.addEventListener("pagehide", () => {
    if (said !== null) navigator.sendBeacon(ADDRESS, new URLSearchParams({ tab }));
    said = null;
  });
  window.addEventListener("pageshow", () => say(true));
  setInterval(() => {
    if (!document.hidden) say(true);
  }, EVERY_MS);
  const main = document.getElementById("main");
  if (main) new MutationObserver(sayOnceSettled).observe(main, { childList: true, subtree: true });
})();
