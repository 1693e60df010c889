/**
 * Matches pieces of TypeScript with nodes of a syntax tree. Structure, literals and operators have to be the same; format,
 * comments and quotes do not matter; names may differ, as long as each name of the piece stands for one name of the source.
 */
import { parseAst } from "vitest/node";
import { isNode } from "./sources.mjs";

/**
 * @typedef {import("./sources.mjs").Node} Node
 * @typedef {{ start: number, end: number }} Range
 * @typedef {"expression" | "template" | "list"} Kind
 * @typedef {{ kind: Kind, nodes: [Node, ...Node[]], text: string, shift: number }} Reading
 * One way to read a piece: an expression, a part of a template literal, or siblings (statements, members, properties,
 * elements). `shift` is the offset of the piece in the text that was parsed.
 * @typedef {"variable" | "member"} Role a variable and a member are renamed apart, even where they are spelled alike
 */

/** Statements, `await`, `yield`, `return`, `break` and private names are all valid between these two. */
const method = /** @type {const} */ (["class _ { async *_() { for (;;) {", "\n} } }"]);

/** @param {string} before @param {string} after */
const inMethodBetween = (before, after) =>
  /** @type {const} */ ([`${method[0]}${before}`, `${after}${method[1]}`]);

const asExpression = inMethodBetween("(", "\n)");

/** The text around a piece, and the path to the piece in the tree. @type {[readonly [string, string], (tree: any) => Node[]][]} */
const asList = [
  [method, inMethod],
  [inMethodBetween("({", "\n})"), (tree) => expressionOf(tree).properties],
  [["class _ {", "\n}"], (tree) => tree.body[0].body.body],
  [inMethodBetween("switch (0) {", "\n}"), (tree) => inMethod(tree)[0].cases],
];

/** @param {any} tree */
function inMethod(tree) {
  return tree.body[0].body.body[0].value.body.body[0].body.body;
}

/** @param {any} tree */
const expressionOf = (tree) => inMethod(tree)[0].expression;

/**
 * All ways to read a piece: `charge: 1` may be a labelled statement or a property. The sources decide.
 * @param {string} text
 * @returns {Reading[]}
 * @throws Error when the text cannot be parsed in any of these ways
 */
export function readingsOf(text) {
  const [expression] = parsed(text, asExpression, (tree) => [expressionOf(tree)]);
  if (expression) return [{ ...expressionReading(expression), text, shift: asExpression[0].length }];
  const readings = asList.flatMap(([around, of]) => {
    const nodes = parsed(text, around, of);
    return isSome(nodes)
      ? [{ kind: /** @type {const} */ ("list"), nodes, text, shift: around[0].length }]
      : [];
  });
  if (readings.length === 0) throw new Error(`no piece of TypeScript: ${text}`);
  return readings;
}

/**
 * @param {Node[]} nodes
 * @returns {nodes is [Node, ...Node[]]}
 */
const isSome = (nodes) => nodes.length > 0;

/**
 * @param {Node} expression
 * @returns {Pick<Reading, "kind" | "nodes">}
 */
function expressionReading(expression) {
  if (expression.type === "TemplateLiteral") return { kind: "template", nodes: [expression] };
  if (expression.type !== "SequenceExpression") return { kind: "expression", nodes: [expression] };
  return { kind: "list", nodes: /** @type {[Node, ...Node[]]} */ (expression.expressions) };
}

/**
 * @param {string} text
 * @param {readonly [string, string]} around
 * @param {(tree: unknown) => Node[]} of
 */
function parsed(text, [before, after], of) {
  try {
    return of(parseAst(`${before}${text}${after}`, { lang: "ts" }));
  } catch {
    return [];
  }
}

// ---- names -----------------------------------------------------------------------------------

/** One match: which name of the piece is which name of the source, and the code that each hole stands for. */
export class Fit {
  /** @type {Map<string, string>} */
  #names = new Map();
  /** @type {Map<string, string>} */
  #taken = new Map();
  /** @type {Map<string, string>} */
  #holes = new Map();
  /** How many nodes matched: the place with the most is the nearest, when a piece matches nowhere. */
  nodes = 0;

  /** How many names differ in the source. */
  get renamed() {
    return [...this.#names].filter(([key, name]) => !key.endsWith(` ${name}`)).length;
  }

  /**
   * Two names never become one, and the platform's globals keep their names.
   * @param {Role} role
   * @param {string} name
   * @param {string} other
   */
  takes(role, name, other) {
    if (role === "variable" && name !== other && (name in globalThis || other in globalThis)) return false;
    const [key, back] = [`${role} ${name}`, `${role} ${other}`];
    if ((this.#names.get(key) ?? other) !== other || (this.#taken.get(back) ?? name) !== name) return false;
    this.#names.set(key, other);
    this.#taken.set(back, name);
    return true;
  }

  /**
   * @param {Role} role
   * @param {string} name
   */
  nameOf(role, name) {
    return this.#names.get(`${role} ${name}`) ?? name;
  }

  /**
   * @param {string} hole
   * @param {string} text
   */
  fills(hole, text) {
    const before = this.#holes.get(hole) ?? text;
    this.#holes.set(hole, text);
    return before === text;
  }

  /** @param {string} hole */
  filling(hole) {
    return this.#holes.get(hole);
  }
}

/**
 * `$any` stands for one node, `$$$any` for any number of neighbours in a list.
 * @param {unknown} node
 * @returns {string | undefined}
 */
function holeOf(node) {
  if (!isNode(node)) return undefined;
  if (node.type === "ExpressionStatement") return holeOf(node.expression);
  if (node.type === "Property" && node.shorthand) return holeOf(node.key);
  return node.type === "Identifier" && /^\$/.test(String(node.name)) ? String(node.name) : undefined;
}

/** @param {unknown} node */
const isList = (node) => holeOf(node)?.startsWith("$$$") ?? false;

// ---- fitting ---------------------------------------------------------------------------------

/** Keys of a node that say where it stands or how it is spelled, not what it means; names are compared apart. */
const noMatter = new Set(["type", "start", "end", "raw", "shorthand", "tail", "directive", "name"]);

/**
 * @param {unknown} piece
 * @param {unknown} node
 * @param {Fit} fit records the names and the holes
 * @param {string} text of the source
 * @param {Role} [role] of an identifier that stands here
 * @returns {boolean}
 */
export function fits(piece, node, fit, text, role = "variable") {
  if (Array.isArray(piece)) return Array.isArray(node) && listFits(piece, node, fit, text);
  if (!isNode(piece)) return piece === node || same(piece, node);
  if (!isNode(node)) return false;
  const hole = holeOf(piece);
  if (hole !== undefined) return fit.fills(hole, text.slice(node.start, node.end));
  if (piece.type !== node.type) return false;
  if (piece.type === "TemplateLiteral") return templateFits(piece, node, fit, text);
  if (/^(?:Private)?Identifier$/.test(piece.type) && !fit.takes(role, nameIn(piece), nameIn(node)))
    return false;
  fit.nodes += 1;
  return Object.keys(piece).every(
    (key) => noMatter.has(key) || fits(piece[key], node[key], fit, text, roleOf(piece, key)),
  );
}

/**
 * Compares objects that are no nodes, such as regular expressions.
 * @param {unknown} a
 * @param {unknown} b
 */
function same(a, b) {
  return typeof a === "object" && typeof b === "object" && String(a) === String(b) && plain(a) === plain(b);
}

/** @param {unknown} value */
const plain = (value) => JSON.stringify(value);

/** @param {Node} node */
const nameIn = (node) => `${node.type === "PrivateIdentifier" ? "#" : ""}${node.name}`;

/**
 * @param {Node} owner
 * @param {string} key
 * @returns {Role}
 */
function roleOf(owner, key) {
  const names = key === "key" || (key === "property" && owner.type === "MemberExpression");
  return names && owner.computed !== true ? "member" : "variable";
}

/**
 * @param {readonly unknown[]} pieces
 * @param {readonly unknown[]} nodes
 * @param {Fit} fit
 * @param {string} text
 * @returns {boolean}
 */
function listFits(pieces, nodes, fit, text) {
  const at = pieces.findIndex(isList);
  if (at === -1)
    return pieces.length === nodes.length && pieces.every((one, i) => fits(one, nodes[i], fit, text));
  const end = nodes.length - (pieces.length - at - 1);
  if (end < at) return false;
  const [first, last] = [nodes[at], nodes[end - 1]];
  const held = end > at && isNode(first) && isNode(last) ? text.slice(first.start, last.end) : "";
  const rest = pieces.slice(at + 1);
  return (
    listFits(pieces.slice(0, at), nodes.slice(0, at), fit, text) &&
    fit.fills(String(holeOf(pieces[at])), held) &&
    listFits(rest, nodes.slice(end), fit, text)
  );
}

/**
 * @typedef {{ quasis: { start: number, value: { raw: string } }[], expressions: Node[] }} Template
 * @param {Node} node
 */
const templateOf = (node) => /** @type {Node & Template} */ (/** @type {unknown} */ (node));

/**
 * Its text as written, with "\0" for each value.
 * @param {Node} node
 */
const rawOf = (node) =>
  templateOf(node)
    .quasis.map(({ value }) => value.raw)
    .join("\0");

/**
 * Compares whole templates, up to white space.
 * @param {Node} piece
 * @param {Node} node
 * @param {Fit} fit
 * @param {string} text
 */
function templateFits(piece, node, fit, text) {
  fit.nodes += 1;
  const [a, b] = [rawOf(piece), rawOf(node)].map((raw) => raw.replace(/\s+/g, " ").trim());
  return a === b && fits(piece.expressions, node.expressions, fit, text);
}

/**
 * Finds a part of a template in a template.
 * @param {Node} piece
 * @param {Node} node
 * @param {string} text
 * @returns {(Range & { fit: Fit })[]}
 */
export function partsOf(piece, node, text) {
  const [part, whole] = [templateOf(piece), templateOf(node)];
  const raw = rawOf(node);
  return [...raw.matchAll(loosely(rawOf(piece)))].flatMap(({ 0: found, index }) => {
    const fit = new Fit();
    const first = raw.slice(0, index).split("\0").length - 1;
    const held = whole.expressions.slice(first, first + part.expressions.length);
    if (!fits(part.expressions, held, fit, text)) return [];
    return [{ start: offsetIn(whole, raw, index), end: offsetIn(whole, raw, index + found.length), fit }];
  });
}

/**
 * Any white space matches any other. A backtick needs no backslash in the source, as it has none in a migration.
 * @param {string} raw
 */
function loosely(raw) {
  const words = raw.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(words.join("\\s+").replaceAll("\\\\`", "\\\\?`"), "g");
}

/**
 * The offset in the source of a character of a template's raw text.
 * @param {Template} template
 * @param {string} raw
 * @param {number} at
 */
function offsetIn({ quasis }, raw, at) {
  const before = raw.slice(0, at).split("\0");
  return (quasis[before.length - 1]?.start ?? 0) + 1 + (before.at(-1)?.length ?? 0);
}

// ---- rewriting -------------------------------------------------------------------------------

/**
 * The piece's text with the names of the source, and with its holes filled.
 * @param {Reading} reading
 * @param {Fit} fit
 */
export function inWordsOf({ nodes, text, shift }, fit) {
  /** @type {(Range & { text: string })[]} */
  const edits = [];
  for (const node of nodes) rename(node, fit, edits, "variable");
  return edited(
    text,
    edits.map(({ start, end, text }) => ({ start: start - shift, end: end - shift, text })),
  );
}

/**
 * @param {unknown} node
 * @param {Fit} fit
 * @param {(Range & { text: string })[]} edits
 * @param {Role} role
 */
function rename(node, fit, edits, role) {
  if (Array.isArray(node)) for (const one of node) rename(one, fit, edits, role);
  if (!isNode(node)) return;
  const hole = holeOf(node);
  const filling = hole === undefined ? undefined : fit.filling(hole);
  if (filling !== undefined) {
    edits.push({ start: node.start, end: node.end, text: filling });
    return;
  }
  if (/^(?:Private)?Identifier$/.test(node.type)) {
    const name = nameIn(node);
    edits.push({ start: node.start, end: node.start + name.length, text: fit.nameOf(role, name) });
  }
  const short = node.type === "Property" && node.shorthand === true;
  if (short) lengthen(node, fit, edits);
  for (const key of Object.keys(node)) {
    if (!(short && key === "key")) rename(node[key], fit, edits, roleOf(node, key));
  }
}

/**
 * `{ id }` becomes `{ id: taskId }` when only the variable was renamed.
 * @param {Node} node
 * @param {Fit} fit
 * @param {(Range & { text: string })[]} edits
 */
function lengthen({ start, key }, fit, edits) {
  const name = isNode(key) ? nameIn(key) : "";
  const member = fit.nameOf("member", name);
  if (member !== fit.nameOf("variable", name)) edits.push({ start, end: start, text: `${member}: ` });
}

/**
 * The text with all edits made, none of which may overlap another.
 * @param {string} text
 * @param {readonly (Range & { text: string })[]} edits
 */
export function edited(text, edits) {
  // Of two edits at one offset, the insertion comes first in the text.
  const backwards = edits.toSorted((a, b) => b.start - a.start || b.end - a.end);
  return backwards.reduce(
    (done, { start, end, text }) => done.slice(0, start) + text + done.slice(end),
    text,
  );
}
