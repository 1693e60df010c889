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

/** @returns whether the person says yes */
export async function ask(question: string, yes: string, isDanger: boolean): Promise<boolean> {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  form.method = "dialog";
  const text = document.createElement("p");
  text.textContent = printable(question);
  text.id = "question";
  dialog.setAttribute("aria-labelledby", text.id);
  const buttons = document.createElement("div");
  buttons.className = "actions";
  buttons.append(button("No", "no", ""), button(yes, "yes", isDanger ? "danger" : ""));
  form.append(text, buttons);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  return dialog.returnValue === "yes";
}

function button(text: string, value: string, kind: string): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "submit";
  element.value = value;
  element.className = kind;
  element.textContent = text;
  return element;
}
