/** Shows control and format characters of a page's texts as escapes, as the command line does. */
import { printable } from "../../base/text/escapes.ts";

/** Tags, whose values the browser sends back, and texts that a person edits: both stay as they are. */
const kept = "<textarea[^]*?</textarea>|<[^>]*>";

/** Those that reorder, hide or confuse text; without the line breaks and tabs of arguments and stacks. */
const hidden = "[^\\P{Cc}\\n\\r\\t]|[\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}]";

/** Characters that are none of these: nearly all of most pages. Without the Unicode properties, a page takes a tenth of the time. */
const others = /[^\n\r\t -~\u00a0-\u00ac\u00ae-\u05ff\u2010-\u2027\u202f-\u205f\u20a0-\u2bff\u3000-\ud7ff]/;

const any = new RegExp(hidden, "u");
const each = new RegExp(`(${kept})|${hidden}`, "gu");

/** @param html of the dashboard, which has escaped all data in it: a `<` begins a tag */
export const visible = (html: string): string =>
  others.test(html) && any.test(html)
    ? html.replace(each, (found, tag?: string) => tag ?? printable(found))
    : html;
