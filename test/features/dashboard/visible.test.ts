/** Texts of strangers on the pages: no control or format character reaches a browser as itself. */
import { expect, test } from "vitest";
import { visible } from "../../../src/features/dashboard/visible.ts";
import { remoteTask } from "../../../src/index.ts";
import { openDesk } from "./requests.ts";

const turned = "abc\u202efdp.exe\u001b[31m";

test("control and format characters of texts are escapes; line breaks, tags and texts to edit stay as they are", () => {
  expect(visible(`<p title="${turned}">${turned}</p>`)).toBe(
    `<p title="${turned}">abc\\u202efdp.exe\\x1b[31m</p>`,
  );
  expect(visible("<pre>a\n\tb\u200b</pre>")).toBe("<pre>a\n\tb\\u200b</pre>");
  expect(visible(`<textarea name="args">["${turned}"]</textarea>\u2066`)).toBe(
    `<textarea name="args">["${turned}"]</textarea>\\u2066`,
  );
  expect(visible("<p>مرحبا 日本 ✓</p>")).toBe("<p>مرحبا 日本 ✓</p>");
});

test("each control and format character alone is an escape, and no other character is", () => {
  const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
  const wrong: string[] = [];
  for (let code = 0; code <= 0x10ffff; code += 1) {
    const character = String.fromCodePoint(code);
    const isHidden = hidden.test(character) && !"\n\r\t".includes(character);
    if ((visible(character) !== character) !== isHidden) wrong.push(code.toString(16));
  }
  expect(wrong).toEqual([]);
});

test("a name and an argument with a right-to-left override show it on each page, and links and fields keep it", async () => {
  const { queue, get } = await openDesk();
  const func = remoteTask(turned).with({ queueName: turned });
  const id = await queue.enqueueTask(func, turned);
  await queue.pause({ queueName: turned });
  const filter = `/tasks?func=${encodeURIComponent(turned)}`;
  for (const path of ["/", "/queues", "/functions", "/tasks", `/tasks/${id}`, filter]) {
    const html = await (await get(path)).text();
    const texts = html.replaceAll(/<textarea.*?<\/textarea>|<[^>]*>/gs, "");
    expect([path, texts]).toEqual([path, expect.stringContaining("abc\\u202efdp.exe\\x1b[31m")]);
    expect([path, texts.match(/[\p{Cf}]/u)]).toEqual([path, null]);
  }
  const html = await (await get(filter)).text();
  expect(html).toContain(`name="func" value="${turned}"`);
});
