/** Parses the pages of the demo, more strictly than a browser: unknown syntax is an error. */
import { createHash } from "node:crypto";

export interface Tag {
  name: string;
  closing: boolean;
  attributes: Map<string, string>;
}

const tag = /<(\/?)([a-z][a-z0-9]*)((?: [a-z-]+(?:="[^"<>]*")?)*)>/y;

/** No tag in this list can load or run anything, provided that `href` is checked. */
const harmlessTags = new Set(
  (
    "a article b blockquote br center code dd del details div dl dt em footer h1 h2 h3 h4 h5 h6 header hr i img ins input " +
    "kbd li main ol p pre q s samp small span strike strong sub summary sup table tbody td tfoot th thead tr tt u ul var"
  ).split(" "),
);
const harmlessAttributes = new Set(
  "align checked class colspan disabled href id open rel rowspan start title type".split(" "),
);

/** The tags of HTML in which each `<` begins a tag as the demo writes it. @throws Error for anything else */
export function tagsOf(html: string): Tag[] {
  const tags: Tag[] = [];
  for (let at = html.indexOf("<"); at !== -1; at = html.indexOf("<", tag.lastIndex)) {
    tag.lastIndex = at;
    const match = tag.exec(html);
    if (match === null) throw new Error(`not a tag: ${html.slice(at, at + 80)}`);
    const [, slash, name = "", attributes = ""] = match;
    tags.push({ name, closing: slash === "/", attributes: attributesOf(attributes) });
  }
  return tags;
}

function attributesOf(text: string): Map<string, string> {
  const found = [...text.matchAll(/ ([a-z-]+)(?:="([^"]*)")?/g)];
  return new Map(found.map(([, name = "", value = ""]) => [name, unescaped(value)]));
}

function unescaped(text: string): string {
  const characters: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => characters[name] ?? "");
}

/** The harmful tags and attributes in the content of a page. */
export function harmIn(html: string): string[] {
  const open: string[] = [];
  return tagsOf(html).flatMap(({ name, closing, attributes }) => {
    if (!harmlessTags.has(name)) return [`<${name}>`];
    const bad = [...attributes].filter(([key, value]) => !isHarmless(key, value));
    const opened = open.lastIndexOf(name);
    if (!closing) open.push(name);
    else if (opened === -1) bad.push([`</${name}>`, "closes a tag that is not open"]);
    else open.splice(opened, 1);
    return bad.map(([key, value]) => `${key}=${value}`);
  });
}

function isHarmless(name: string, value: string): boolean {
  if (name !== "href") return harmlessAttributes.has(name);
  return /^(?:https?:\/\/|mailto:|#)/.test(value) || /^[\w-]+\.html(?:#|$)/.test(value);
}

/** The policy, style and body of a page. @throws Error when the page is incomplete */
export function readPage(html: string): { policy: string; style: string; body: string } {
  const whole =
    /^<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="([^"]+)">[\s\S]*?<style>([\s\S]*?)<\/style>\n<\/head>\n<body>\n([\s\S]*?)\n<\/body>\n<\/html>\n$/;
  const [, policy, style, body] = whole.exec(html) ?? [];
  if (policy === undefined || style === undefined || body === undefined)
    throw new Error(`not a page: ${html.slice(0, 200)}`);
  return { policy, style, body };
}

/** The source expression by which a policy allows inline content. */
export function hashOf(content: string): string {
  return `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
}
