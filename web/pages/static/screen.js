// What a session's terminal shows, asked for again while its page is seen. It is a part of the page
// that the server makes; without this file it stands as it was when the page was loaded.
"use strict";
(() => {
  const EVERY_MS = 2000;

  // Nothing moves under somebody's hands: what they mark is theirs to copy.
  function isMarked(part) {
    const marked = getSelection();
    return marked.type === "Range" && marked.containsNode(part, true);
  }

  async function look() {
    const part = document.querySelector("[data-screen]");
    if (!part || document.hidden || isMarked(part)) return;
    let answer;
    try {
      answer = await fetch(part.dataset.screen, { headers: { "HX-Request": "true" } });
    } catch {
      return; // the server is away; the banner of the page says so
    }
    if (!answer.ok || answer.redirected) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = made.querySelector("[data-screen]");
    if (!fresh || fresh.outerHTML === part.outerHTML) return;
    const shown = part.querySelector("pre");
    const next = fresh.querySelector("pre");
    if (shown && next) shown.replaceChildren(...next.childNodes);
    else part.replaceChildren(...fresh.childNodes);
  }

  async function goOn() {
    await look();
    setTimeout(goOn, EVERY_MS);
  }
  setTimeout(goOn, 500);
})();
