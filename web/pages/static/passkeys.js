// Passkeys in forms: <form data-passkey="use|make" data-options="/…/options">.
//
// A click on its [data-passkey-start] asks the server for the question, has the browser ask the
// authenticator, puts the answer into the field "passkey" and sends the form. In any form, as many
// as there are, a [data-confirm] confirms first that it is you: that answer goes into the field
// "confirm_passkey", beside what the form says itself. Without this file, or in a browser that has
// no passkeys, those buttons stay hidden and the passwords are there.
"use strict";
(() => {
  const { browserSupportsWebAuthn, startAuthentication, startRegistration } =
    SimpleWebAuthnBrowser;

  const CONFIRM = "/step-up/options";
  const SENTENCES = {
    NotAllowedError: "The passkey was not used: it was cancelled, or took too long. Try again.",
    AbortError: "The passkey was not used: something else asked for one meanwhile. Try again.",
    InvalidStateError: "This device has a passkey for this account already.",
    NotSupportedError: "This device makes no passkey that muster can use. Try another one.",
    ConstraintError:
      "This device asks for nothing before it uses a passkey. Set a screen lock (a PIN, a" +
      " fingerprint) on it, or try another one.",
    SecurityError:
      "Passkeys cannot be used under this page's address. Open muster by its own address, with" +
      " https or at localhost.",
    TypeError: "muster did not answer. See that you are online, and try again.",
  };
  const UNKNOWN = "The passkey could not be used. Try again, or another device.";

  // A sentence of the server's, which may be shown as it is.
  class Told extends Error {}

  function tell(form, sentence) {
    const place = form.querySelector("[data-passkey-fault]");
    place.textContent = sentence;
    place.hidden = !sentence;
  }

  // What has to be filled in well: not the password that the passkey stands for.
  function mayStart(form, standsFor) {
    return [...form.elements].every((field) => field.name === standsFor || field.reportValidity());
  }

  async function ask(address, body) {
    const answer = await fetch(address, { method: "POST", body });
    if (answer.redirected) {
      location.href = answer.url; // signed out meanwhile
      return null;
    }
    if (answer.ok) return answer.json();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // The page that the form itself is answered with has a place to confirm.
    if (page.querySelector('[data-code="step_up_needed"]')) return undefined;
    const told = page.querySelector("main [role=alert]");
    throw new Told(told ? told.textContent : "That was not done. Reload the page and try again.");
  }

  // Puts the answer to the form's own question into it; false when the page is being left instead.
  async function prove(form) {
    const body = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (name !== "password" && name !== "passkey") body.append(name, value);
    }
    const optionsJSON = await ask(form.dataset.options, body);
    if (optionsJSON === null) return false;
    if (optionsJSON === undefined) return true;
    const answer =
      form.dataset.passkey === "make"
        ? await startRegistration({ optionsJSON })
        : await startAuthentication({ optionsJSON });
    form.elements.passkey.value = JSON.stringify(answer);
    return true;
  }

  async function confirm(form) {
    const optionsJSON = await ask(CONFIRM, new URLSearchParams());
    if (!optionsJSON) return false;
    const answer = await startAuthentication({ optionsJSON });
    form.elements.confirm_passkey.value = JSON.stringify(answer);
    return true;
  }

  async function start(button) {
    const form = button.form;
    if (form.dataset.sent !== undefined) return;
    const confirms = button.dataset.confirm !== undefined;
    tell(form, "");
    if (!mayStart(form, confirms ? "confirm_password" : "password")) return;
    // Nothing else sends the form meanwhile, or takes its place (app.js).
    form.dataset.sent = "";
    button.setAttribute("aria-disabled", "true");
    try {
      const goesOn = !confirms || (await confirm(form));
      if (goesOn && (!form.dataset.passkey || (await prove(form)))) form.submit();
    } catch (error) {
      delete form.dataset.sent;
      button.removeAttribute("aria-disabled");
      if (confirms) form.elements.confirm_passkey.value = "";
      tell(form, error instanceof Told ? error.message : SENTENCES[error.name] || UNKNOWN);
    }
  }

  if (browserSupportsWebAuthn()) {
    // A card may come later, so its button is shown by the style sheet and found by its click.
    document.documentElement.classList.add("has-passkeys");
    for (const form of document.querySelectorAll("form[data-passkey]")) {
      for (const part of form.querySelectorAll("[data-passkey-start], [data-passkey-only]")) {
        part.hidden = false;
      }
    }
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("[data-passkey-start], [data-confirm]");
      if (button) start(button);
    });
  }

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const select of document.querySelectorAll("select[data-guess-zone]")) {
    const known = [...select.options].some((option) => option.value === zone);
    if (known && select.value === "UTC") select.value = zone;
  }
})();
