/** Finds the place of a seeded fault in the syntax trees of all sources, and rewrites the code there. */
import { parseAst } from "vitest/node";
import { isNode, readTexts } from "./sources.mjs";
import { edited, Fit, fits, inWordsOf, partsOf, readingsOf } from "./syntax-pattern.mjs";

/**
 * @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant
 * @typedef {Pick<Mutant, "name" | "in" | "find" | "replace">} Fault
 * @typedef {import("./sources.mjs").Node} Node
 * @typedef {import("./syntax-pattern.mjs").Reading} Reading
 * @typedef {{ path: string, text: string }} File
 * @typedef {{ name: string, outer: Scope | undefined }} Scope a declaration that has a name
 * @typedef {{ node: Node, file: File, scope: Scope | undefined, list: Node[] | undefined, at: number }} Spot
 * A node, the innermost declaration around it, and its index `at` in a list of siblings, if it is in one.
 * @typedef {{ spot: Spot, reading: Reading, fit: Fit, start: number, end: number }} Match
 * @typedef {{ file: string, start: number, end: number, text: string }} Edit
 */

export class Places {
  /** @type {Map<string, Spot[]>} */
  #spots = new Map();
  /** @type {Map<string, string>} */
  #texts = new Map();
  /** @type {Map<Fault, Edit>} */
  #known = new Map();
  /** All names that are declared. @type {Set<string>} */
  #names = new Set();

  /** @param {readonly File[]} files */
  constructor(files) {
    for (const file of files) {
      this.#texts.set(file.path, file.text);
      const tree = /** @type {Node} */ (/** @type {unknown} */ (treeOf(file)));
      this.#add({ node: tree, file, scope: undefined, list: undefined, at: 0 });
    }
  }

  /** @param {string} root */
  static of(root) {
    return new Places(readTexts(root, ["src", "drizzle", "demo", "migrations"], /\.(?:tsx?|[cm]js|sql)$/));
  }

  /**
   * The range that the fault replaces, and the new text.
   * @param {Fault} fault
   * @returns {Edit}
   * @throws Error when it has no place, or more than one
   */
  editOf(fault) {
    const known = this.#known.get(fault);
    if (known) return known;
    const match = this.#placeOf(fault);
    const edit = { file: match.spot.file.path, ...replacement(fault.replace, match) };
    this.#known.set(fault, edit);
    return edit;
  }

  /**
   * The text of each changed file with the faults in it, none of which may overlap another.
   * @param {readonly Fault[]} faults
   * @returns {Map<string, string>}
   */
  withFaults(faults) {
    const edits = faults.map((fault) => this.editOf(fault));
    const files = new Set(edits.map(({ file }) => file));
    const made = (/** @type {string} */ file) => edits.filter((edit) => edit.file === file);
    return new Map([...files].map((file) => [file, edited(this.textOf(file), made(file))]));
  }

  /**
   * The faults that have no place, each as a line that says why.
   * @param {readonly Fault[]} faults
   */
  misfits(faults) {
    return faults.flatMap((fault) => {
      try {
        this.editOf(fault);
        return [];
      } catch (error) {
        return [`${fault.name}: ${error instanceof Error ? error.message : error}`];
      }
    });
  }

  /**
   * The file that the fault changes; none when the fault has no place.
   * @param {Fault} fault
   */
  fileOf(fault) {
    return this.misfits([fault]).length === 0 ? this.editOf(fault).file : undefined;
  }

  /**
   * Groups of faults none of which overlaps another of its group: each group can be compiled at once.
   * @template {Fault} F
   * @param {readonly F[]} faults
   * @returns {F[][]}
   */
  layersOf(faults) {
    /** @type {F[][]} */
    const layers = [];
    for (const fault of faults) {
      const fitting = layers.find((layer) => !layer.some((other) => this.#overlap(fault, other)));
      if (fitting) fitting.push(fault);
      else layers.push([fault]);
    }
    return layers;
  }

  /** @param {string} file */
  textOf(file) {
    return this.#texts.get(file) ?? "";
  }

  /**
   * @param {Fault} one
   * @param {Fault} other
   */
  #overlap(one, other) {
    const [a, b] = [this.editOf(one), this.editOf(other)];
    return a.file === b.file && a.start < b.end && b.start < a.end;
  }

  /** @param {Spot} spot */
  #add(spot) {
    const { node, file } = spot;
    const name = declared(node);
    if (name !== undefined) this.#names.add(name);
    const scope = name === undefined ? spot.scope : { name, outer: spot.scope };
    const spots = this.#spots.get(node.type) ?? [];
    spots.push({ ...spot, scope });
    this.#spots.set(node.type, spots);
    for (const value of Object.values(node)) {
      const list = Array.isArray(value) ? value : undefined;
      for (const [at, child] of (list ?? [value]).entries()) {
        if (isNode(child)) this.#add({ node: child, file, scope, list, at });
      }
    }
  }

  /**
   * Looks in the declaration that `in` names, and nowhere else: the match that renames the fewest names wins. A name that
   * is gone from the source has to be renamed in each match, so the right one never renames more than a wrong one.
   * @param {Fault} fault
   * @returns {Match}
   */
  #placeOf({ in: within, find }) {
    const readings = readingsOf(find);
    const path = within === undefined ? [] : within.split(".");
    const unknown = path.find((name) => !this.#names.has(name));
    if (unknown !== undefined) throw new Error(`nothing in the sources is declared as ${unknown}`);
    const there = readings.flatMap((reading) => this.#matches(reading, path));
    const fewest = Math.min(...there.map(({ fit }) => fit.renamed));
    const best = there.filter(({ fit }) => fit.renamed === fewest);
    if (best.length === 1 && best[0]) return best[0];
    if (there.length > 0) throw new Error(`${asked(find, path)} fits more than one place:${listed(best)}`);
    throw new Error(`${asked(find, path)} fits no place${this.#nearest(readings, path)}`);
  }

  /**
   * @param {Reading} reading
   * @param {readonly string[]} path
   * @returns {Match[]}
   */
  #matches(reading, path) {
    const [piece] = reading.nodes;
    return (this.#spots.get(piece.type) ?? []).flatMap((spot) => {
      if (!isIn(spot.scope, path)) return [];
      const { text } = spot.file;
      if (reading.kind === "template")
        return partsOf(piece, spot.node, text).map((part) => ({ spot, reading, ...part }));
      const fit = new Fit();
      const last = fitsFrom(reading, spot, fit);
      return last ? [{ spot, reading, fit, start: spot.node.start, end: last.end }] : [];
    });
  }

  /**
   * The places that fit best up to where they differ: those in the declaration, else those in all sources.
   * @param {Reading[]} readings
   * @param {string[]} path
   */
  #nearest(readings, path) {
    const near = readings.flatMap((reading) =>
      (this.#spots.get(reading.nodes[0].type) ?? []).map((spot) => {
        const fit = new Fit();
        fitsFrom(reading, spot, fit);
        return { spot, start: spot.node.start, end: spot.node.end, nodes: fit.nodes };
      }),
    );
    const there = near.filter(({ spot }) => isIn(spot.scope, path));
    const best = (there.length > 0 ? there : near).sort((a, b) => b.nodes - a.nodes);
    return best.length > 0 ? `; the nearest:${listed(best.slice(0, 3))}` : "";
  }
}

/**
 * A migration counts as one template literal.
 * @param {File} file
 */
function treeOf({ path, text }) {
  if (!path.endsWith(".sql")) return parseAst(text, { lang: path.endsWith("x") ? "tsx" : "ts" }, path);
  const quasi = { type: "TemplateElement", start: -1, end: text.length + 1, value: { raw: text } };
  return { type: "TemplateLiteral", start: -1, end: text.length + 1, quasis: [quasi], expressions: [] };
}

/**
 * Fits the piece's nodes to this node and the siblings after it, and returns the last.
 * @param {Reading} reading
 * @param {Spot} spot
 * @param {Fit} fit
 * @returns {Node | undefined}
 */
function fitsFrom({ nodes }, { node, list, at, file }, fit) {
  const held = nodes.length === 1 ? [node] : (list?.slice(at, at + nodes.length) ?? []);
  return fits(nodes, held, fit, file.text) ? held.at(-1) : undefined;
}

/**
 * The name of a declaration; a `case` is named by its value.
 * @param {Node} node
 * @returns {string | undefined}
 */
function declared(node) {
  for (const named of [node.id, node.key, node.type === "SwitchCase" ? node.test : undefined]) {
    if (!isNode(named) || node.computed === true) continue;
    if (named.type === "Literal") return String(named.value);
    if (named.type === "PrivateIdentifier") return `#${named.name}`;
    if (named.type === "Identifier") return String(named.name);
  }
  return undefined;
}

/**
 * Whether these names occur among those of the enclosing declarations, in this order from the outside in.
 * @param {Scope | undefined} scope
 * @param {readonly string[]} path
 */
function isIn(scope, path) {
  let left = path.length;
  for (let at = scope; at && left > 0; at = at.outer) if (at.name === path[left - 1]) left -= 1;
  return left === 0;
}

// ---- replacements ----------------------------------------------------------------------------

/**
 * @param {string} replace
 * @param {Match} match
 * @returns {Omit<Edit, "file">}
 */
function replacement(replace, match) {
  const { start, end, reading, fit } = match;
  if (replace.trim() === "") return removal(match);
  const { kind } = reading;
  const put = readingsOf(replace).find((one) => kind !== "template" || one.kind === "template");
  if (!put) throw new Error(`the replacement of a part of a template must be a template: ${replace}`);
  const text = inWordsOf(put, fit);
  if (kind === "template") return { start, end, text: templateText(text, match.spot.file) };
  // Parentheses keep it one operand of the operator around it.
  return { start, end, text: kind === "expression" ? `(${text})` : text };
}

/**
 * @param {string} text
 * @param {File} file a backtick is escaped in TypeScript, and not in SQL
 */
function templateText(text, { path }) {
  const inner = text.trim().slice(1, -1);
  return path.endsWith(".sql") ? inner.replaceAll("\\`", "`") : inner;
}

/**
 * @param {Match} match
 * @returns {Omit<Edit, "file">}
 */
function removal({ spot: { node, list, at }, reading, start, end }) {
  if (reading.kind === "template") return { start, end, text: "" };
  if (/Statement$|Declaration$/.test(node.type)) return { start, end, text: list ? "" : ";" };
  if (!list) throw new Error("only a statement, or one of several siblings, can be replaced by nothing");
  // The comma after it goes too; after the last one, the comma before it.
  const next = list[at + reading.nodes.length];
  const before = list[at - 1];
  if (next) return { start, end: next.start, text: "" };
  return { start: before ? before.end : start, end, text: "" };
}

// ---- messages --------------------------------------------------------------------------------

/**
 * @param {string} find
 * @param {string[]} path
 */
function asked(find, path) {
  return `${JSON.stringify(find)}${path.length > 0 ? ` in ${path.join(".")}` : ""}`;
}

/** @param {readonly { spot: Spot, start: number, end: number }[]} places */
function listed(places) {
  const lines = places.slice(0, 5).map(({ spot: { file }, start, end }) => {
    const line = file.text.slice(0, start).split("\n").length;
    return `\n  ${file.path}:${line}: ${file.text.slice(start, end).replace(/\s+/g, " ").slice(0, 100)}`;
  });
  return lines.join("");
}
