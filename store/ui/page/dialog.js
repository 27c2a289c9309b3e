// Modal dialogs. A dialog belongs to the view that opened it: it ends with an answer, with Escape, or when
// the address changes or the user has to sign in.

import { button, el } from "./dom.js";
import { turns } from "./turns.js";

// Events of the window that end a dialog.
const ENDS = ["hashchange", "sign-in-needed"];

let dialogs = 0;

// Begins a question with a text that a call brings. Returns a function that says whether it may still be asked: not
// after another one began, nor after an event that ends a dialog.
export const question = turns();
for (const name of ENDS) addEventListener(name, question);

// Shows a dialog; resolves to the answer that the content gives to `finish`, or to null. `content` is
// called with `finish` and returns nodes.
export function ask(title, test, content) {
  return new Promise((resolve) => {
    const id = `dialog-${++dialogs}`;
    const dialog = el("dialog", { "aria-labelledby": id, "data-test": test });
    const finish = (answer) => {
      for (const name of ENDS) removeEventListener(name, cancel);
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const cancel = (event) => {
      event.preventDefault();
      finish(null);
    };
    dialog.append(el("h2", { id }, title), content(finish));
    dialog.addEventListener("cancel", cancel);
    for (const name of ENDS) addEventListener(name, cancel);
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Resolves to true when the user agrees, else to null. `content` is nodes.
export function confirm({ title, content, agree, danger = false, test }) {
  return ask(title, test ?? "confirm", (finish) =>
    el(
      "div",
      {},
      el("div", { class: "dialog-content" }, content),
      el(
        "div",
        { class: "actions end" },
        button("Cancel", { "data-test": "confirm-no" }, () => finish(null)),
        button(agree, { class: danger ? "danger" : "primary", "data-test": "confirm-yes" }, () =>
          finish(true),
        ),
      ),
    ),
  );
}
