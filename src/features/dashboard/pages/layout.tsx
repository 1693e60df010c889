/** The frame of every page. */
import type { FC, PropsWithChildren } from "hono/jsx";
import { href } from "./ui.tsx";

export interface Frame {
  base: string;
  title: string;
  menu: readonly { path: string; name: string }[];
  /** The path of the page below the base. */
  path: string;
  /** The address of live updates for this page; undefined: there are none. */
  live?: string | undefined;
  actor: string | null;
  files: { script: string; style: string };
}

const isUnder = (path: string, entry: string) =>
  entry === "/" ? path === "/" : path === entry || path.startsWith(`${entry}/`);

export const Layout: FC<PropsWithChildren<{ frame: Frame }>> = ({ frame, children }) => {
  const { base, title, menu, path, live, actor, files } = frame;
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="referrer" content="same-origin" />
        <title>{`${title} · dbq`}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href={href(base, files.style)} />
        <script src={href(base, files.script)} defer />
      </head>
      <body data-live={live}>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header>
          <a class="brand" href={href(base, "/")}>
            dbq
          </a>
          <nav aria-label="Pages">
            {menu.map((entry) => (
              <a href={href(base, entry.path)} aria-current={isUnder(path, entry.path) ? "page" : undefined}>
                {entry.name}
              </a>
            ))}
          </nav>
          <p class="who">
            {actor === null ? "" : <span title="Signed in as">{actor}</span>}
            <span id="live" role="status" />
          </p>
        </header>
        <main id="main" tabindex={-1}>
          {children}
        </main>
        <div id="toasts" role="status" aria-live="polite" />
      </body>
    </html>
  );
};
