/** Pages that no address has: what an action did, what has to be confirmed, and what went wrong. */
import type { Done } from "../actions.ts";
import type { Fields } from "../fields.ts";
import type { Html, PageContext } from "../page.ts";
import { visible } from "../visible.ts";
import { Confirm, type Counted, pairsOf } from "./confirm.tsx";
import { type Frame, Layout } from "./layout.tsx";

const document = (frame: Frame, content: Html): Html =>
  (<Layout frame={frame}>{content}</Layout>) as unknown as Html;

/** The whole document of a page. */
export const framed = (frame: Frame, content: Html): string =>
  `<!doctype html>${visible(String(document(frame, content)))}`;

/** @param more the form that goes on with an action on many tasks: where it is sent, and its fields */
export const answerPage = (
  frame: Frame,
  { ok, message }: Done,
  back: string,
  more?: { to: string; fields: Fields },
): string =>
  framed(
    frame,
    (
      <div class="answer">
        <h1>{ok ? "Done" : "Not done"}</h1>
        <p class={`notice ${ok ? "good" : "bad"}`}>{message}</p>
        {more === undefined ? (
          ""
        ) : (
          <form method="post" action={more.to} class="actions">
            {pairsOf(more.fields).map(([name, value]) => (
              <input type="hidden" name={name} value={value} />
            ))}
            <button type="submit">Go on with the next ones</button>
          </form>
        )}
        <a href={back}>Back</a>
      </div>
    ) as unknown as Html,
  );

export const problemPage = (frame: Frame, message: string, back: string): string =>
  framed(frame, problem(message, back));

/** The content of a page that cannot be shown. */
export const problem = (message: string, back: string): Html =>
  (
    <div class="answer">
      <h1>This did not work</h1>
      <p class="notice bad">{`${message[0]?.toUpperCase()}${message.slice(1)}.`}</p>
      <a href={back}>Back</a>
    </div>
  ) as unknown as Html;

/** Asks whether many tasks are meant. */
export const bulkPage = (frame: Frame, context: PageContext, of: Counted): string =>
  framed(frame, (<Confirm context={context} of={of} />) as unknown as Html);
