// Sign-in with a user of the store.

import { el, fill, notice } from "./dom.js";
import { signIn } from "./session.js";

export class SignIn {
  constructor(main, reason, done) {
    this.done = done;
    this.problem = el("div");
    this.name = el("input", {
      id: "sign-in-user",
      name: "username",
      autocomplete: "username",
      autocapitalize: "off",
      spellcheck: "false",
      required: true,
    });
    this.password = el("input", {
      id: "sign-in-password",
      name: "password",
      type: "password",
      autocomplete: "current-password",
    });
    this.submit = el("button", { class: "primary wide", id: "sign-in" }, "Sign in");
    fill(
      main,
      el(
        "form",
        { class: "card sign-in", submit: (event) => this.#send(event) },
        el("h1", {}, "Sign in"),
        el("p", { class: "muted" }, "This store has users. You see and change what your roles allow."),
        reason ? notice("note", reason) : null,
        globalThis.isSecureContext
          ? null
          : notice(
              "note",
              "This address is not encrypted: others on the way can read the password. Use https where you can.",
            ),
        el("label", { for: "sign-in-user" }, "User"),
        this.name,
        el("label", { for: "sign-in-password" }, "Password"),
        this.password,
        this.problem,
        this.submit,
      ),
    );
    // A dialog that is open ends by the event that brought the form here, and keeps the focus until then.
    queueMicrotask(() => this.name.focus());
  }

  async #send(event) {
    event.preventDefault();
    this.submit.disabled = true;
    try {
      await signIn(this.name.value, this.password.value);
      this.done();
    } catch (error) {
      const wrong = /authentication failed|user name/.test(error.message ?? "");
      fill(
        this.problem,
        notice("bad", wrong ? "User or password is wrong." : (error.sentence ?? error.message)),
      );
      this.password.select();
    } finally {
      this.submit.disabled = false;
    }
  }
}
