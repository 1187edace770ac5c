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
    if ((await Notification.requestPermission()) !== "granted") {
      tell("This browser was told not to show notifications of this page.");
      return;
    }
    try {
      const { endpoint, keys } = (await subscribe()).toJSON();
      form.elements.url.value = endpoint;
      form.elements.p256dh.value = keys.p256dh;
      form.elements.auth.value = keys.auth;
    } catch (error) {
      tell(`This browser could not be subscribed: ${error.message}`);
      return;
    }
    form.submit();
  }

  // Which of the devices is this browser; removing it ends the subscription here as well.
  async function markOwn() {
    const registration = await navigator.serviceWorker.getRegistration("/");
    const subscription = await registration?.pushManager.getSubscription();
    if (!subscription) return;
    for (const row of document.querySelectorAll("[data-endpoint]")) {
      if (row.dataset.endpoint !== subscription.endpoint) continue;
      row.querySelector("[data-this-one]").hidden = false;
      row.querySelector("form[data-remove]").addEventListener("submit", () => {
        subscription.unsubscribe();
      });
    }
  }

  if (!able) {
    tell("This browser takes no notifications here: they need https, or localhost.");
    return;
  }
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    await start();
    button.disabled = false;
  });
  markOwn();
})();
