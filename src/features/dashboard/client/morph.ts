/**
 * Changes the content of an element to new HTML, and touches only the parts that differ: a part that is open,
 * focused, scrolled or marked stays so.
 *
 * Elements are matched by a key, so that a button that has the focus never becomes the button of another row.
 */

/** @param html of our own server, which has escaped all data in it. Scripts in it would not run. */
export function morphInto(selector: string, html: string): void {
  const target = document.querySelector(selector);
  if (!target) return;
  const { body } = new DOMParser().parseFromString(html, "text/html");
  const focused = document.activeElement;
  morphChildren(target, body);
  // An element that was moved has lost the focus.
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected)
    focused.focus({ preventScroll: true });
}

function morphChildren(from: Element, to: Element): void {
  const wanted = [...to.childNodes].map((node) => ({ node, key: keyOf(node) }));
  const left = new Map<string, number>();
  for (const { key } of wanted) left.set(key, (left.get(key) ?? 0) + 1);
  let at = from.firstChild;
  for (const { node, key } of wanted) {
    // Nodes that are no longer wanted are removed, so that those after them need not be moved.
    while (at && !left.get(keyOf(at))) at = removed(at);
    const match = sibling(at, key);
    left.set(key, (left.get(key) ?? 1) - 1);
    if (!match) {
      from.insertBefore(document.importNode(node, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else from.insertBefore(match, at);
    morphNode(match, node);
  }
  while (at) at = removed(at);
}

function removed(node: ChildNode): ChildNode | null {
  const { nextSibling } = node;
  node.remove();
  return nextSibling;
}

function sibling(from: ChildNode | null, key: string): ChildNode | null {
  for (let node = from; node; node = node.nextSibling) if (keyOf(node) === key) return node;
  return null;
}

/** Two nodes of one key are the same thing at different times. */
function keyOf(node: Node): string {
  if (!(node instanceof Element)) return node.nodeName;
  const of = (name: string) => node.getAttribute(name) ?? "";
  if (node.id) return `#${node.id}`;
  switch (node.nodeName) {
    case "A":
      return `A ${of("href")}`;
    case "FORM":
      return `FORM ${of("action")}`;
    case "INPUT":
    case "BUTTON":
      return `${node.nodeName} ${of("name")} ${of("type") === "hidden" || of("name") === "id" ? of("value") : ""}`;
    case "TR":
      return `TR ${node.querySelector("a[href]")?.getAttribute("href") ?? node.firstElementChild?.textContent}`;
    default:
      return node.nodeName;
  }
}

function morphNode(from: Node, to: Node): void {
  if (!(from instanceof Element) || !(to instanceof Element)) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  const isSameTime =
    from.nodeName === "TIME" && from.getAttribute("datetime") === to.getAttribute("datetime");
  if (isSameTime) return;
  morphAttributes(from, to);
  // The script draws into it.
  if (!from.matches(".plot, .drawn")) morphChildren(from, to);
}

/** The attributes that a person changes by opening or choosing an element: they stay as the person left them. */
const persons = ["open", "checked", "selected"];

function morphAttributes(from: Element, to: Element): void {
  for (const { name } of [...from.attributes])
    if (!to.hasAttribute(name) && !persons.includes(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes)
    if (from.getAttribute(name) !== value && !persons.includes(name)) from.setAttribute(name, value);
}
