/** Sends the forms of actions without leaving the page, and those of many tasks in steps. */
import { ask, notice, toast } from "./notices.ts";

interface Answer {
  ok: boolean;
  message: string;
  changed?: number;
  skipped?: number;
  /** Where to go on; null or nothing: it is done. */
  next?: number | string | null;
}

/** @param refresh reads the page again */
export function sendForms(refresh: () => Promise<void>): void {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const submitter = event.submitter instanceof HTMLButtonElement ? event.submitter : null;
    const act =
      form.id === "confirm" ? sendInSteps : form.classList.contains("action") ? sendOnce : undefined;
    // A button that asks for a page, and changes nothing.
    if (!act || submitter?.formMethod === "get") return;
    event.preventDefault();
    if (form.ariaBusy === "true") return;
    form.ariaBusy = "true";
    void act(form, submitter, refresh).finally(() => {
      form.ariaBusy = null;
    });
  });
}

type Act = (
  form: HTMLFormElement,
  submitter: HTMLButtonElement | null,
  refresh: () => Promise<void>,
) => Promise<void>;

const sendOnce: Act = async (form, submitter, refresh) => {
  const { asks, does, keeps, instead, insteadTo } = form.dataset;
  const fields = fieldsOf(form, submitter);
  if (asks !== undefined) {
    const said = await ask({
      text: asks,
      does: does ?? "Yes",
      keeps: keeps ?? "No",
      isDanger: submitter?.classList.contains("danger") === true,
      instead: instead === undefined ? undefined : { text: instead, to: insteadTo ?? "" },
    });
    if (said === undefined) return;
    if (said !== "") fields.set("reason", said);
  }
  const { ok, message } = await post(form, fields);
  toast(message, ok);
  if (!ok) return;
  // The fields are sent: the page may replace their values by the server's.
  form.reset();
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
  await refresh();
};

const sendInSteps: Act = async (form, submitter) => {
  const progress = form.querySelector("progress");
  const said = form.querySelector("#progress");
  if (progress) progress.hidden = false;
  if (submitter) submitter.disabled = true;
  const fields = fieldsOf(form, submitter);
  fields.set("step", "true");
  let [changed, skipped] = [0, 0];
  for (let steps = 1; ; steps += 1) {
    const answer = await post(form, fields);
    changed += answer.changed ?? 0;
    skipped += answer.skipped ?? 0;
    const total = totalOf(form, changed, skipped);
    if (progress) progress.value = changed + skipped;
    if (said) said.textContent = `${total} Who leaves this page ends it, and what is done stays done.`;
    if (answer.ok && answer.next !== null && answer.next !== undefined) {
      fields.set("after", String(answer.next));
      continue;
    }
    // An answer is about its own step only.
    const message =
      steps === 1 ? answer.message : answer.ok ? total : `${answer.message} Before that, ${total}`;
    // The sentence before the form says what it will do.
    if (form.previousElementSibling instanceof HTMLParagraphElement) form.previousElementSibling.remove();
    form.replaceWith(notice(message, answer.ok), backFrom(form));
    return;
  }
};

/** What was done, in words of the action. */
function totalOf(form: HTMLFormElement, changed: number, skipped: number): string {
  const stayed =
    skipped === 1 ? "1 task stayed as it was" : `${skipped.toLocaleString("en")} tasks stayed as they were`;
  const done = `${changed.toLocaleString("en")} ${changed === 1 ? "task is" : "tasks are"} ${form.dataset.done ?? "changed"}`;
  return `${done}${skipped === 0 ? "" : `, and ${stayed}`}.`;
}

/** The link of the form, which leads to the page before. */
function backFrom(form: HTMLFormElement): HTMLElement {
  const back = form.querySelector("a");
  if (back) back.textContent = "Back to the tasks";
  return back ?? document.createElement("span");
}

function fieldsOf(form: HTMLFormElement, submitter: HTMLButtonElement | null): URLSearchParams {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form, submitter))
    if (typeof value === "string") fields.append(name, value);
  return fields;
}

/** A field may have the name "action", so the address is read from the attribute. */
async function post(form: HTMLFormElement, body: URLSearchParams): Promise<Answer> {
  try {
    const response = await fetch(form.getAttribute("action") ?? "", {
      method: "POST",
      headers: { accept: "application/json" },
      body,
    });
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    const answer: unknown = isJson ? await response.json() : undefined;
    if (isAnswer(answer)) return { ...answer, ok: answer.ok && response.ok };
    return { ok: false, message: `This did not work: the server answered ${response.status}.` };
  } catch {
    return { ok: false, message: "The server does not answer. It is not known whether this was done." };
  }
}

const isAnswer = (value: unknown): value is Answer =>
  typeof value === "object" && value !== null && "ok" in value && "message" in value;
