/** TypeDoc's part of the site: groups the exports by what they are for, and writes the sidebar of the API. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Comment, CommentTag, Converter, ReflectionKind, RendererEvent } from "typedoc";
import { MarkdownPageEvent } from "typedoc-plugin-markdown";

/** The first pattern that fits the file of a declaration, and its name, decides. */
const categories = [
  [/options\.ts#(WorkerOptions|StopOptions)$/, "Workers"],
  [/^src\/(base\/(tasks|validation)\/|task\.ts)|durations\.ts/, "Tasks"],
  [/^src\/(queue\/|open\.ts|base\/options\/|base\/runtime\/within-result)/, "Queues"],
  [/^src\/features\/(queue\.ts|\w+\/methods\.ts)/, "Queues"],
  [/^src\/worker\/liveness\.ts|^src\/store\.ts|^src\/features\/inspect\//, "Health"],
  [/^src\/worker\//, "Workers"],
  [/^src\/entries\/otel\//, "dbq-ts/otel"],
  [/^src\/features\/testing\//, "dbq-ts/testing"],
  [/^src\/features\/drain\//, "dbq-ts/drain"],
  [/^src\/features\/manager\/agent\//, "dbq-ts/agent"],
  [/^src\/features\/dashboard\//, "dbq-ts/dashboard"],
  [/^src\/features\/manager\//, "dbq-ts/manager"],
  [/^src\/errors\.ts/, "Errors"],
  [/^src\/features\/transfer\//, "Moving"],
  [/./, "Other"],
];

/** A name of two words or more in backticks, and the name of an error. */
const mentioned =
  /(?<!\[)`([A-Za-z]+[A-Z]\w*)(?:\(\))?`(?!\])|(?<![`\w[/.#])([A-Z]\w+Error)\b(?![`\w\]]|\.md)/g;

/**
 * The docstrings name other exports without a link: this links them, except in code, headings and tables of types.
 * @param {string} text
 * @param {(name: string) => string | undefined} urlOf
 */
function withLinks(text, urlOf) {
  const parts = text.split(/^(```[\s\S]*?^```|#.*)$/m);
  const linked = (/** @type {string} */ part) =>
    part.replaceAll(mentioned, (whole, quoted, error) => {
      const url = urlOf(quoted ?? error);
      return url === undefined ? whole : `[${whole}](${url})`;
    });
  return parts.map((part) => (/^(```|#)/.test(part) ? part : linked(part))).join("");
}

/** Which inner class or interface has the same member. */
const overrides = /^#+ (?:Overrides|Inherited from)\n\n.*\n\n?/gm;

/** The parts of a queue that features add, of which the reader sees the methods. */
const partsOfQueue = /^## Extends\n\n(?:- .*\n)*?(?:- `\w+Methods`\n)+\n?/m;

/** The signature above has the type parameters; a table of them without a description says no more. */
const undescribedTypeParameters = /^#+ Type Parameters\n\n(?!.*Description)(?:\|.*\n)+\n?/gm;

/** @param {import("typedoc-plugin-markdown").MarkdownApplication} app */
export function load(app) {
  app.converter.on(
    Converter.EVENT_RESOLVE_BEGIN,
    ({ project }) => {
      for (const reflection of project.children ?? []) {
        const category = categorize(reflection);
        for (const member of [...(reflection.children ?? [])])
          if (isInside(member, category)) project.removeReflection(member);
      }
      // The site shows no lines of the sources.
      for (const reflection of Object.values(project.reflections)) delete reflection.sources;
    },
    1_000,
  );
  // TypeDoc asks only of types of this package whether they are exported.
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    project.packageName = "dbq-ts";
  });
  // A method in the condition of a type is no method that anybody calls.
  app.converter.on(Converter.EVENT_CREATE_SIGNATURE, (_, signature) => {
    const owner = signature.parent.parent;
    if (owner?.kind === ReflectionKind.TypeLiteral && owner.parent?.kind === ReflectionKind.TypeAlias)
      signature.comment ??= new Comment([{ kind: "text", text: " " }]);
  });
  app.renderer.on(MarkdownPageEvent.END, (page) => {
    const title = page.contents.replace(/^# (\w+)&lt;.*$/m, "# $1");
    page.contents = title
      .replaceAll(undescribedTypeParameters, "")
      .replaceAll(overrides, "")
      .replace(partsOfQueue, "");
    const linked = withLinks(page.contents, (name) => {
      const named = name === page.model.name ? undefined : page.project.getChildByName([name]);
      return named && `/api/${app.renderer.router.getFullUrl(named)}`;
    });
    page.contents = `---\npageClass: api\n---\n\n${linked}`;
  });
  app.renderer.on(RendererEvent.END, ({ project, outputDirectory }) => {
    const items = (project.categories ?? []).map(({ title, children }) => ({
      text: title,
      collapsed: title === "Errors",
      items: children.map((child) => ({
        text: child.name,
        link: `/api/${app.renderer.router.getFullUrl(child)}`,
      })),
    }));
    writeFileSync(join(outputDirectory, "sidebar.json"), JSON.stringify(items));
  });
}

/**
 * Whether a member is of no use to a reader: dbq itself makes its errors and queues, and `instanceof` needs no explanation.
 * @param {import("typedoc").DeclarationReflection} member
 * @param {string} category
 */
function isInside(member, category) {
  const isMadeByDbq = category === "Errors" || member.parent?.name === "Queue";
  return member.name === "[hasInstance]" || (member.kind === ReflectionKind.Constructor && isMadeByDbq);
}

/**
 * @param {import("typedoc").DeclarationReflection} reflection
 * @returns {string} the category
 */
function categorize(reflection) {
  const source = reflection.sources?.[0] ?? reflection.signatures?.[0]?.sources?.[0];
  const place = `${source?.fullFileName.replace(/^.*?(?=src\/)/, "")}#${reflection.name}`;
  const [, category = "Other"] = categories.find(([pattern]) => pattern.test(place)) ?? [];
  // The documentation of a function is that of its first signature.
  const documented = reflection.signatures?.[0] ?? reflection;
  documented.comment ??= new Comment();
  documented.comment.blockTags.push(new CommentTag("@category", [{ kind: "text", text: category }]));
  return category;
}
