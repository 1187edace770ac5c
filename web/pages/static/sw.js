// The service worker: shows what is pushed to this browser, and closes it once it is decided.
//
// A push is {"do": "show", "tag", "title", "body", "path"} or {"do": "clear", "tag"}; a note takes
// the place of the one of its tag. It caches nothing and answers no request.
"use strict";

const HOME = "/attention";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let note = null;
  try {
    note = event.data.json();
  } catch {
    // What cannot be read is shown as that something waits: a browser wants to see a notification.
  }
  event.waitUntil(note?.do === "clear" ? clear(note.tag) : show(note));
});

async function clear(tag) {
  const shown = await self.registration.getNotifications({ tag });
  for (const notification of shown) notification.close();
}

function show(note) {
  return self.registration.showNotification(note?.title || "Something waits for you", {
    body: note?.body || "",
    tag: note?.tag || "unread",
    icon: "/static/icon-192.png",
    data: { path: note?.path || HOME },
  });
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.path || HOME));
});

async function open(path) {
  let address = new URL(path, self.location.origin);
  if (address.origin !== self.location.origin) address = new URL(HOME, self.location.origin);
  const tabs = await self.clients.matchAll({ type: "window" });
  const tab = tabs.find((one) => one.url === address.href) || tabs[0];
  if (!tab) return self.clients.openWindow(address.href);
  try {
    await tab.navigate(address.href);
  } catch {
    return self.clients.openWindow(address.href);
  }
  return tab.focus();
}

self.addEventListener("pushsubscriptionchange", (event) => {
  if (event.oldSubscription) event.waitUntil(renew(event.oldSubscription, event.newSubscription));
});

async function renew(old, given) {
  const manager = self.registration.pushManager;
  const subscription = given || (await manager.subscribe(old.options));
  const { endpoint, keys } = subscription.toJSON();
  const body = new URLSearchParams({
    old_url: old.endpoint,
    url: endpoint,
    p256dh: keys.p256dh,
    auth: keys.auth,
  });
  await fetch("/settings/notifications/renew", { method: "POST", body });
}
