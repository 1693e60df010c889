/** Messages that pass, and questions. */
import { printable } from "../../../base/text/escapes.ts";

/** Milliseconds that a message stays; one that tells of a problem stays longer. */
const stays = { good: 5_000, bad: 12_000 };

export function notice(message: string, isGood: boolean): HTMLElement {
  const element = document.createElement("p");
  element.className = `notice ${isGood ? "good" : "bad"}`;
  element.textContent = printable(message);
  return element;
}

export function toast(message: string, isGood: boolean): void {
  const element = notice(message, isGood);
  document.querySelector("#toasts")?.append(element);
  element.addEventListener("click", () => element.remove());
  setTimeout(() => element.remove(), isGood ? stays.good : stays.bad);
}

/** A question, and what stands on its buttons. */
interface Question {
  text: string;
  does: string;
  keeps: string;
  isDanger: boolean;
  /** A link to what the person may rather do first. */
  instead: { text: string; to: string } | undefined;
}

/** @returns undefined: the person lets it be; else the reason that they gave, which may be empty */
export async function ask({
  text: question,
  does,
  keeps,
  isDanger,
  instead,
}: Question): Promise<string | undefined> {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  form.method = "dialog";
  const text = document.createElement("p");
  text.textContent = printable(question);
  text.id = "question";
  dialog.setAttribute("aria-labelledby", text.id);
  const buttons = document.createElement("div");
  buttons.className = "actions";
  buttons.append(button(keeps, "no", ""), button(does, "yes", isDanger ? "danger" : ""));
  if (instead !== undefined) buttons.append(link(instead));
  const reason = document.createElement("input");
  reason.maxLength = 200;
  reason.autocomplete = "off";
  const label = document.createElement("label");
  const name = document.createElement("span");
  name.textContent = "Reason, for those who look later";
  label.append(name, reason);
  // The first button of a form is the one that Enter presses.
  reason.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    dialog.close("yes");
  });
  form.append(text, label, buttons);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  // Not the field of the reason: who presses Enter by mistake has done nothing.
  buttons.querySelector("button")?.focus();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  return dialog.returnValue === "yes" ? reason.value.trim() : undefined;
}

function link({ text, to }: { text: string; to: string }): HTMLAnchorElement {
  const element = document.createElement("a");
  element.className = "button";
  element.href = to;
  element.textContent = text;
  return element;
}

function button(text: string, value: string, kind: string): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "submit";
  element.value = value;
  element.className = kind;
  element.textContent = text;
  return element;
}
