// Passkeys in forms: <form data-passkey="use|make" data-options="/…/options">.
//
// A click on its [data-passkey-start] asks the server for the question, has the browser ask the
// authenticator, puts the answer into the field "passkey" and sends the form. Without this file, or
// in a browser that has no passkeys, those buttons stay hidden and the passwords are there.
"use strict";
(() => {
  const { browserSupportsWebAuthn, startAuthentication, startRegistration } =
    SimpleWebAuthnBrowser;

  const SENTENCES = {
    NotAllowedError: "The passkey was not used: it was cancelled, or took too long.",
    InvalidStateError: "This device has a passkey for this account already.",
    SecurityError: "This page was opened under a name that passkeys cannot be used for.",
  };

  function tell(form, sentence) {
    const place = form.querySelector("[data-passkey-fault]");
    place.textContent = sentence;
    place.hidden = !sentence;
  }

  // The fields that a question needs must be filled in well; a password may still be missing.
  function mayStart(form) {
    return [...form.elements].every((field) => field.type === "password" || field.reportValidity());
  }

  async function ask(form) {
    const body = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (name !== "password") body.append(name, value);
    }
    const answer = await fetch(form.dataset.options, { method: "POST", body });
    // A sign-in that is too old leads elsewhere first.
    if (answer.redirected) {
      location.href = answer.url;
      return null;
    }
    if (!answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const told = page.querySelector("main p");
      throw new Error(told ? told.textContent : `The server answered ${answer.status}.`);
    }
    return answer.json();
  }

  async function start(form) {
    tell(form, "");
    if (!mayStart(form)) return;
    try {
      const optionsJSON = await ask(form);
      if (optionsJSON === null) return;
      const answer =
        form.dataset.passkey === "make"
          ? await startRegistration({ optionsJSON })
          : await startAuthentication({ optionsJSON });
      form.elements.passkey.value = JSON.stringify(answer);
    } catch (error) {
      tell(form, SENTENCES[error.name] || error.message);
      return;
    }
    form.submit();
  }

  if (browserSupportsWebAuthn()) {
    for (const form of document.querySelectorAll("form[data-passkey]")) {
      const button = form.querySelector("[data-passkey-start]");
      for (const part of form.querySelectorAll("[data-passkey-start], [data-passkey-only]")) {
        part.hidden = false;
      }
      button.addEventListener("click", async () => {
        button.disabled = true;
        await start(form);
        button.disabled = false;
      });
    }
  }

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const select of document.querySelectorAll("select[data-guess-zone]")) {
    const known = [...select.options].some((option) => option.value === zone);
    if (known && select.value === "UTC") select.value = zone;
  }
})();
