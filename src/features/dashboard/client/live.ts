/** Live updates: the content of the page as the server sends it, while somebody looks and nothing of theirs would be lost. */
import { morphInto } from "./morph.ts";
import { hasSelection } from "./selection.ts";

/** Milliseconds before a connection that was refused is tried again; doubled each time. */
const retry = { first: 2_000, most: 60_000 };

/** The states of `#live`: the word that it shows, and why. */
const states = {
  live: ["live", "This page shows changes as they happen"],
  reconnecting: ["reconnecting", "The connection is lost; it is tried again"],
  failing: ["failing", "The server cannot read this page now; it is tried again"],
  paused: ["updates paused", "This page shows changes again when you have finished what you do here"],
} as const;

class LivePage {
  readonly #address: string;
  readonly #changed: () => void;
  readonly #refresh: () => Promise<void>;
  #isFirst = true;
  #source: EventSource | undefined;
  #timer: number | undefined;
  #pause: number = retry.first;
  /** The last update that came while the page was paused. */
  #held: string | undefined;

  constructor(address: string, changed: () => void, refresh: () => Promise<void>) {
    this.#address = address;
    this.#changed = changed;
    this.#refresh = refresh;
    document.addEventListener("visibilitychange", () => this.#connect());
    for (const type of ["focusout", "change", "close"])
      document.addEventListener(type, () => setTimeout(() => this.#showHeld()), true);
    this.#connect();
  }

  #connect(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
    if (document.hidden) return;
    const source = new EventSource(this.#address);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#pause = retry.first;
      show(this.#held === undefined ? "live" : "paused");
      // Changes of the meantime may not be sent again: the page is loaded anew.
      if (!this.#isFirst) void this.#refresh();
      this.#isFirst = false;
    });
    source.addEventListener("page", ({ data }) => this.#receive(data));
    source.addEventListener("failing", () => show("failing"));
    source.addEventListener("error", () => {
      show("reconnecting");
      // A browser does not try again after an answer that is no stream.
      if (source.readyState !== EventSource.CLOSED || source !== this.#source) return;
      this.#timer = window.setTimeout(() => this.#connect(), this.#pause);
      this.#pause = Math.min(2 * this.#pause, retry.most);
    });
  }

  #receive(data: string): void {
    const { html } = JSON.parse(data) as { html: string };
    this.#held = html;
    this.#showHeld();
  }

  #showHeld(): void {
    if (this.#held === undefined) return;
    if (isBusy()) {
      show("paused");
      return;
    }
    const html = this.#held;
    this.#held = undefined;
    morphInto("#main", html);
    this.#changed();
    show("live");
  }
}

/**
 * @param changed called after the content of the page was replaced
 * @returns `refresh`: reads the page again now
 */
export function startLive(changed: () => void): { refresh: () => Promise<void> } {
  const refresh = async () => {
    const response = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => undefined);
    if (!response?.ok || isBusy()) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const html = page.querySelector("#main")?.innerHTML;
    if (html === undefined) return;
    morphInto("#main", html);
    changed();
  };
  const address = document.body.dataset.live;
  if (address) new LivePage(address, changed, refresh);
  return { refresh };
}

/** Whether the person does something that new content would disturb. */
function isBusy(): boolean {
  if (document.querySelector("dialog[open]") || hasSelection()) return true;
  if (document.querySelector('#main form[aria-busy="true"]#confirm')) return true;
  const { activeElement } = document;
  if (activeElement?.closest("#main textarea, #main select")) return true;
  if (activeElement instanceof HTMLInputElement && activeElement.closest("#main"))
    return !["checkbox", "radio"].includes(activeElement.type);
  return [...document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>(typed)].some(
    ({ value, defaultValue }) => value !== defaultValue,
  );
}

/** What a person may have typed into. */
const typed = "#main textarea, #main input:not([type=checkbox], [type=radio], [type=hidden])";

function show(state: keyof typeof states): void {
  const element = document.querySelector<HTMLElement>("#live");
  if (!element || element.className === state) return;
  element.className = state;
  [element.textContent, element.title] = states[state];
}
