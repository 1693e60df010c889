/** Filters of tasks that a person has named: links, which this browser keeps. */

interface Saved {
  name: string;
  /** Its address below the page of tasks, such as `?status=failed`. */
  search: string;
}

/** The most filters that are kept. */
const most = 50;

/** Shows the saved filters, and the form that saves the one that is shown. It keeps what a person types. */
export function showSaved(): void {
  const place = document.querySelector<HTMLElement>("#saved");
  if (!place || place.contains(document.activeElement)) return;
  const saved = readSaved();
  const now = searchNow();
  const parts: HTMLElement[] = saved.map((each) => chipOf(each, each.search === now));
  if (now !== "" && !saved.some(({ search }) => search === now)) parts.push(formOf(now));
  place.replaceChildren(...parts);
}

/** The filter of the address, without the position in the list. */
function searchNow(): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of [...query])
    if (value === "" || name === "after" || name === "limit") query.delete(name);
  return query.size === 0 ? "" : `?${query}`;
}

/** All dashboards of an origin share a storage: the path tells them apart. */
const key = (): string => `dbq filters ${location.pathname}`;

function readSaved(): Saved[] {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(key()) ?? "[]");
    return Array.isArray(read) ? read.filter(isSaved).slice(0, most) : [];
  } catch {
    // A browser may forbid the storage.
    return [];
  }
}

const isSaved = (value: unknown): value is Saved =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  typeof value.name === "string" &&
  "search" in value &&
  typeof value.search === "string" &&
  value.search.startsWith("?");

function keep(saved: readonly Saved[]): void {
  try {
    localStorage.setItem(key(), JSON.stringify(saved.slice(-most)));
  } catch {
    // Then it is not kept.
  }
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  showSaved();
}

function chipOf({ name, search }: Saved, isNow: boolean): HTMLElement {
  const chip = document.createElement("span");
  chip.className = "chips";
  const link = document.createElement("a");
  link.href = `${location.pathname}${search}`;
  link.textContent = name;
  if (isNow) link.setAttribute("aria-current", "true");
  const remove = document.createElement("button");
  remove.type = "button";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Forget the filter ${name}`);
  remove.addEventListener("click", () => keep(readSaved().filter((each) => each.search !== search)));
  chip.append(link, remove);
  return chip;
}

function formOf(search: string): HTMLElement {
  const form = document.createElement("form");
  const name = document.createElement("input");
  name.maxLength = 60;
  name.required = true;
  name.placeholder = "Name of this filter";
  name.setAttribute("aria-label", "Name of this filter");
  const save = document.createElement("button");
  save.textContent = "Save the filter";
  form.append(name, save);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keep([...readSaved(), { name: name.value.trim() || search, search }]);
  });
  return form;
}
