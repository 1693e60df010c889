/** Prints the names that CI's sample contains, one a line: `node scripts/drawn.mjs chaos kills drains`. The first word tells lists apart. */
import { inSample } from "./sample.mjs";

const [list, ...names] = process.argv.slice(2);
for (const name of names) if (inSample(`${list} ${name}`)) console.log(name);
