// Notifications of this browser: <form data-push="PUBLIC KEY"> with a [data-push-start] button.
//
// A click asks the person, subscribes at the browser's own push service, fills in the form and
// sends it. Without this file, or where a browser has no push, the form says so.
"use strict";
(() => {
  const form = document.querySelector("form[data-push]");
  if (!form) return;
  const button = form.querySelector("[data-push-start]");
  const able = "serviceWorker" in navigator && "PushManager" in window && window.isSecureContext;

  // What a browser calls its errors, and what to do about each; its own words help nobody.
  const BLOCKED =
    "This browser does not let this page notify you. Allow notifications in the site's settings" +
    " (beside the address), and press the button again. A private window may have none.";
  const SENTENCES = {
    NotAllowedError: BLOCKED,
    AbortError:
      "This browser did not reach its push service. See that it is online and that push messaging" +
      " is not turned off in its settings, and press the button again; or add ntfy or a webhook.",
    NotSupportedError: "This browser has no push service. Add ntfy or a webhook instead.",
  };
  const UNKNOWN =
    "This browser could not be subscribed. Reload the page and press the button again; or add" +
    " ntfy or a webhook.";

  function tell(sentence) {
    const place = form.querySelector("[data-push-fault]");
    place.textContent = sentence;
    place.hidden = !sentence;
  }

  function bytesOf(text) {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
  }

  async function subscribe() {
    const options = { userVisibleOnly: true, applicationServerKey: bytesOf(form.dataset.push) };
    await navigator.serviceWorker.register("/sw.js");
    const { pushManager } = await navigator.serviceWorker.ready;
    try {
      return await pushManager.subscribe(options);
    } catch (error) {
      const older = await pushManager.getSubscription();
      if (error.name !== "InvalidStateError" || !older) throw error;
      // It was made for another key, of a muster that is no more.
      await older.unsubscribe();
      return pushManager.subscribe(options);
    }
  }

  async function start() {
    tell("");
    if (!form.reportValidity()) return;
    try {
      if ((await Notification.requestPermission()) !== "granted") {
        tell(BLOCKED);
        return;
      }
      const { endpoint, keys } = (await subscribe()).toJSON();
      form.elements.url.value = endpoint;
      form.elements.p256dh.value = keys.p256dh;
      form.elements.auth.value = keys.auth;
    } catch (error) {
      tell(SENTENCES[error.name] || UNKNOWN);
      return;
    }
    form.submit();
  }

  // Which of the devices is this browser; the list is replaced when something changed in it.
  async function ownSubscription() {
    const registration = await navigator.serviceWorker.getRegistration("/");
    return registration?.pushManager.getSubscription();
  }

  async function markOwn() {
    const endpoint = (await ownSubscription())?.endpoint;
    for (const row of document.querySelectorAll("[data-endpoint]")) {
      const mark = row.querySelector("[data-this-one]");
      const own = row.dataset.endpoint === endpoint;
      if (mark.hidden === own) mark.hidden = !own;
    }
  }

  // A device that is removed here ends its subscription here as well.
  document.addEventListener("submit", async (event) => {
    const endpoint = event.target.closest("[data-endpoint]")?.dataset.endpoint;
    if (!endpoint || event.target.dataset.remove === undefined) return;
    const subscription = await ownSubscription();
    if (subscription?.endpoint === endpoint) await subscription.unsubscribe();
  });

  if (!able) {
    tell(
      window.isSecureContext
        ? "This browser takes no notifications. Add ntfy or a webhook instead."
        : "Notifications of a browser need https, or localhost: open muster by such an address," +
            " or add ntfy or a webhook.",
    );
    return;
  }
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    await start();
    button.disabled = false;
  });
  markOwn();
  const section = document.getElementById("notifications");
  new MutationObserver(markOwn).observe(section, { childList: true, subtree: true });
})();
